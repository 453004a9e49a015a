"""Draws what `bov bench decode --json FILE` measured: tokens a second by context, one panel for each problem.

Usage: scripts/plot_decode FILE --out DIR     writes DIR/decode_speed.{png,svg}
"""

import argparse
import json
import pathlib

from . import chart, draw_files


def points(measurements):
    """{(work, windows, batch): {method: [(tokens of context, tokens a second)]}}, in the file's order."""
    problems = {}
    for measured in measurements:
        if measured["op"] != "decode":
            continue
        methods = problems.setdefault((measured["work"], measured["windows"], measured["batch"]), {})
        methods.setdefault(measured["method"], []).append((measured["context_tokens"], measured["tokens_per_second"]))
    return problems


def decode_chart(measurements):
    panels = []
    problems = points(measurements)
    # A method looks the same in every panel, also in those that lack one before it.
    looks = {method: chart.style(index) for index, method in enumerate(dict.fromkeys(name for methods in problems.values() for name in methods))}
    for (work, windows, batch), methods in problems.items():
        series = [chart.Series(method, *zip(*sorted(values)), style=looks[method], points=True) for method, values in methods.items()]
        title = f"{work}\n{'all long' if windows == 'L' else windows}" + (f", batch {batch}" if batch > 1 else "")
        panels.append(chart.Panel(title, "tokens of context", "tokens per second", series, x_log=True, y_log=True))
    if not panels:
        raise SystemExit("the file holds no measurement of decode")
    return chart.Chart("decode_speed", "Decoding", "Tokens a second by length of context.", panels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    measurements = json.loads(arguments.file.read_text())["measurements"]
    arguments.out.mkdir(parents=True, exist_ok=True)
    for path in draw_files.save(decode_chart(measurements), arguments.out):
        print(path)


if __name__ == "__main__":
    main()
