"""Checks the readers, filters and the duplicate finder of scripts/corpus, and scripts/fetch_corpus with a stand-in for apt-get."""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS / "corpus"))

from duplicates import DuplicateFinder  # noqa: E402
from filters import is_documentation, is_prose  # noqa: E402
from games import cataclysm, endless_sky, wesnoth  # noqa: E402
from manual_pages import man_paragraphs, pod_paragraphs  # noqa: E402
from markup import markup_paragraphs  # noqa: E402
from plain_text import book_chapters, wrapped_paragraphs  # noqa: E402
from r_data import read_objects  # noqa: E402
from sources import PROFILES  # noqa: E402
from sword import module_chapters  # noqa: E402

SENTENCE = "The reader of this page may see that it is a sentence which has no code in it and is as long as it must be."


def check_markup():
    page = """<html><head><title>no</title><style>p{}</style></head><body><nav>menu</nav>
      <h1>A heading</h1><p>One <b>bold</b> word&mdash;and <code>x&lt;y</code>.<p>Two<br>lines
      <pre>code <pre>nested</pre> more</pre>after<img src="a"> it</p><ul><li>item</ul></body></html>"""
    assert markup_paragraphs(page) == ["A heading", "One bold word—and x<y.", "Two lines after it", "item"]
    osis = 'In <w lemma="1">the beginning</w><note>a <b>note</b></note> , God <section>next</section>'
    assert markup_paragraphs(osis) == ["In the beginning, God", "next"]


def check_plain_text():
    assert wrapped_paragraphs("one\ntwo\n\n      code\n\n three\u00ad\n\n\n") == ["one two", "three"]
    book = "licence\n*** START OF THIS BOOK ***\nCHAPTER I\n\nIt _was_ so.\n\nCHAPTER II\n\nEnd it.\n\n*** END OF THIS BOOK\nlicence"
    assert book_chapters(book) == [["CHAPTER I", "It was so."], ["CHAPTER II", "End it."]]


def check_manual_pages():
    man = '.\\" comment\n.TH A 1\n.SH NAME\nls \\- list\n.PP\nThe\n.BR ls (1)\ncommand\n.I lists\nfiles.\n.nf\ncode\n.fi\nIt\\(aqs\n.B "two words"\n'
    assert man_paragraphs(man) == ["ls - list", "The ls(1) command lists files.", "It's two words"], man_paragraphs(man)
    assert man_paragraphs("unknown \\X escape\n") == []
    pod = (
        "code\n\n=head1 NAME\n\nUse B<bold I<nested>> and L<text|link>, a E<lt> b.\n\n  verbatim\n\n=cut\n\nmore code\n"
    )
    assert pod_paragraphs(pod) == ["Use bold nested and text, a < b."]


def check_filters():
    assert is_documentation(SENTENCE)
    assert not is_documentation(SENTENCE[:-1])  # no end of a sentence
    assert not is_documentation(
        "int main(void) { return f(x[0]) + g->y; } // the end of it is in the code that you see here."
    )
    assert not is_documentation(
        "Dies ist ein langer deutscher Satz, der keine englischen Wörter enthält und trotzdem gut aussieht."
    )
    assert is_prose("Call me Ishmael.")
    assert not is_prose("CHAPTER ONE: THE CARPET BAG")
    assert not is_prose("12 345 678 910 11 12 a b")


def check_duplicates():
    words = [f"word{i % 97}x{i % 31}" for i in range(300)]
    finder = DuplicateFinder()
    assert finder.kind(" ".join(words)) is None
    assert finder.kind(" ".join(words).upper() + "!") == "exact"
    assert finder.kind(" ".join(words[:200] + ["new"] * 60)) == "near"
    assert finder.kind(" ".join(words[:60] + [f"fresh{i}" for i in range(240)])) is None
    assert finder.kind("Chapter 3") is None and finder.kind("Chapter 3") is None


# --- a package of R, written by hand ----------------------------------------------------------------------------------------


def r_string(text):
    data = text.encode()
    return struct.pack(">ii", 9, len(data)) + data


def r_strings(texts):
    return struct.pack(">ii", 16, len(texts)) + b"".join(map(r_string, texts))


def r_object(body):
    return b"X\n" + struct.pack(">iii", 2, 0x30000, 0x20300) + body


