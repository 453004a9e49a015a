"""Which paragraphs are English running text."""

import re

_STOP_WORDS = frozenset(
    "the of and to a in is that it for as with was on be by this are or not you an from at which have can if will but they his "
    "he her i we may when your has all one been their there no so more would also other only these any into than then its my our "
    "who what do had were she him me out up".split()
)
_WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")
_CODE_CHARACTER = re.compile(r"[{}<>|\\_=#*@~^$%&+\[\]/]")
_SENTENCE_END = tuple(".!?;)]\"”’'")


def _stop_word_share(words: list[str]) -> float:
    return sum(word.lower() in _STOP_WORDS for word in words) / len(words)


def is_prose(paragraph: str) -> bool:
    """Loose, for literature and dictionaries: mostly letters, and English where it is long enough to tell."""
    words = _WORD.findall(paragraph)
    if len(words) < 2 or (paragraph.isupper() and len(paragraph) < 60):
        return False
    letters = sum(character.isalpha() or character == " " for character in paragraph)
    if letters < 0.75 * len(paragraph) or len(_CODE_CHARACTER.findall(paragraph)) > 0.03 * len(paragraph) + 1:
        return False
    return len(words) < 30 or _stop_word_share(words) >= 0.12


def is_documentation(paragraph: str) -> bool:
    """Strict, for manuals: whole English sentences with hardly any code."""
    if len(paragraph) < 60 or not paragraph.endswith(_SENTENCE_END):
        return False
    words = _WORD.findall(paragraph)
    if len(words) < 10 or max(map(len, words)) > 30 or _stop_word_share(words) < 0.22:
        return False
    letters = sum(character.isascii() and (character.isalpha() or character == " ") for character in paragraph)
    if letters < 0.90 * len(paragraph) or len(_CODE_CHARACTER.findall(paragraph)) > 0.02 * len(paragraph):
        return False
    return 3.0 <= sum(map(len, words)) / len(words) <= 7.5
