"""Makes a page, figures and tables from the records of runs.

Reads only what runs left behind (config.yaml, metrics.jsonl, result.json, environment.json); a grid or run that is still
training can be shown too. Writes index.html, figures/*.png and *.svg, and tables/*.csv and *.md.
"""

import argparse
import collections
import pathlib
import sys

import yaml

from . import coefficients, curves, draw_files, page, paper_figures, records, tables

FORMATS = ("png", "svg", "pdf")


def charts_of(grid):
    paper = yaml.safe_load(pathlib.Path(__file__).with_name("paper.yaml").read_text())
    charts = [paper_figures.final_differences(grid), *curves.loss_charts(grid), *coefficients.trajectory_charts(grid),
              coefficients.figure_2(grid, paper), *paper_figures.paper_charts(grid, paper)]
    return [chart for chart in charts if chart]


def section_of(grid, charts):
    runs = tables.runs(grid)
    counts = collections.Counter(runs.state)
    return {"grid": grid, "charts": charts, "results": tables.results_text(tables.results(grid)), "runs": runs,
            "state": f"{len(runs)} runs: " + ", ".join(f"{count} {state}" for state, count in counts.items()),
            "incomplete": tables.incomplete(runs), "unknown_data": tables.unknown_data(grid),
            "differences": tables.config_differences(grid),
            "environments": tables.environments(grid), "commands": tables.commands(grid)}


def write_tables(section, folder):
    folder.mkdir(parents=True, exist_ok=True)
    tables.results(section["grid"]).to_csv(folder / "results.csv", index=False)
    folder.joinpath("results.md").write_text(tables.markdown(section["results"]))
    for name in ("runs", "differences", "environments"):
        section[name].to_csv(folder / f"{name}.csv", index=False)


def names(text):
    """A list with commas."""
    found = text.split(",")
    if "" in found:
        raise argparse.ArgumentTypeError(f"{text!r} has an empty entry; expected names with commas between them")
    return found


def formats(text):
    found = text.split(",")
    if not set(found) <= set(FORMATS):
        raise argparse.ArgumentTypeError(f"expected {', '.join(FORMATS)} with commas between them, not {text!r}")
    return found


def make_parser():
    parser = argparse.ArgumentParser(prog="scripts/report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="Example: scripts/report runs/quickstart --out build/report")
    parser.add_argument("sources", nargs="+", metavar="RUN_OR_GRID", type=pathlib.Path, help="folder of a run or of a grid")
    parser.add_argument("--out", required=True, metavar="DIR", type=pathlib.Path, help="folder to write to")
    parser.add_argument("--charts", metavar="NAME,...", type=names,
                        help="only these figures, and no page; names are those of the files")
    parser.add_argument("--formats", metavar="NAME,...", type=formats, default=["png", "svg"],
                        help=f"of the figures' files: {', '.join(FORMATS)} (default: png,svg)")
    return parser


def main(arguments=None):
    arguments = make_parser().parse_args(arguments)
    grids = records.read_sources(arguments.sources)
    sections = []
    for grid in grids:
        charts = charts_of(grid)
        if arguments.charts:
            unknown = set(arguments.charts) - {chart.name for chart in charts}
            if unknown:
                raise records.RecordError(f"{grid.name} has no figure {', '.join(sorted(unknown))}; it has "
                                          + ", ".join(chart.name for chart in charts))
            charts = [chart for chart in charts if chart.name in arguments.charts]
        # Several grids keep out of each other's way.
        place = arguments.out / grid.name if len(grids) > 1 else arguments.out
        place.joinpath("figures").mkdir(parents=True, exist_ok=True)
        for chart in charts:
            draw_files.save(chart, place / "figures", arguments.formats)
        sections.append(section_of(grid, charts))
        write_tables(sections[-1], place / "tables")
        print(f"{grid.name}: {sections[-1]['state']}; {len(charts)} figures in {place / 'figures'}")
    if not arguments.charts:
        page.write(arguments.out / "index.html", " and ".join(grid.name for grid in grids), sections)
        print(f"page: {arguments.out / 'index.html'}")


if __name__ == "__main__":
    try:
        main()
    except (records.RecordError, OSError) as error:
        sys.exit(f"scripts/report: {error}")