def write_r_data(folder: Path, objects: list[list[str]]):
    folder.mkdir(parents=True)
    data, places = b"", []
    for texts in objects:
        plain = r_object(r_strings(texts))
        chunk = struct.pack(">I", len(plain)) + zlib.compress(plain)
        places.append((len(data), len(chunk)))
        data += chunk
    names = (
        struct.pack(">ii", 1026, 1)
        + r_string("names")
        + r_strings([f"book{i}" for i in range(len(objects))])
        + struct.pack(">i", 254)
    )
    table = (
        struct.pack(">ii", 19 | 0x200, len(places))
        + b"".join(struct.pack(">iiii", 13, 2, *place) for place in places)
        + names
    )
    (folder / "Rdata.rdb").write_bytes(data)
    (folder / "Rdata.rdx").write_bytes(zlib.compress(r_object(struct.pack(">ii", 19, 1) + table)))


def check_r_data(folder: Path):
    objects = [["first line", "", "größe"], ["second book"]]
    write_r_data(folder / "data", objects)
    assert read_objects(folder / "data") == objects


# --- a SWORD module, written by hand ----------------------------------------------------------------------------------------


def check_sword(folder: Path):
    module = folder / "package/usr/share/sword/modules/texts/ztext/mine"
    module.mkdir(parents=True)
    verses = [
        '<chapter osisID="A.1" sID="A.1"/>',
        "One.",
        '<div sID="g" type="x-p"/>Two.',
        '<chapter osisID="A.2"/>',
        "Three.",
    ]
    block, index = b"", [(0, 0, 0)]
    for verse in verses:
        index += [(0, len(block), len(verse))] * 2  # several verses may share one text
        block += verse.encode()
    packed = zlib.compress(block)
    (module / "ot.bzz").write_bytes(packed)
    (module / "ot.bzs").write_bytes(struct.pack("<III", 0, len(packed), len(block)))
    (module / "ot.bzv").write_bytes(b"".join(struct.pack("<IIH", *entry) for entry in index))
    assert list(module_chapters(folder / "package")) == [["One.", "Two."], ["Three."]], list(
        module_chapters(folder / "package")
    )


# --- games ------------------------------------------------------------------------------------------------------------------


def check_games(folder: Path):
    def write(name, text):
        path = folder / "usr/share/games" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    write(
        "wesnoth/1.cfg",
        '[message]\n speaker=one\n message=_"He said ""go"" " + _"and <b>went</b>.\n\nTo $name, who stayed."\n'
        '[/message]\nimage="a very long name of a file"\nstory= _ "It began long ago."\n',
    )
    assert list(wesnoth(folder)) == [['He said "go" and went.', "It began long ago."]], list(wesnoth(folder))

    description = "A planet that nobody visits, and where it always rains."
    write(
        "endless-sky/data/a.txt",
        "# licence\nmission one\n\ton offer\n\t\t`You land.`\n\t\t`\t(Leave <ship>.)`\n\t\t`It rains.`\n"
        f'planet two\n\tdescription "{description}"\n\tdescription "short"\n',
    )
    assert list(endless_sky(folder)) == [["You land.", "It rains."], [description]], list(endless_sky(folder))

    sentence = "This thing is of no use to you, but it may be to somebody else."
    write("cataclysm-dda/json/b.json", json.dumps([{"id": "x", "//": sentence, "name": {"str": f"<color_red>{sentence}</color>"}}]))
    assert list(cataclysm(folder)) == [[sentence]], list(cataclysm(folder))


def check_profiles():
    quick, core, full = ([source.package for source in PROFILES[name]] for name in ("quick", "core", "full"))
    assert core[: len(quick)] == quick and full[: len(core)] == core, "a larger profile begins with the smaller one"
    assert len(set(full)) == len(full)
    usage = (SCRIPTS / "fetch_corpus").read_text()
    assert f"of {len(core)} packages" in usage and f"of {len(full) - len(core)} more" in usage, "the usage counts other packages"


# --- the whole script -------------------------------------------------------------------------------------------------------

APT_GET = """#!/bin/sh
# apt-get -qq download PACKAGE
echo "$3" >> {log}
[ -f {debs}/$3.deb ] || {{ echo "E: Unable to locate package $3" >&2; exit 100; }}
cp {debs}/$3.deb .
"""


