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

    def test_functions_of_tensors_give_shapes(self):
        checked = 0
        for compound in self.compounds("class", "struct", "namespace"):
            for function in compound.iterfind("sectiondef/memberdef[@kind='function'][@prot='public']"):
                types = "".join("".join(part.itertext()) for part in [*function.iterfind("type"), *function.iterfind("param/type")])
                name = function.findtext("name")
                if not TENSOR.search(types) or name in ANY_SHAPE:
                    continue
                comment = "".join("".join(part.itertext()) for part in function if part.tag.endswith("description"))
                with self.subTest(function=f"{compound.findtext('compoundname')}::{name}"):
                    self.assertIn("[", comment)
                checked += 1
        self.assertGreater(checked, 30)

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
