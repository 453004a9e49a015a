"""Texts of SWORD modules (Bibles and commentaries), read from their compressed files without the SWORD library.

A testament `T` has three files: `T.Xzz` holds zlib blocks, `T.Xzs` a record (offset, size, size when unpacked) for each block,
and `T.Xzv` a record (block, start, size) for each verse; X is b (a block a book) or c (a block a chapter). Many verses of a
commentary point at one text.
"""

import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from markup import markup_paragraphs

_PARAGRAPH = re.compile(r'<(?:div\b[^>]*type="(?:x-p|introduction)"[^>]*|lg\b[^>]*|l\b[^>]*|p)>')
_MILESTONE = re.compile(r'<div\b[^>]*type="x-milestone"[^>]*>')
_CHAPTER = re.compile(r"<chapter\b[^>]*osisID=")
_PILCROW = str.maketrans("¶", " ")


def _verse_format(index: bytes, blocks: list[bytes]) -> str:
    """Modules of type zText4 and zCom4 have 4-byte sizes in the verse records, the others 2-byte sizes."""
    for layout in ("<IIH", "<III"):
        if len(index) % struct.calcsize(layout):
            continue
        records = list(struct.iter_unpack(layout, index))
        if all(
            size == 0 or (block < len(blocks) and start + size <= len(blocks[block])) for block, start, size in records
        ):
            return layout
    raise ValueError("the verse index does not fit its blocks")


def _verses(stem: Path, kind: str) -> Iterator[str]:
    packed = stem.with_suffix(f".{kind}zz").read_bytes()
    sizes = struct.iter_unpack("<III", stem.with_suffix(f".{kind}zs").read_bytes())
    blocks = [zlib.decompress(packed[offset : offset + size]) for offset, size, _ in sizes]
    index = stem.with_suffix(f".{kind}zv").read_bytes()
    seen = set()
    for block, start, size in struct.iter_unpack(_verse_format(index, blocks), index):
        if size and (block, start) not in seen:
            seen.add((block, start))
            yield blocks[block][start : start + size].decode("utf-8", "replace")


def _paragraphs(verses: list[str]) -> list[str]:
    text = _PARAGRAPH.sub("<section>", _MILESTONE.sub("", " ".join(verses)))
    return markup_paragraphs(text.translate(_PILCROW))


def module_chapters(package: Path) -> Iterator[list[str]]:
    """Paragraphs of each chapter of the only module in an unpacked package."""
    indexes = sorted((package / "usr/share/sword/modules").rglob("*.[bc]zv"), key=lambda path: path.name, reverse=True)
    if not indexes:
        raise FileNotFoundError(f"{package} holds no SWORD module")
    for index in indexes:  # the Old Testament first
        chapter: list[str] = []
        for verse in _verses(index.with_suffix(""), index.suffix[1]):
            if _CHAPTER.search(verse) and chapter:
                yield _paragraphs(chapter)
                chapter = []
            chapter.append(verse)
        yield _paragraphs(chapter)
