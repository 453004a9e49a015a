"""Doxygen makes the reference of the public API without a warning: everything public has a comment.

Usage: api_docs_test.py
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENSOR = re.compile(r"\bTensor\b|\bTensorList\b")
# Of functions with these arguments alone nothing can go wrong: none, a switch, another object of the class.
CANNOT_BE_WRONG = re.compile(r"|bool|(const )?\w+ ?&&?|Value(Combine|Coefficient)|BankInit|ParameterRole|(const )?TargetLayers &")
# Setters, serialization as torch::optim's, and options that a constructor checks.
NEVER_THROW = {"set_lr", "serialize", "save", "reset", "reset_parameters", "fixed", "id_dtype", "cache_capacity", "key_cache",
               "value_cache", "cache_keys", "add"}
TOLD_BY_THE_CLASS = {"bov::AtomicFile::AtomicFile", "bov::AtomicFile::write"}
# Of these functions tensors may have any shape: parameters of a module, and what belongs to them by name.
ANY_SHAPE = {"AdamW", "Muon", "TrainingOptimizer", "load_state", "published_parameter_groups", "state", "state_of", "will_need"}


def doxygen(folder, **settings):
    """Runs it from the root with docs/Doxyfile, into `folder`, as XML."""
    settings = {"OUTPUT_DIRECTORY": folder, "GENERATE_HTML": "NO", "GENERATE_XML": "YES", **settings}
    text = (ROOT / "docs/Doxyfile").read_text() + "".join(f"\n{key} = {value}" for key, value in settings.items())
    return subprocess.run(["doxygen", "-"], cwd=ROOT, input=text, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


class ApiDocs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.result = doxygen(cls.folder)

    def compounds(self, *kinds):
        for entry in xml.parse(self.folder / "xml/index.xml").getroot():
            if entry.get("kind") in kinds:
                yield xml.parse(self.folder / "xml" / (entry.get("refid") + ".xml")).getroot().find("compounddef")

    def test_no_warning(self):
        self.assertEqual((self.result.returncode, self.result.stdout), (0, ""))

    def test_covers_the_public_headers(self):
        listed = re.findall(r"^\| `(\S+\.h)` \|", (ROOT / "docs/api.md").read_text(), re.MULTILINE)
        self.assertEqual(sorted(file.find("location").get("file") for file in self.compounds("file")), sorted(listed))

    def functions(self):
        """Each public function: its name with its class or namespace, its comment, and the types of result and arguments."""
        for compound in self.compounds("class", "struct", "namespace"):
            for function in compound.iterfind("sectiondef/memberdef[@kind='function'][@prot='public']"):
                name = f"{compound.findtext('compoundname')}::{function.findtext('name')}"
                comment, result, arguments = ("".join("".join(part.itertext()) for part in parts) for parts in (
                    (part for part in function if part.tag.endswith("description")),
                    function.iterfind("type"), function.iterfind("param/type")))
                yield name, comment, result, arguments

    def test_functions_of_tensors_give_shapes(self):
        checked = 0
        for name, comment, result, arguments in self.functions():
            if TENSOR.search(result + arguments) and name.rpartition("::")[2] not in ANY_SHAPE:
                with self.subTest(function=name):
                    self.assertIn("[", comment)
                checked += 1
        self.assertGreater(checked, 30)

    def test_functions_say_what_they_throw(self):
        """Those that are given anything which may be wrong: all but accessors, setters, comparisons and spellings."""
        checked = 0
        for name, comment, _, arguments in self.functions():
            short = name.rpartition("::")[2]
            if CANNOT_BE_WRONG.fullmatch(arguments.strip()) or short.endswith("Options") or short in NEVER_THROW or name in TOLD_BY_THE_CLASS:
                continue
            with self.subTest(function=name, arguments=arguments):
                self.assertRegex(comment, r"\b[Tt]hrows?\b|not checked")
            checked += 1
        self.assertGreater(checked, 80)

    def test_a_missing_comment_is_found(self):
        header = self.folder / "missing.h"
        header.write_text("/// A namespace.\nnamespace missing {\n/// A class.\nclass Told {\n public:\n  int untold();\n};\n}\n")
        with tempfile.TemporaryDirectory() as folder:
            result = doxygen(folder, INPUT=header)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("untold() (function) of class missing::Told is not documented", result.stdout)


if __name__ == "__main__":
    if not shutil.which("doxygen"):
        print("SKIPPED: doxygen is not installed")
        sys.exit(77)
    unittest.main()
