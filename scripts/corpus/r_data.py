"""Character vectors in the lazy-load data base of an R package (R Internals, "Serialization Formats"; XDR only)."""

import bz2
import lzma
import struct
import zlib
from pathlib import Path

_NULL_LIKE = frozenset({254, 253, 251, 252, 250, 242, 241})
_HAS_ATTRIBUTES = 0x200
_HAS_TAG = 0x400


class _Reader:
    def __init__(self, data: bytes):
        if data[:2] != b"X\n":
            raise ValueError("no XDR serialization of R")
        self._data = data
        self._at = 2
        self._references: list = []
        version = self._integer()
        self._at += 8  # versions of the writer and of the oldest reader
        if version == 3:
            encoding_size = self._integer()
            self._at += encoding_size

    def _integer(self) -> int:
        (value,) = struct.unpack_from(">i", self._data, self._at)
        self._at += 4
        return value

    def _numbers(self, code: str, size: int) -> list:
        count = self._integer()
        values = struct.unpack_from(f">{count}{code}", self._data, self._at)
        self._at += count * size
        return list(values)

    def item(self):
        flags = self._integer()
        kind = flags & 0xFF
        if kind in _NULL_LIKE:
            return None
        if kind == 255:
            return self._references[(flags >> 8 or self._integer()) - 1]
        if kind == 1:  # symbol
            name = self.item()
            self._references.append(name)
            return name
        if kind in (2, 5, 6):
            return self._pairs(flags)
        if kind == 9:  # one string; -1: NA
            size = self._integer()
            text = self._data[self._at : self._at + max(size, 0)]
            self._at += max(size, 0)
            return text.decode("utf-8", "replace")
        if kind == 238:  # compact representation: what counts is the state
            self.item()
            state = self.item()
            self.item()
            return state
        value = self._vector(kind)
        if flags & _HAS_ATTRIBUTES:
            self.item()
        return value

    def _pairs(self, flags: int) -> list:
        pairs = []
        while True:
            if flags & _HAS_ATTRIBUTES:
                self.item()
            tag = self.item() if flags & _HAS_TAG else None
            pairs.append((tag, self.item()))
            (flags,) = struct.unpack_from(">i", self._data, self._at)
            if flags & 0xFF != 2:
                self.item()
                return pairs
            self._at += 4

    def _vector(self, kind: int) -> list:
        if kind in (10, 13):
            return self._numbers("i", 4)
        if kind == 14:
            return self._numbers("d", 8)
        if kind in (16, 19, 20):
            return [self.item() for _ in range(self._integer())]
        raise ValueError(f"R object of type {kind} is not supported")


def _decompress(chunk: bytes) -> bytes:
    body = chunk[4:]  # after the size
    if body[:1] == b"2":
        return bz2.decompress(body[1:])
    if body[:1] == b"Z":
        filters = [{"id": lzma.FILTER_LZMA2, "preset": 6}]
        return lzma.decompress(body[1:], format=lzma.FORMAT_RAW, filters=filters)
    return zlib.decompress(body)


def read_objects(folder: Path) -> list:
    """Objects of `folder`/Rdata.rdb in the order of their names."""
    index = _Reader(zlib.decompress((folder / "Rdata.rdx").read_bytes(), wbits=zlib.MAX_WBITS | 32)).item()
    data = (folder / "Rdata.rdb").read_bytes()
    variables = index[0]
    return [_Reader(_decompress(data[offset : offset + size])).item() for offset, size in variables]
