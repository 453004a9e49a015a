#!/usr/bin/env python3
"""Turns unpacked Debian packages into one file of documents. Called by scripts/fetch_corpus."""

import argparse
import json
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from duplicates import DuplicateFinder
from sources import PROFILES, Source

LONGEST_DOCUMENT = 24_000  # bytes; longer ones are cut between paragraphs


def write_whole(path: Path, lines: Iterator[str]) -> None:
    """Writes the file under another name and renames it, so that `path` is never half a file."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def size_of(text: str) -> int:
    return len(text.encode())


def extract(profile: str, position: int, packages: Path, folder: Path) -> str:
    """Writes the paragraphs of one source that pass its filter, one document a line, and what was counted. Does nothing if that
    was done before. The source is given by its place, because readers cannot be sent to another process."""
    source = PROFILES[profile][position]
    counts_path = folder / f"{source.package}.counts.json"
    if counts_path.exists():
        return source.package
    counts: Counter[str] = Counter()

    def accepted() -> Iterator[str]:
        for paragraphs in source.read(packages / source.package):
            counts["read_bytes"] += sum(map(size_of, paragraphs))
            kept = [paragraph for paragraph in paragraphs if source.accepts(paragraph)]
            counts["filtered_bytes"] += sum(map(size_of, paragraphs)) - sum(map(size_of, kept))
            if kept:
                yield json.dumps(kept, ensure_ascii=False)

    write_whole(folder / f"{source.package}.jsonl", accepted())
    if counts["read_bytes"] == 0:
        raise ValueError(f"package {source.package} gave no text; its files may have moved in this release of Debian")
    write_whole(counts_path, iter([json.dumps(counts)]))
    return source.package


def without_duplicates(paragraphs: list[str], finder: DuplicateFinder, counts: Counter) -> Iterator[str]:
    for paragraph in paragraphs:
        kind = finder.kind(paragraph)
        if kind:
            counts[f"{kind}_duplicate_bytes"] += size_of(paragraph)
        else:
            yield paragraph


def cut(paragraphs: Iterator[str]) -> Iterator[str]:
    """Documents of at most about LONGEST_DOCUMENT bytes, a paragraph a line."""
    document: list[str] = []
    size = 0
    for paragraph in paragraphs:
        document.append(paragraph)
        size += size_of(paragraph) + 1
        if size > LONGEST_DOCUMENT:
            yield "\n".join(document)
            document, size = [], 0
    if document:
        yield "\n".join(document)


def documents_of(source: Source, folder: Path, finder: DuplicateFinder, counts: Counter) -> Iterator[str]:
    """JSON lines of one source, with text and source."""
    with (folder / f"{source.package}.jsonl").open(encoding="utf-8") as file:
        for line in file:
            for text in cut(without_duplicates(json.loads(line), finder, counts)):
                if size_of(text) < source.shortest:
                    counts["short_bytes"] += size_of(text)
                    continue
                counts["documents"] += 1
                counts["bytes"] += size_of(text)
                yield json.dumps({"text": text, "source": source.package}, ensure_ascii=False)


COLUMNS = (
    "documents",
    "bytes",
    "read_bytes",
    "filtered_bytes",
    "exact_duplicate_bytes",
    "near_duplicate_bytes",
    "short_bytes",
)


def table_row(source: Source, versions: dict[str, str], counts: Counter) -> str:
    about = (source.package, versions[source.package], source.quality, source.licence)
    return "\t".join([*about, *(str(counts[column]) for column in COLUMNS)])


def build(profile: str, folder: Path, jobs: int) -> None:
    sources = PROFILES[profile]
    packages, extracted = folder / "packages", folder / "extracted"
    extracted.mkdir(parents=True, exist_ok=True)
    versions = {source.package: (packages / source.package / "VERSION").read_text().strip() for source in sources}
    with multiprocessing.Pool(jobs) as pool:
        # One task a source: the largest sources stand late in the table, so they are started first.
        positions = reversed(range(len(sources)))
        results = [pool.apply_async(extract, (profile, position, packages, extracted)) for position in positions]
        for number, result in enumerate(results, 1):
            print(f"extracted {result.get()} ({number} of {len(results)})", file=sys.stderr, flush=True)

    finder = DuplicateFinder()
    rows = ["\t".join(["package", "version", "quality", "licence", *COLUMNS])]
    total: Counter[str] = Counter()

    def all_documents() -> Iterator[str]:
        for source in sources:
            counts = Counter(json.loads((extracted / f"{source.package}.counts.json").read_text()))
            yield from documents_of(source, extracted, finder, counts)
            rows.append(table_row(source, versions, counts))
            total.update(counts)

    write_whole(folder / "text.jsonl.new", all_documents())
    write_whole(folder / "sources.tsv", iter(rows))
    (folder / "text.jsonl.new").replace(folder / "text.jsonl")
    print(f"{total['documents']} documents, {total['bytes'] / 1e6:.2f} MB in {folder / 'text.jsonl'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("profile", choices=PROFILES)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--list", action="store_true", help="print the packages of the profile")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(source.package for source in PROFILES[arguments.profile]))
    else:
        build(arguments.profile, arguments.folder, arguments.jobs)


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as error:
        sys.exit(f"scripts/corpus/build.py: {error}")
