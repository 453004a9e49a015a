"""Finding and reading files of unpacked Debian packages."""

import bz2
import gzip
import lzma
import re
from pathlib import Path

_OPENERS = {".gz": gzip.decompress, ".dz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress}


def find_files(root: Path, wanted: str, unwanted: str | None = None) -> list[Path]:
    """Regular files below root whose relative path matches `wanted` and not `unwanted`, sorted."""
    if not root.is_dir():
        raise FileNotFoundError(f"the package folder {root} is missing")
    keep = re.compile(wanted)
    drop = re.compile(unwanted) if unwanted else None
    found = []
    for path in root.rglob("*"):
        name = path.relative_to(root).as_posix()
        if keep.search(name) and not (drop and drop.search(name)) and path.is_file() and not path.is_symlink():
            found.append(path)
    return sorted(found)


def read_text(path: Path) -> str:
    """Text of a file, decompressed by its ending; UTF-8, or Latin-1 where that fails."""
    data = path.read_bytes()
    opener = _OPENERS.get(path.suffix)
    if opener:
        data = opener(data)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")
