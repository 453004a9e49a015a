"""Paragraphs of hard-wrapped plain text."""

import re

_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u2060\ufeff"))
_HYPHENS = {ord("\u2010"): "-", ord("\u2011"): "-"}
_BLANK_LINE = re.compile(r"\n[ \t\f\v]*\n")
_CHAPTER = re.compile(
    r"(?m)^[ \t]*(?:(?:chapter|adventure|part|volume|book|letter|epilogue|etymology)\b|[IVXL]+\.\s).*$", re.I
)
_BOOK_START = re.compile(r"\*\*\*\s*START OF TH[^\n]*\*\*\*")
_BOOK_END = re.compile(r"\*\*\*\s*END OF TH|End of (?:the )?Project Gutenberg")
_UNDERSCORED = re.compile(r"\b_([^_]+)_\b")


def tidy(text: str) -> str:
    """One line: invisible characters dropped, runs of whitespace made one space."""
    return " ".join(text.translate(_INVISIBLE).translate(_HYPHENS).split())


def wrapped_paragraphs(text: str, deepest_indent: int = 3) -> list[str]:
    """Blocks between blank lines, joined to one line each. Blocks that are indented further are examples or tables."""
    paragraphs = []
    for block in _BLANK_LINE.split(text.replace("\r", "").expandtabs()):
        lines = [line for line in block.split("\n") if line.strip()]
        if lines and min(len(line) - len(line.lstrip()) for line in lines) <= deepest_indent:
            paragraphs.append(tidy(" ".join(lines)))
    return [paragraph for paragraph in paragraphs if paragraph]


def book_chapters(text: str) -> list[list[str]]:
    """Chapters of a Project Gutenberg book, without its licence."""
    text = text.replace("\r", "")
    start, end = _BOOK_START.search(text), _BOOK_END.search(text)
    text = text[start.end() if start else 0 : end.start() if end else len(text)]
    cuts = [0, *(match.start() for match in _CHAPTER.finditer(text)), len(text)]
    chapters = (wrapped_paragraphs(text[a:b], deepest_indent=12) for a, b in zip(cuts, cuts[1:]))
    return [[_UNDERSCORED.sub(r"\1", paragraph) for paragraph in chapter] for chapter in chapters if chapter]
