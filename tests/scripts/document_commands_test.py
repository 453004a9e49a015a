"""Every command that README.md and docs/ show exists, with its subcommands, options and files; cheap ones are run.

Usage: document_commands_test.py BOV [UNITTEST_ARGUMENT...]     (BOV: the program that was built)

Commands are the lines of fenced blocks marked `sh`.
"""

import functools
import pathlib
import re
import shlex
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MAIN_COMMANDS = ["scripts/bov ablate experiments/configs/quickstart.yaml", "scripts/test"]
ROWS = ROOT / "experiments/configs/rows"
FOLDERS = ("bov/", "cmake/", "csrc/", "docs/", "experiments/", "scripts/", "tests/")
BLOCK = re.compile(r"^ *```sh\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def commands_of(text):
    """The words of each command of the blocks, without comments, prompts and variables before the program."""
    for block in BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            lexer = shlex.shlex(line.strip().removeprefix("$ "), posix=True, punctuation_chars=";|&<>")
            lexer.whitespace_split = True
            words = []
            for word in [*lexer, ";"]:
                if not re.fullmatch(r"[;|&]+", word):
                    words.append(word)
                    continue
                while words and re.match(r"\w+=", words[0]):
                    words.pop(0)
                if words:
                    yield words
                words = []


@functools.cache
def help_of(*subcommands):
    """What `bov SUBCOMMANDS --help` prints; None if there is no such subcommand."""
    result = subprocess.run([BOV, *subcommands, "--help"], capture_output=True, text=True)
    return result.stdout if result.returncode == 0 else None


@functools.cache
def run_once(*arguments):
    return subprocess.run([BOV, *arguments], cwd=ROOT, capture_output=True, text=True)


def split_subcommands(arguments):
    """The subcommands at the start of the arguments, then the rest."""
    count = 0
    while count < len(arguments) and re.search(rf"^  {re.escape(arguments[count])}\s", subcommands_of(*arguments[:count]),
                                               re.MULTILINE):
        count += 1
    return arguments[:count], arguments[count:]


def subcommands_of(*subcommands):
    return (help_of(*subcommands) or "").partition("Subcommands:")[2]


def problems_of_bov(arguments):
    subcommands, rest = split_subcommands(arguments)
    if not subcommands and not (rest and rest[0].startswith("--")):
        yield f"bov has no command '{rest[0] if rest else ''}'"
        return
    text = help_of(*subcommands)
    for word in rest:
        option = word.partition("=")[0]
        if option.startswith("--") and not re.search(rf"(^|[\s,]){re.escape(option)}\b", text):
            yield f"'bov {' '.join(subcommands)}' has no option {option}"


def problems_of(words):
    program, arguments = words[0], words[1:]
    if program in ("bov", "scripts/bov"):
        yield from problems_of_bov(arguments)
    for word in [program, *arguments]:
        if word.startswith(FOLDERS) and not (ROOT / word).exists() and not re.search(r"[*{$]", word):
            yield f"there is no {word}"


def cheap_form(words):
    """The command as it can be run in a second, or nothing."""
    if words[0] not in ("bov", "scripts/bov"):
        return None
    if words[1] == "ablate" and words[2].startswith("experiments/"):
        return [*words[1:], "--dry-run"]
    if words[1] == "compare" and words[2].startswith("docs/"):
        return words[1:]
    if words[1] in ("inspect", "memory", "--version", "--help") or words[1:] == ["doctor"]:
        return words[1:]
    return None


class DocumentCommands(unittest.TestCase):
    def test_main_commands_are_in_the_readme(self):
        shown = [" ".join(words) for words in commands_of((ROOT / "README.md").read_text())]
        for command in MAIN_COMMANDS:
            self.assertIn(command, shown)

    def test_commands_exist(self):
        for document in DOCUMENTS:
            for words in commands_of(document.read_text()):
                with self.subTest(document=document.name, command=" ".join(words)):
                    self.assertEqual(list(problems_of(words)), [])

    def test_cheap_commands_run(self):
        for document in DOCUMENTS:
            for words in commands_of(document.read_text()):
                arguments = cheap_form(words)
                if arguments is None:
                    continue
                with self.subTest(document=document.name, command=" ".join(words)):
                    result = run_once(*arguments)
                    self.assertEqual((result.returncode, result.stderr), (0, ""))
                    self.assertNotEqual(result.stdout, "")


class ResultPages(unittest.TestCase):
    def test_the_readme_shows_the_rows_of_the_grid(self):
        def tables(document):
            """The cells of each line of its first table, by the names of the columns."""
            lines = [line for line in document.read_text().split("\n## Where")[0].splitlines() if line.startswith("| ")]
            header, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
            return header, [dict(zip(header, row)) for row in rows if not row[0].startswith("-")]

        columns, shown = tables(ROOT / "README.md")
        _, recorded = tables(ROOT / "docs/results/cpu_table1.md")
        self.assertEqual(len(shown), 18)
        self.assertEqual(shown, [{name: row[name] for name in columns} for row in recorded[: len(shown)]])

    def test_tables_and_findings_are_those_of_the_records(self):
        """docs/results/NAME.md against the records of runs in docs/results/NAME, where there are some."""
        checked = 0
        for document in (ROOT / "docs/results").glob("*.md"):
            folder = document.with_suffix("")
            if not any(folder.glob("*/seed-*/result.json")):
                continue
            result = run_once("compare", str(folder.relative_to(ROOT)), "--markdown")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            _, _, below_title = result.stdout.partition("\n\n")
            with self.subTest(document=document.name):
                self.assertIn(below_title, document.read_text())
                checked += 1
        self.assertGreater(checked, 0)


class ValueSources(unittest.TestCase):
    """The tables of docs/value_sources.md and the code of docs/add_a_value_source.md against the files they speak of."""

    def rows(self):
        for line in (ROOT / "docs/value_sources.md").read_text().splitlines():
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            configs = [name for name in re.findall(r"`(\w+)`", line) if (ROWS / f"{name}.yaml").exists()]
            if configs and len(cells) > 3:
                yield cells, configs[-1]

    def test_every_row_config_has_a_line(self):
        listed = [config for _, config in self.rows()]
        expected = [file.stem for file in ROWS.glob("*.yaml")]
        self.assertEqual(sorted(listed), sorted(expected))

    def test_every_line_names_a_class_and_golden_files_that_exist(self):
        sources = "".join(file.read_text() for file in (ROOT / "bov/value/sources").glob("*.cpp"))
        golden = {file.stem for file in (ROOT / "tests/golden").glob("*.safetensors")}
        compared = set()
        for cells, config in self.rows():
            with self.subTest(config=config):
                (name,) = re.findall(r"`(\w+Source)`", " ".join(cells))
                self.assertIn(f"class {name} :", sources)
                if len(cells) == 7:
                    compared.add(cells[5].strip("`"))
        self.assertEqual(compared, golden)

    def test_the_source_in_the_guide_is_the_one_that_is_tested(self):
        (code,) = re.findall(r"```cpp\n(.*?)```", (ROOT / "docs/add_a_value_source.md").read_text(), re.DOTALL)
        self.assertIn(code, (ROOT / "tests/value/registered_source_test.cpp").read_text())


class Reading(unittest.TestCase):
    """The reader itself."""

    def test_blocks(self):
        text = "scripts/none\n```sh\n$ scripts/bov a  # note\nX=1 scripts/test -R b && bov c \\\n  | jq .d\n```\n```yaml\nbov: e\n```\n"
        self.assertEqual(list(commands_of(text)),
                         [["scripts/bov", "a"], ["scripts/test", "-R", "b"], ["bov", "c"], ["jq", ".d"]])

    def test_problems_are_found(self):
        for words, expected in [
            (["scripts/bov", "fly"], "bov has no command 'fly'"),
            (["scripts/bov", "data", "build", "--nothing"], "'bov data build' has no option --nothing"),
            (["scripts/bov", "inspect", "experiments/configs/none.yaml"], "there is no experiments/configs/none.yaml"),
            (["scripts/none"], "there is no scripts/none"),
        ]:
            self.assertEqual(list(problems_of(words)), [expected])


if __name__ == "__main__":
    BOV = sys.argv.pop(1)
    unittest.main()
