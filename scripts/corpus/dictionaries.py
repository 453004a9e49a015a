"""Dictionaries and other collections of short entries."""

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from files import find_files, read_text
from plain_text import tidy, wrapped_paragraphs

_ENTRY = re.compile(r"\n(?=\S)")
_BRACKETED = re.compile(r"\[[^\[\]]{0,200}\]")
_PRONUNCIATION = re.compile(r"\\[^\\\n]*\\")
_PARTS_OF_SPEECH = {"noun": "noun", "verb": "verb", "adj": "adjective", "adv": "adverb"}


def _grouped(entries: Iterator[str], size: int) -> Iterator[list[str]]:
    group: list[str] = []
    for entry in entries:
        group.append(entry)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def gcide(package: Path) -> Iterator[list[str]]:
    """Webster 1913: one document an entry, the senses as sentences after the word."""
    for entry in _ENTRY.split(read_text(package / "usr/share/dictd/gcide.dict.dz")):
        word = re.split(r"[\\,(\[\n]", entry, maxsplit=1)[0].strip()
        if not word[:1].isalpha() or len(word) > 30:
            continue
        body = _PRONUNCIATION.sub("", _BRACKETED.sub("", entry)).translate(str.maketrans("", "", "{}"))
        senses = [tidy(re.sub(r"^\s*\d+\.\s*", "", tidy(block))) for block in re.split(r"\n\s*\n", body)]
        senses = [sense for sense in senses if len(sense) > 40]
        if senses:
            first = senses[0] if senses[0].lower().startswith(word.lower()) else f"{word}: {senses[0]}"
            yield [first, *senses[1:]]


def foldoc(package: Path) -> Iterator[list[str]]:
    for entry in _ENTRY.split(read_text(package / "usr/share/dictd/foldoc.dict.dz")):
        head, _, body = entry.partition("\n")
        body = re.sub(r"\{([^}]*)\}", r"\1", body)
        paragraphs = [re.sub(r"^<[^>]*>\s*", "", paragraph) for paragraph in wrapped_paragraphs(body, 6)]
        paragraphs = [paragraph for paragraph in paragraphs if paragraph and not paragraph.startswith("(")]
        if paragraphs:
            yield [f"{head.strip()}: {paragraphs[0]}", *paragraphs[1:]]


def jargon(package: Path) -> Iterator[list[str]]:
    for entry in re.split(r"\n(?=:[^\n:]+:)", read_text(package / "usr/share/doc/jargon-text/jargon.txt.gz")):
        yield [re.sub(r"\{([^}]*)\}", r"\1", paragraph) for paragraph in wrapped_paragraphs(entry, 6)]


def wordnet(package: Path) -> Iterator[list[str]]:
    """Definitions with their examples, 40 of one part of speech a document."""
    for suffix, name in _PARTS_OF_SPEECH.items():
        yield from _grouped(_wordnet_entries(package / f"usr/share/wordnet/data.{suffix}", name), 40)


def _wordnet_entries(path: Path, part_of_speech: str) -> Iterator[str]:
    for line in read_text(path).split("\n"):
        data, separator, gloss = line.partition(" | ")
        if line.startswith(" ") or not separator:  # the licence stands in front
            continue
        word = re.sub(r"\([a-z]+\)$", "", data.split(" ")[4].replace("_", " "))
        definition, *examples = re.split(r'; (?=")', gloss.strip())
        sentences = [f"{word[0].upper()}{word[1:]} ({part_of_speech}): {definition.rstrip('.;')}."]
        yield " ".join(sentences + [example.rstrip(";") for example in examples])


def gene_ontology(package: Path) -> Iterator[list[str]]:
    path = package / "usr/lib/R/site-library/GO.db/extdata/GO.sqlite"
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        rows = connection.execute("select term, definition from go_term where definition is not null order by go_id")
        yield from _grouped((f"{term[0].upper()}{term[1:]}: {tidy(definition)}" for term, definition in rows), 20)


def fortunes(package: Path) -> Iterator[list[str]]:
    """Quotations; offensive, drawn and rotated collections are left out."""
    unwanted = r"\.(dat|u8)$|^off/|zippy|ascii-art|translate-me"
    for path in find_files(package / "usr/share/games/fortunes", r"^[a-z-]+$", unwanted):
        for entry in re.split(r"(?m)^%$", read_text(path)):
            yield wrapped_paragraphs(re.sub(r".\x08", "", entry), 12)


def crawl(package: Path) -> Iterator[list[str]]:
    """Descriptions of the places and creatures of a game."""
    unwanted = r"rand|name|quotes|insult|wpnnoise|montitle|monspell"
    for path in find_files(package / "usr/share/crawl/dat", r"^(descript|database)/[a-z]+\.txt$", unwanted):
        for entry in re.split(r"(?m)^%{4}$", re.sub(r"(?m)^#.*$", "", read_text(path))):
            body = entry.strip("\n").partition("\n")[2]
            paragraphs = wrapped_paragraphs(re.sub(r"<[^>]+>", "", body), 3)
            yield [p for p in paragraphs if "{{" not in p and "@" not in p and not p.startswith(("_", ":", "w:"))]
