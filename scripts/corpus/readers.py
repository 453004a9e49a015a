"""Readers of whole packages: each takes the folder of an unpacked package and yields documents, lists of paragraphs."""

import html as entities
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from files import find_files, read_text
from manual_pages import man_paragraphs, pod_paragraphs
from markup import markup_paragraphs
from plain_text import book_chapters, wrapped_paragraphs
from r_data import read_objects

Documents = Iterator[list[str]]
Reader = Callable[[Path], Documents]


def r_books(name: str) -> Reader:
    def read(package: Path) -> Documents:
        for book in read_objects(package / f"usr/lib/R/site-library/{name}/data"):
            yield from book_chapters("\n".join(line or "" for line in book))

    return read


def books(wanted: str) -> Reader:
    def read(package: Path) -> Documents:
        for path in find_files(package, wanted):
            yield from book_chapters(read_text(path))

    return read


def plain_text(wanted: str, unwanted: str | None = None, deepest_indent: int = 3) -> Reader:
    def read(package: Path) -> Documents:
        for path in find_files(package, wanted, unwanted):
            yield wrapped_paragraphs(read_text(path), deepest_indent)

    return read


MACHINE_MADE = r"genindex|py-modindex|search\.html|/_modules/|/_sources/|/api/gen|release|changelog|whatsnew"


def html(wanted: str = r"\.html?$", unwanted: str = MACHINE_MADE) -> Reader:
    def read(package: Path) -> Documents:
        for path in find_files(package, wanted, unwanted):
            yield markup_paragraphs(read_text(path))

    return read


def man_pages(package: Path) -> Documents:
    for path in find_files(package, r"^usr/share/man/man\d/"):
        yield man_paragraphs(read_text(path))


def pod(package: Path) -> Documents:
    for path in find_files(package, r"\.pod$"):
        yield pod_paragraphs(read_text(path))


def vim_help(package: Path) -> Documents:
    """Help files as HTML: the text is preformatted, so its lines are what counts."""
    for path in find_files(package, r"\.html$"):
        yield wrapped_paragraphs(entities.unescape(re.sub(r"<[^>]+>", "", read_text(path))), 0)


def markdown_essays(package: Path) -> Documents:
    for path in find_files(package / "usr/share/doc/anarchism/markdown", r"\.md(\.gz)?$"):
        text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", read_text(path))  # links
        text = re.sub(r"(?m)^(\s*(#+ .*|[-=*]{3,})$|> ?)", "", text)  # headings, rules, quotation marks
        paragraphs = wrapped_paragraphs(text)
        yield [
            re.sub(r"[*_`]{1,3}([^*_`]+)[*_`]{1,3}", r"\1", p).replace("\\", "")
            for p in paragraphs
            if not p.startswith("* ")
        ]
