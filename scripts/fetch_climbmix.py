#!/usr/bin/env python3
"""Downloads shards of ClimbMix, the training text of arXiv 2606.02780, and writes their documents as JSON lines.

The data set (karpathy/climbmix-400b-shuffle on Hugging Face) is 6543 parquet files of about 100 MB with one column, text; the
last one is the published validation split. Files are kept in FOLDER, so a second run downloads nothing; an interrupted
download goes on where it stopped. Documents come in the order of the shards.

Example:
  scripts/fetch_climbmix.py --shards 0-7 > corpus/climbmix/tokenizer_text.jsonl
  scripts/fetch_climbmix.py --shards 0-169 | scripts/bov data build --tokenizer corpus/tokenizer --input - --output corpus/shards
"""

import argparse
import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

DATA_SET = "https://huggingface.co/datasets/karpathy/climbmix-400b-shuffle/resolve/main"
LAST_SHARD = 6542
CHUNK = 1 << 20
RETRIES = 5


class FetchError(Exception):
    """A failure to be told to the user in one line."""


def parse_shards(text: str) -> list[int]:
    """ "3" or "0-7", both ends included."""
    first, dash, last = text.partition("-")
    try:
        shards = range(int(first), int(last if dash else first) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is neither N nor N-M") from None
    if not shards or shards[0] < 0 or shards[-1] > LAST_SHARD:
        raise argparse.ArgumentTypeError(f"'{text}' is not within 0-{LAST_SHARD}")
    return list(shards)


def _append_rest(url: str, partial: Path) -> None:
    """Downloads what `partial` lacks. Returns when the file is complete."""
    have = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # nothing is left
            return
        raise
    with response:
        resumed = response.status == 206
        expected = response.headers.get("Content-Length")
        with partial.open("ab" if resumed else "wb") as file:
            received = 0
            while chunk := response.read(CHUNK):
                file.write(chunk)
                received += len(chunk)
            file.flush()
            os.fsync(file.fileno())
    if expected is not None and received < int(expected):
        raise http.client.IncompleteRead(b"", int(expected) - received)


def download(url: str, path: Path, pause_s: float = 2.0) -> None:
    """Fetches `url` to `path`, which appears only when it is complete. Keeps `path`.part between tries and runs."""
    if path.exists():
        return
    partial = path.with_name(path.name + ".part")
    for attempt in range(1, RETRIES + 1):
        try:
            _append_rest(url, partial)
            partial.replace(path)
            return
        except urllib.error.HTTPError as error:
            if error.code < 500:
                raise FetchError(f"{url}: the server answers {error.code} {error.reason}") from error
            problem = f"{error.code} {error.reason}"
        except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
            problem = str(getattr(error, "reason", error)) or type(error).__name__
        print(f"{url}: {problem} (try {attempt} of {RETRIES})", file=sys.stderr)
        if attempt < RETRIES:
            time.sleep(pause_s * attempt)
    raise FetchError(f"cannot download {url}: {problem}; run the same command again to go on")


def import_parquet():
    try:
        import pyarrow.parquet
    except ImportError:
        raise FetchError(
            "reading parquet needs pyarrow: .venv/bin/pip install pyarrow, then run with .venv/bin/python"
        ) from None
    return pyarrow.parquet


def documents(path: Path) -> Iterator[str]:
    """Texts of a parquet file, a row group in memory at a time."""
    parquet = import_parquet()
    try:
        file = parquet.ParquetFile(path)
        if "text" not in file.schema_arrow.names:
            raise FetchError(f"{path} has no column 'text' but {file.schema_arrow.names}")
        for group in range(file.num_row_groups):
            yield from file.read_row_group(group, columns=["text"]).column("text").to_pylist()
    except (OSError, ValueError) as error:  # pyarrow's errors derive from these
        raise FetchError(f"{path} is damaged: {error}; remove it and run again") from error


def write_documents(path: Path, out) -> tuple[int, int]:
    """JSON lines of one file. Returns the number of documents and of rows without text."""
    written = missing = 0
    for text in documents(path):
        if text is None:
            missing += 1
            continue
        out.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
        written += 1
    return written, missing


def fetch(shards: list[int], folder: Path, base_url: str, download_only: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if not download_only:
        import_parquet()  # before hours of downloading
    total = total_missing = 0
    for shard in shards:
        name = f"shard_{shard:05d}.parquet"
        download(f"{base_url}/{name}", folder / name)
        if download_only:
            continue
        written, missing = write_documents(folder / name, sys.stdout)
        total, total_missing = total + written, total_missing + missing
        print(f"{name}: {written} documents", file=sys.stderr)
    sys.stdout.flush()
    if not download_only:
        print(f"{total} documents written, {total_missing} rows without text skipped", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--shards", type=parse_shards, required=True, metavar="N[-M]", help=f"shards to read, within 0-{LAST_SHARD}"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("corpus/climbmix"),
        help="where parquet files are kept (default: %(default)s)",
    )
    parser.add_argument("--base-url", default=DATA_SET, help="a mirror of the data set")
    parser.add_argument("--download-only", action="store_true", help="fetch the files, write no documents")
    arguments = parser.parse_args()
    address = urllib.parse.urlsplit(arguments.base_url)
    if address.scheme not in ("http", "https", "file") or not (address.netloc or address.scheme == "file"):
        parser.error(f"--base-url is {arguments.base_url!r}; expected an address that begins with http://HOST or https://HOST")
    sys.stdout.reconfigure(encoding="utf-8")
    fetch(arguments.shards, arguments.folder, arguments.base_url.rstrip("/"), arguments.download_only)


if __name__ == "__main__":
    try:
        main()
    except (FetchError, OSError) as error:
        sys.exit(f"scripts/fetch_climbmix.py: {error}")