def make_package(root: Path, debs: Path, name: str):
    control = root / name / "DEBIAN"
    control.mkdir(parents=True, exist_ok=True)
    (control / "control").write_text(
        f"Package: {name}\nVersion: 1.2-3\nArchitecture: all\nMaintainer: a <a@b>\nDescription: test\n"
    )
    subprocess.run(["dpkg-deb", "--build", root / name, debs / f"{name}.deb"], check=True, stdout=subprocess.DEVNULL)


def check_script(folder: Path):
    debs, tree, log = folder / "debs", folder / "tree", folder / "log"
    debs.mkdir()
    (folder / "bin").mkdir()
    (folder / "bin/apt-get").write_text(APT_GET.format(debs=debs, log=log))
    (folder / "bin/apt-get").chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}

    def fetch(*arguments):
        return subprocess.run([SCRIPTS / "fetch_corpus", *arguments], env=environment, capture_output=True, text=True)

    chapter = [
        f"In chapter {i} it was said that the ship went over the sea and came to land {i} days later." for i in range(5)
    ]
    write_r_data(
        tree / "r-cran-janeaustenr/usr/lib/R/site-library/janeaustenr/data",
        [["CHAPTER I", ""] + "\n\n".join(chapter).split("\n")],
    )
    write_r_data(
        tree / "r-cran-tokenizers/usr/lib/R/site-library/tokenizers/data",
        [["\n\n".join(chapter[:4] + ["Short, but new in this book."])]],
    )
    for name in ("r-cran-janeaustenr", "r-cran-tokenizers"):
        make_package(tree, debs, name)

    result = fetch("quick", folder / "out")
    assert (
        result.returncode == 1 and "cannot download golang-github-pierrec-lz4-dev: E: Unable to locate" in result.stderr
    ), result.stderr
    assert not (folder / "out/text.jsonl").exists()

    make_package(tree, debs, "golang-github-pierrec-lz4-dev")
    result = fetch("quick", folder / "out")
    assert result.returncode == 1 and "golang-github-pierrec-lz4-dev gave no text" in result.stderr, result.stderr
    shutil.rmtree(folder / "out/packages/golang-github-pierrec-lz4-dev")

    texts = tree / "golang-github-pierrec-lz4-dev/usr/share/gocode/testdata"
    texts.mkdir(parents=True)
    (texts / "pg1661.txt").write_text(
        "\n\n".join(f"Holmes said to Watson that the case number {i} was of no interest to him." for i in range(400))
    )
    make_package(tree, debs, "golang-github-pierrec-lz4-dev")
    result = fetch("quick", folder / "out")
    assert result.returncode == 0, result.stderr
    asked = log.read_text().split()
    assert asked.count("r-cran-janeaustenr") == 1, "an unpacked package was fetched again"

    documents = [json.loads(line) for line in (folder / "out/text.jsonl").read_text().splitlines()]
    assert documents[0] == {"text": "\n".join(chapter), "source": "r-cran-janeaustenr"}
    # The second book repeats the first and is then too short; the third is cut at 24,000 bytes.
    assert [document["source"] for document in documents[1:]] == ["golang-github-pierrec-lz4-dev"] * 2
    assert 24_000 < len(documents[1]["text"]) < 24_100
    table = [line.split("\t") for line in (folder / "out/sources.tsv").read_text().splitlines()]
    rows = {row[0]: dict(zip(table[0], row)) for row in table[1:]}
    assert rows["r-cran-janeaustenr"]["version"] == "1.2-3"
    assert int(rows["r-cran-janeaustenr"]["bytes"]) == len(documents[0]["text"])
    assert int(rows["r-cran-tokenizers"]["exact_duplicate_bytes"]) == sum(map(len, chapter[:4]))
    assert rows["r-cran-tokenizers"]["documents"] == "0"
    assert not (folder / "out/packages").exists()

    log.unlink()
    result = fetch("quick", folder / "out")
    assert result.returncode == 0 and "is there already" in result.stdout and not log.exists()
    assert fetch("tiny").returncode == 2


def main():
    check_markup()
    check_plain_text()
    check_manual_pages()
    check_filters()
    check_duplicates()
    check_profiles()
    with tempfile.TemporaryDirectory() as name:
        for check in (check_r_data, check_sword, check_games, check_script):
            folder = Path(name) / check.__name__
            folder.mkdir()
            check(folder)


main()
