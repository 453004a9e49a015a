"""Repeated paragraphs, exact and near, in the order they come."""

import re
import zlib
from hashlib import blake2b

_WORD = re.compile(r"[a-z0-9]+")
_SHORTEST = 40  # shorter paragraphs ("Chapter 3") may repeat
_NGRAM = 8
_SAMPLED = 8  # one n-gram of this many is kept: enough to estimate the share, an eighth of the memory


class DuplicateFinder:
    """Remembers paragraphs; the text of all that were new decides what is a duplicate."""

    def __init__(self) -> None:
        self._exact: set[bytes] = set()
        self._ngrams: set[int] = set()

    def kind(self, paragraph: str) -> str | None:
        """ "exact", "near" (more than half of its 8-grams were seen), or None, in which case it is remembered."""
        words = _WORD.findall(paragraph.lower())
        if len(paragraph) >= _SHORTEST:
            digest = blake2b(" ".join(words).encode(), digest_size=8).digest()
            if digest in self._exact:
                return "exact"
            self._exact.add(digest)
        ngrams = [zlib.crc32(" ".join(words[i : i + _NGRAM]).encode()) for i in range(len(words) - _NGRAM + 1)]
        sample = [ngram for ngram in ngrams if ngram % _SAMPLED == 0]
        # A smaller sample says nothing reliable.
        if len(sample) >= 3 and sum(ngram in self._ngrams for ngram in sample) > 0.5 * len(sample):
            return "near"
        self._ngrams.update(sample)
        return None
