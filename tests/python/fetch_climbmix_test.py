"""Checks scripts/fetch_climbmix.py against a local server that drops connections, and on parquet files made here.

Usage: fetch_climbmix_test.py [PROGRAM]

With PROGRAM, the bov program, the documents also go through `bov data build`. The parquet part is skipped with a reason where pyarrow is not
installed; status 77 says that it was.
"""

import contextlib
import http.server
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "fetch_climbmix.py"
spec = importlib.util.spec_from_file_location("fetch_climbmix", SCRIPT)
fetch_climbmix = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fetch_climbmix)


class Server(http.server.BaseHTTPRequestHandler):
    """Serves `files` with byte ranges; each answer ends after `answer_limit` bytes, as if the connection broke."""

    files: dict[str, bytes] = {}
    answer_limit = 1 << 30
    requests: list[tuple[str, str | None]] = []

    def do_GET(self):
        name, asked = self.path.lstrip("/"), self.headers.get("Range")
        Server.requests.append((name, asked))
        if name not in Server.files:
            self.send_error(404)
            return
        begin = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        data = Server.files[name]
        if begin >= len(data):
            self.send_error(416)
            return
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(data) - begin))
        self.end_headers()
        self.wfile.write(data[begin : begin + Server.answer_limit])

    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def serving():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def expect_failure(action, *parts):
    try:
        action()
    except fetch_climbmix.FetchError as error:
        for part in parts:
            assert part in str(error), f"'{part}' is not in '{error}'"
    else:
        raise AssertionError(f"no failure that says {parts}")


def check_shard_ranges():
    assert fetch_climbmix.parse_shards("7") == [7]
    assert fetch_climbmix.parse_shards("3-5") == [3, 4, 5]
    assert fetch_climbmix.parse_shards("6542") == [6542]
    for text in ("5-3", "x", "1-6543", "-1", ""):
        try:
            fetch_climbmix.parse_shards(text)
        except fetch_climbmix.argparse.ArgumentTypeError as error:
            assert f"'{text}'" in str(error)
        else:
            raise AssertionError(f"'{text}' was taken")


def check_download(folder: Path, url: str):
    data = random.Random(1).randbytes(250_000)
    Server.files["a"] = data

    Server.answer_limit = 100_000
    Server.requests.clear()
    fetch_climbmix.download(f"{url}/a", folder / "a", pause_s=0)
    assert (folder / "a").read_bytes() == data
    assert [asked for _, asked in Server.requests] == [None, "bytes=100000-", "bytes=200000-"]
    assert not (folder / "a.part").exists()

    Server.requests.clear()
    fetch_climbmix.download(f"{url}/a", folder / "a", pause_s=0)
    assert not Server.requests, "a finished file was asked for again"

    Server.answer_limit = 10_000  # five tries are not enough, but the next run goes on
    expect_failure(
        lambda: fetch_climbmix.download(f"{url}/a", folder / "b", pause_s=0),
        "cannot download",
        "run the same command again",
    )
    assert not (folder / "b").exists()
    assert (folder / "b.part").read_bytes() == data[:50_000]
    Server.answer_limit = 1 << 30
    fetch_climbmix.download(f"{url}/a", folder / "b", pause_s=0)
    assert (folder / "b").read_bytes() == data

    (folder / "c.part").write_bytes(data)  # complete, but the rename did not happen
    fetch_climbmix.download(f"{url}/a", folder / "c", pause_s=0)
    assert (folder / "c").read_bytes() == data
    expect_failure(lambda: fetch_climbmix.download(f"{url}/none", folder / "d", pause_s=0), "answers 404")
    expect_failure(lambda: fetch_climbmix.download("http://127.0.0.1:9/x", folder / "e", pause_s=0), "cannot download")


def run(arguments, **options):
    return subprocess.run(arguments, capture_output=True, encoding="utf-8", **options)


def check_missing_pyarrow(folder: Path):
    (folder / "pyarrow.py").write_text("raise ImportError('hidden')")
    result = run(
        [sys.executable, SCRIPT, "--shards", "0", "--folder", folder / "none"],
        env={**os.environ, "PYTHONPATH": str(folder)},
    )
    assert result.returncode == 1 and "pip install pyarrow" in result.stderr, result.stderr
    assert result.stdout == ""


def make_shards(pyarrow):
    """Two shards of several row groups; one row has no text."""
    texts = [f'Document {i}.\nIt says "größe" {"word " * (i % 90)}end.' for i in range(300)]
    texts[17] = None
    for shard, part in enumerate((texts[:200], texts[200:])):
        sink = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(pyarrow.table({"text": part}), sink, row_group_size=64)
        Server.files[f"shard_{shard:05d}.parquet"] = sink.getvalue().to_pybytes()
    return [text for text in texts if text is not None]


def check_documents(folder: Path, url: str, pyarrow, program: str | None):
    for address in ("foo", "http://"):
        result = run([sys.executable, SCRIPT, "--shards", "0", "--base-url", address])
        assert result.returncode == 2 and f"--base-url is '{address}'" in result.stderr, result.stderr
    texts = make_shards(pyarrow)
    command = [sys.executable, SCRIPT, "--shards", "0-1", "--folder", folder / "climbmix", "--base-url", url]
    result = run(command)
    assert result.returncode == 0, result.stderr
    assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == texts
    assert "299 documents written, 1 rows without text skipped" in result.stderr
    Server.files.clear()
    assert run(command).stdout == result.stdout, "the second run needed the network"

    if program:
        check_build(folder, program, result.stdout, texts)

    (folder / "climbmix/shard_00001.parquet").write_bytes(b"PAR1 broken")
    result = run(command)
    assert result.returncode == 1 and "shard_00001.parquet is damaged" in result.stderr, result.stderr
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table({"words": ["a"]}), sink)
    (folder / "climbmix/shard_00001.parquet").write_bytes(sink.getvalue().to_pybytes())
    result = run(command)
    assert result.returncode == 1 and "has no column 'text' but ['words']" in result.stderr, result.stderr


def check_build(folder: Path, program: str, lines: str, texts: list[str]):
    tokenizer, shards = folder / "tokenizer", folder / "shards"
    result = run(
        [program, "tokenizer", "train", "--input", "-", "--vocab-size", "300", "--output", tokenizer], input=lines
    )
    assert result.returncode == 0, result.stderr
    result = run(
        [program, "data", "build", "--tokenizer", tokenizer, "--input", "-", "--output", shards, "--json"], input=lines
    )
    assert result.returncode == 0, result.stderr
    manifest = json.loads(result.stdout)
    assert manifest["read"]["documents"] == len(texts)
    assert manifest["train"]["bytes"] + manifest["validation"]["bytes"] == sum(len(text.encode()) for text in texts)
    result = run([program, "data", "info", shards, "--verify"])
    assert result.returncode == 0 and "every checksum agrees" in result.stdout, result.stderr


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as name, serving() as url:
        folder = Path(name)
        check_shard_ranges()
        check_download(folder, url)
        check_missing_pyarrow(folder)
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            print(f"downloading is checked; reading parquet is not: {error}")
            sys.exit(77)
        check_documents(folder, url, pyarrow, program)


main()
