"""Stories, dialogue and descriptions of games, without their markup and rules."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from files import find_files, read_text
from plain_text import tidy

_PLACEHOLDER = re.compile(r"<[a-z]+>")
_TAG = re.compile(r"</?[a-z_]+[^<>]*>")


def wesnoth(package: Path) -> Iterator[list[str]]:
    """A document a scenario: what is told and said in it, in the order of the file."""
    spoken = re.compile(r'\b(?:message|story|description|note|summary)\s*=\s*((?:_?\s*"(?:[^"]|"")*"[\s+]*)+)')
    for path in find_files(package, r"\.cfg$"):
        paragraphs = []
        for match in spoken.finditer(read_text(path)):
            text = "".join(re.findall(r'"((?:[^"]|"")*)"', match.group(1))).replace('""', '"')
            blocks = re.split(r"\n\s*\n", re.sub(r"<[^>]+>|\{[^}]*\}", "", text))
            paragraphs += [block for block in map(tidy, blocks) if "$" not in block and len(block) >= 12]
        if paragraphs:
            yield paragraphs


def endless_sky(package: Path) -> Iterator[list[str]]:
    """A document a mission or place: its conversations, which stand between backticks, and its description. Sentences in which
    a name is to be filled in are left out."""
    said = re.compile(r'`([^`]+)`|^\s*(?:description|log|spaceport|dialog)\s+"([^"]{40,})"', re.M)
    for path in find_files(package / "usr/share/games/endless-sky/data", r"\.txt$"):
        for entry in re.split(r"\n(?=[^\s#])", read_text(path)):
            paragraphs = [tidy(match.group(1) or match.group(2)) for match in said.finditer(entry)]
            paragraphs = [paragraph for paragraph in paragraphs if paragraph and not _PLACEHOLDER.search(paragraph)]
            if paragraphs:
                yield paragraphs


def cataclysm(package: Path) -> Iterator[list[str]]:
    """A document a file: every string that is a sentence, but no comments of the authors, whose keys begin with //."""

    def strings(node: object) -> Iterator[str]:
        if isinstance(node, str):
            yield tidy(_TAG.sub("", node))
        elif isinstance(node, list):
            for item in node:
                yield from strings(item)
        elif isinstance(node, dict):
            for key, value in node.items():
                if not key.startswith("//"):
                    yield from strings(value)

    for path in find_files(package / "usr/share/games/cataclysm-dda/json", r"\.json$"):
        texts = strings(json.loads(read_text(path)))
        sentences = [text for text in texts if len(text) >= 50 and text.count(" ") >= 8 and text[-1] in '.!?"']
        if sentences:
            yield sentences
