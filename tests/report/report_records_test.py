"""scripts/report on real records, whole and damaged: what is read, the tables, the figures' files."""

import report_packages  # noqa: F401  first: finds the packages

import contextlib
import io
import json
import math
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import numpy
import yaml
from matplotlib import image

from report_packages import RECORDS, ROOT
from reporting import __main__ as report
from reporting import (chart, coefficients, curves, draw_files, draw_page, memory, paper_figures, records, tables, tensorboard_bridge,
                       values)

RESULTS = ROOT / "docs/results"
PAPER = yaml.safe_load((ROOT / "scripts/reporting/paper.yaml").read_text())


def committed_tables():
    for folder in sorted(RESULTS.iterdir()):
        if (folder / "table.json").exists():
            yield folder, json.loads((folder / "table.json").read_text())


class AgainstTheProgram(unittest.TestCase):
    """The tables that `bov ablate` made of the same records."""

    def test_value_specs(self):
        for folder, table in committed_tables():
            rows = {row.name: row for row in records.read_grid(folder).rows}
            for expected in table["rows"]:
                with self.subTest(grid=folder.name, row=expected["name"]):
                    row = rows[expected["name"]]
                    self.assertEqual(values.formula(row.value), expected["formula"])
                    self.assertEqual(values.layer_text(values.target_layers(row.value, row.n_layer)), expected["layers"])
                    self.assertEqual(values.coefficient_text(row.value), expected["coefficient"])
                    self.assertEqual(", ".join(row.paper_rows), expected["paper_row"])

    def test_results(self):
        compared = 0
        for folder, table in committed_tables():
            ours = tables.results(records.read_grid(folder)).set_index("row")
            for expected in table["rows"]:
                line = ours.loc[expected["name"]]
                if not line["finished"]:
                    continue
                with self.subTest(grid=folder.name, row=expected["name"]):
                    compared += 1
                    for name, key in [("bits per byte", "bits_per_byte"), ("difference", "difference")]:
                        estimate = expected[key] or {"mean": math.nan, "half_width_95": None}
                        numpy.testing.assert_allclose(line[name], estimate["mean"], rtol=1e-12)
                        # Student's quantile comes from another series here.
                        numpy.testing.assert_allclose(line[f"{name} ±"], estimate["half_width_95"] or math.nan, rtol=1e-8)
                    self.assertEqual(line["parameters"], expected["parameters"])
                    self.assertEqual((line["steps"], line["tokens"]), (expected["steps"], expected["tokens"]))
        self.assertGreaterEqual(compared, 5)


def copy_two_rows(folder):
    """The records of the baseline and of one row."""
    names = ("t1_01_standard", "bov")
    for name in names:
        shutil.copytree(RECORDS / name, folder / name)
    plan = yaml.load((RECORDS / "grid.yaml").read_text(), Loader=yaml.CSafeLoader)
    plan["rows"] = [row for row in plan["rows"] if row["name"] in names]
    (folder / "grid.yaml").write_text(yaml.dump(plan, Dumper=yaml.CSafeDumper, sort_keys=False))


class DamagedRecords(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "small"
        copy_two_rows(self.folder)

    def state(self, row, seed):
        table = tables.runs(records.read_grid(self.folder))
        line = table[(table.row == row) & (table.seed == seed)].iloc[0]
        return line.state, line.note

    def test_whole(self):
        self.assertEqual(self.state("bov", 1), ("complete", ""))

    def test_missing(self):
        shutil.rmtree(self.folder / "bov/seed-2")
        self.assertEqual(self.state("bov", 2), ("missing", ""))
        line = tables.results_text(tables.results(records.read_grid(self.folder))).set_index("row").loc["bov"]
        self.assertEqual(line["runs"], "2/3")

    def test_half_written(self):
        (self.folder / "bov/seed-2/result.json").unlink()
        log = self.folder / "bov/seed-2/metrics.jsonl"
        lines = log.read_text().splitlines(keepends=True)
        training = [number for number, text in enumerate(lines) if '"loss"' in text]
        log.write_text("".join(lines[:training[2]]) + lines[training[2]][:50])
        state, note = self.state("bov", 2)
        self.assertEqual(state, "unfinished")
        self.assertIn("step 6 of 12", note)
        self.assertIn(f"metrics.jsonl ends in half a line ({training[2] + 1})", note)
        grid = records.read_grid(self.folder)
        self.assertEqual(list(grid.row("bov").runs[1].training.step), [3, 6])
        # Its curve is drawn, its seed is in no mean of final values.
        self.assertEqual(sum(series.row == "bov" for series in curves.training_chart(grid).panels[0].series), 3)
        self.assertEqual(tables.results(grid).set_index("row").loc["bov"]["finished"], 2)

    def test_damaged_result(self):
        path = self.folder / "bov/seed-2/result.json"
        path.write_text(path.read_text()[:100])
        state, note = self.state("bov", 2)
        self.assertEqual(state, "unfinished")
        self.assertIn("result.json is damaged or half-written", note)

    def test_failed(self):
        (self.folder / "bov/seed-2/result.json").unlink()
        (self.folder / "bov/seed-2/failure.json").write_text('{"config_hash": "0", "error": "killed by signal 9"}')
        self.assertEqual(self.state("bov", 2), ("failed", "killed by signal 9"))

    def test_run_of_another_config(self):
        path = self.folder / "bov/seed-2/config.yaml"
        path.write_text(path.read_text().replace("n_embd: 64", "n_embd: 128"))
        self.assertEqual(self.state("bov", 2), ("another config", "differs from the row in model.n_embd"))
        self.assertEqual(tables.results(records.read_grid(self.folder)).set_index("row").loc["bov"]["finished"], 2)
        # The seed is a part of the config.
        shutil.copy(self.folder / "bov/seed-1/config.yaml", path)
        self.assertEqual(self.state("bov", 2), ("another config", "differs from the row in train.seed"))

    def record_data(self, run, data):
        path = run / "environment.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"data": data}))

    def test_run_of_other_data(self):
        self.assertRegex(tables.unknown_data(records.read_grid(self.folder)), "^6 runs have not recorded which data they read")
        for run in self.folder.glob("*/seed-*"):
            self.record_data(run, {"train": "11", "validation": "22"})
        self.assertEqual(tables.unknown_data(records.read_grid(self.folder)), "")
        self.record_data(self.folder / "bov/seed-2", {"train": "33", "validation": "22"})
        self.assertEqual(self.state("bov", 2), ("other data", "train is 33 there and 11 here"))
        self.assertEqual(self.state("bov", 3), ("complete", ""))
        grid = records.read_grid(self.folder)
        self.assertEqual(tables.results(grid).set_index("row").loc["bov"]["finished"], 2)
        self.assertEqual(sum(series.row == "bov" for series in curves.training_chart(grid).panels[0].series), 2)
        # Runs by themselves are compared as well.
        alone, = records.read_sources([self.folder / "t1_01_standard/seed-1", self.folder / "bov/seed-2"])
        self.assertEqual([run.status for run in alone.runs()], ["complete", "other data"])
        (self.folder / "bov/seed-3/environment.json").unlink()
        self.assertRegex(tables.unknown_data(records.read_grid(self.folder)), "^1 run has not recorded")

    def sections(self, *sources):
        """What a page of the folder, or of some of its runs, is made from."""
        return [report.section_of(grid, report.charts_of(grid))
                for grid in records.read_sources([self.folder / source for source in sources] or [self.folder])]

    def drawn_sections(self, *sources):
        """The same with every chart drawn."""
        found = self.sections(*sources)
        for section in found:
            for drawn in section["charts"]:
                draw_page.figure_json(drawn)
        return found

    def test_configs_that_are_missing_or_empty(self):
        for text, reason in [(None, "result.json without config.yaml"), ("", "config.yaml holds no config"), ("- 3\n", "config.yaml holds no config")]:
            with self.subTest(config=text):
                path = self.folder / "bov/seed-2/config.yaml"
                path.unlink(missing_ok=True)
                if text is not None:
                    path.write_text(text)
                state, note = self.state("bov", 2)
                self.assertEqual(state, "unreadable records")
                self.assertIn(reason, note)
                make = self.drawn_sections if text is None else self.sections
                for sources in [(), ("bov/seed-2",), ("bov/seed-1", "bov/seed-2")][:3 if text is None else 1]:
                    section, = make(*sources)
                    self.assertIn("unreadable records", set(section["incomplete"].state))
        path.write_text("model: {n_layer: 2}\nvalue: {combine: add}\npaper: null\nbudget: null\n")
        section, = self.drawn_sections("bov/seed-2")
        self.assertEqual(list(section["results"].runs), ["1/1"])

    def test_results_of_other_forms(self):
        path = self.folder / "bov/seed-2/result.json"
        result = json.loads(path.read_text())
        path.write_text(json.dumps(result | {"coefficients": None}))
        self.assertEqual(self.state("bov", 2), ("complete", ""))
        self.drawn_sections()
        for changed in [{"coefficients": {"x": {"gamma": 1}}}, {"coefficients": {"8": None}}, {"tokens_per_second": "fast"}]:
            path.write_text(json.dumps(result | changed))
            state, note = self.state("bov", 2)
            self.assertEqual(state, "unfinished")
            self.assertIn("result.json has an entry of another type", note)

    def test_environments_of_other_forms(self):
        path = self.folder / "bov/seed-2/environment.json"
        for text in ["", "[]", "3"]:
            path.write_text(text)
            state, note = self.state("bov", 2)
            self.assertEqual(state, "unreadable records")
            self.assertIn("environment.json is damaged", note)
        self.drawn_sections()
        for text in ['{"command": 3, "resumed": {"a": 1}, "versions": []}', '{"command": null, "resumed": [1, {}], "data": 3}', "{}"]:
            path.write_text(text)
            self.assertEqual(self.state("bov", 2), ("complete", ""))
            self.sections()

    def test_log_rows_of_other_forms(self):
        path = self.folder / "bov/seed-2/metrics.jsonl"
        (self.folder / "bov/seed-2/result.json").unlink()
        path.write_text('{"step": "three", "tokens": 1, "flops": 1, "loss": 1}\n3\n{"step": 1, "tokens": 1, "flops": 1, "loss": "x"}\n'
                        '{"step": 1, "tokens": 1, "flops": 1, "loss": 2, "coefficients": {"8": null}}\n')
        state, note = self.state("bov", 2)
        self.assertEqual(state, "unfinished")
        for line in (1, 2, 3):
            self.assertIn(f"metrics.jsonl:{line} is no log row", note)
        self.assertIn("metrics.jsonl:4 has coefficients of another form", note)
        self.drawn_sections()

    def test_nothing_but_the_plan(self):
        for row in self.folder.iterdir():
            if row.is_dir():
                shutil.rmtree(row)
        grid = records.read_grid(self.folder)
        self.assertEqual(set(tables.runs(grid).state), {"missing"})
        self.assertEqual([found.name for found in report.charts_of(grid)], ["figure_5a"])

    def test_folder_without_records(self):
        with self.assertRaisesRegex(records.RecordError, "neither the folder of a grid"):
            records.read_sources([self.folder.parent])

    def test_a_run_counts_once(self):
        run = self.folder / "bov/seed-1"
        shutil.copytree(run, self.folder / "copy")
        for again in (run, self.folder / "copy"):
            with self.assertRaisesRegex(records.RecordError, f"^{again}: a run of bov with seed 1 is given already"):
                records.read_sources([run, self.folder / "t1_01_standard/seed-1", again])


class Charts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.grid = records.read_grid(RECORDS)
        cls.charts = {found.name: found for found in report.charts_of(cls.grid)}

    def test_derived_ratio(self):
        table = coefficients.coefficients_of(self.grid.row("t1_13_add_embedding_learned"))
        wide = table.pivot_table(index=["seed", "tokens", "layer"], columns="coefficient", values="value")
        self.assertEqual(len(wide), 3 * 4 * 4)  # seeds, logged steps, layers
        numpy.testing.assert_allclose(wide.ratio, (wide.beta / wide.alpha).abs())

    def test_bands_hold_every_seed(self):
        row = self.grid.row("bov")
        for series in self.charts["coefficients_bov"].panels[0].series:
            layer = int(series.name.removeprefix("layer "))
            for run in row.runs:
                own = run.coefficients[run.coefficients.layer == layer].set_index("tokens").value.loc[series.x]
                self.assertTrue(((series.low <= own) & (own <= series.high)).all())

    def test_every_coefficient_has_its_panel(self):
        panels = {name: [panel.title for panel in found.panels] for name, found in self.charts.items()}
        self.assertEqual(panels["coefficients_bov"], ["γ"])
        self.assertEqual(panels["coefficients_t1_11_add_first_layer_learned"], ["α", "β", "|β/α|"])
        self.assertEqual(panels["coefficients_t3_02_value_embedding_gated"], ["mean of g", "spread of g"])
        self.assertNotIn("coefficients_fig5b_no_coefficient", panels)

    def test_coefficients_of_heads_are_lines_of_their_own(self):
        with tempfile.TemporaryDirectory() as name:
            run = pathlib.Path(name) / "run"
            shutil.copytree(RECORDS / "t1_13_add_embedding_learned/seed-1", run)
            (run / "config.yaml").write_text((run / "config.yaml").read_text().replace("coefficient: learned", "coefficient: learned_per_head"))
            by_head = {f"{key}_{head}": 1.5 + head for key in ("alpha", "beta") for head in range(2)}
            (run / "metrics.jsonl").write_text("".join(json.dumps({
                "step": step, "tokens": step, "flops": step, "loss": 1, "coefficients": {"8": by_head, "9": by_head}}) + "\n"
                for step in (1, 2)))
            grid, = records.read_sources([run])
            drawn, = coefficients.trajectory_charts(grid)
        self.assertEqual([panel.title for panel in drawn.panels], ["α", "β", "|β/α|"])
        self.assertEqual([series.name for series in drawn.panels[0].series],
                         [f"layer {layer}, head {head}" for layer in (8, 9) for head in range(2)])
        self.assertEqual(values.formula(grid.rows[0].value), "α_h·V + β_h·x0·W_V")
        self.assertEqual(values.symbol("gamma_3"), "γ_3")

    def test_single_runs(self):
        grid, = records.read_sources([RESULTS / "quickstart/bov/seed-1", RESULTS / "quickstart/bov/seed-3",
                                      RESULTS / "quickstart/t1_01_standard/seed-1"])
        self.assertEqual([(row.name, [run.seed for run in row.runs]) for row in grid.rows], [("bov", [1, 3]), ("t1_01_standard", [1])])
        names = [found.name for found in report.charts_of(grid)]
        self.assertLessEqual({"training_loss", "validation", "coefficients_bov", "figure_2"}, set(names))
        self.assertNotIn("loss_difference", names)
        self.assertTrue(numpy.isnan(tables.results(grid).difference).all())

    def test_grids_of_one_name_are_told_apart(self):
        self.assertEqual([grid.name for grid in records.read_sources([RECORDS, RESULTS / "quickstart", RECORDS])],
                         ["small-1", "quickstart", "small"])

    def test_figure_2(self):
        drawn = self.charts["figure_2"]
        names = [[series.name for series in panel.series] for panel in drawn.panels]
        self.assertEqual(names[1], ["α of V", "α of V, paper", "β of V1", "β of V1, paper"])
        ours = drawn.panels[2].series[0]
        runs = self.grid.row("t1_13_add_embedding_learned").runs
        self.assertAlmostEqual(ours.y[0], numpy.mean([run.result["coefficients"]["8"]["alpha"] for run in runs]))
        self.assertEqual(list(ours.x), [8, 9, 10, 11])
        self.assertEqual(list(drawn.panels[2].series[3].y), PAPER["figure_2"]["T1-13"]["beta"])
        self.assertEqual([panel.x_ticks for panel in drawn.panels], [[8, 9, 10, 11]] * 3)

    def test_figure_2_of_another_depth(self):
        drawn = coefficients.figure_2(records.read_grid(RESULTS / "quickstart"), PAPER)
        self.assertEqual(list(drawn.panels[0].series[0].x), [4 / 6, 5 / 6])
        self.assertEqual(drawn.panels[0].series[1].x[0], 8 / 12)
        self.assertEqual(drawn.panels[0].x_ticks, [8 / 12, 9 / 12, 10 / 12, 11 / 12])

    def test_many_differences_are_drawn_by_source(self):
        drawn = self.charts["loss_difference"]
        names = {panel.title: [series.name for series in panel.series] for panel in drawn.panels}
        self.assertEqual(list(names), [f"values from {source}" for source in ("V", "V1", "x0·W_V", "E_V[i]")])
        self.assertEqual(sorted(sum(names.values(), [])), sorted(row.name for row in self.grid.rows if row.name != self.grid.baseline))
        self.assertIn("bov", names["values from E_V[i]"])
        self.assertEqual((drawn.rows, drawn.columns), (2, 2))
        traces = draw_page.figure_json(drawn)["data"]
        self.assertEqual(len({trace["yaxis"] for trace in traces}), 4)
        headings = [trace["legendgrouptitle"].get("text") for trace in traces if "legendgrouptitle" in trace]
        self.assertEqual([heading for heading in headings if heading], list(names))
        few = curves.difference_chart(records.read_grid(RESULTS / "quickstart"))
        self.assertEqual([len(panel.series) for panel in few.panels], [4])

    def test_figures_4_and_5b_show_every_row(self):
        for name, labels in [("figure_4", paper_figures.FIGURE_4), ("figure_5b", paper_figures.FIGURE_5B)]:
            panels = self.charts[name].panels
            for panel, count in zip(panels, [5, 4, 5], strict=True):
                self.assertEqual(len(panel.series), count, panel.title)
            self.assertEqual([series.name for series in panels[0].series], list(labels.values()))

    def test_figure_5a_has_the_published_values(self):
        for vocabulary, points in PAPER["figure_5a"].items():
            for tokens, published in points.items():
                saved = 100 * memory.saved_share(tokens, 12, 768, range(8, 12), vocabulary, 4)
                self.assertAlmostEqual(saved, published, delta=0.006)  # published to two digits

    def test_windows_never_pay(self):
        """At the paper's sizes: 3,588 rows of V in the target layers against four tables of 32,768."""
        rows = memory.window_rows({"sequence_length": 2048, "window_pattern": "SSSL", "n_layer": 12})
        self.assertEqual(sum(rows(layer, 10**6) for layer in range(8, 12)), 3588)
        self.assertLess(memory.saved_share(10**6, 12, 768, range(8, 12), 32768, 4, rows), 0)

    def test_styles_differ(self):
        self.assertEqual(len({chart.style(index) for index in range(140)}), 140)

    def test_files_of_every_kind_of_chart(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            # One chart of coefficients and one of the paper's curves stand for their kind.
            for drawn in [found for name, found in self.charts.items() if name == "coefficients_bov"
                          or not name.startswith(("coefficients_", "figure_5b"))]:
                with self.subTest(chart=drawn.name):
                    paths = draw_files.save(drawn, folder)
                    self.assertEqual([path.name for path in paths], [f"{drawn.name}.png", f"{drawn.name}.svg"])
                    pixels = image.imread(paths[0])[..., :3]
                    self.assertGreater(min(pixels.shape[:2]), 400)
                    self.assertGreater((pixels < 0.9).any(axis=-1).mean(), 0.01)  # not blank
            first = paths[1].read_bytes()
            self.assertEqual(draw_files.save(drawn, folder, ["svg"])[0].read_bytes(), first)


class Command(unittest.TestCase):
    def run_report(self, *arguments):
        return subprocess.run([ROOT / "scripts/report", *arguments], capture_output=True, text=True)

    def test_chosen_figures_of_several_grids(self):
        with tempfile.TemporaryDirectory() as name:
            grid, out = pathlib.Path(name) / "grid", pathlib.Path(name) / "out"
            copy_two_rows(grid)
            result = self.run_report(grid, RESULTS / "quickstart", "--out", out, "--charts", "figure_5a", "--formats", "svg")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            written = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
            expected = {f"{grid}/{file}" for grid in ("small", "quickstart") for file in (
                "figures/figure_5a.svg", "tables/results.csv", "tables/results.md", "tables/runs.csv", "tables/differences.csv",
                "tables/environments.csv")}
            self.assertEqual(written, expected)

    def test_copied_records_are_the_same_grid(self):
        with tempfile.TemporaryDirectory() as name:
            source, copy = pathlib.Path(name) / "runs", pathlib.Path(name) / "copy"
            shutil.copytree(RECORDS, source)
            (source / "bov/seed-1/checkpoints/step-12").mkdir(parents=True)
            (source / "bov/seed-1/checkpoints/step-12/model.safetensors").write_bytes(b"large")
            (source / "bov/seed-1/lock").touch()
            command = [ROOT / "scripts/copy_records", source, copy]
            self.assertEqual(subprocess.run(command, capture_output=True, text=True).returncode, 0)
            self.assertEqual({path.relative_to(copy): path.read_bytes() for path in copy.rglob("*") if path.is_file()},
                             {path.relative_to(RECORDS): path.read_bytes() for path in RECORDS.rglob("*") if path.is_file()})
            result = subprocess.run([ROOT / "scripts/copy_records", name, copy], capture_output=True, text=True)
            self.assertEqual((result.returncode, result.stderr),
                             (1, f"scripts/copy_records: {name} holds no records of a run or a grid\n"))

    def test_documents_use_options_that_exist(self):
        for program, parser in [("scripts/report", report.make_parser()), ("scripts/tensorboard_bridge", tensorboard_bridge.make_parser())]:
            accepted = parser.format_help()
            lines = [line for path in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")] for line in path.read_text().splitlines()
                     if line.startswith(program + " ")]
            self.assertGreater(len(lines), 0, program)
            for option in {word for line in lines for word in line.partition("#")[0].split() if word.startswith("--")}:
                self.assertIn(option, accepted, f"{program} {option}")

    def test_errors_name_what_is_wrong(self):
        with tempfile.TemporaryDirectory() as name:
            out = pathlib.Path(name) / "out"
            result = self.run_report(name, "--out", out)
            self.assertEqual((result.returncode, result.stdout, result.stderr),
                             (1, "", f"scripts/report: {name} is neither the folder of a grid (grid.yaml) nor of a run (config.yaml)\n"))
            # What main raises is what the program prints.
            copy_two_rows(pathlib.Path(name) / "small")
            with self.assertRaisesRegex(records.RecordError, "^small has no figure figure_9; it has final_difference, training_loss"):
                report.main([f"{name}/small", "--charts", "figure_9", "--out", str(out)])
            for arguments, message in [(["--formats", "png,gif"], "expected png, svg, pdf with commas between them, not 'png,gif'"),
                                       (["--charts", "figure_2,"], "'figure_2,' has an empty entry")]:
                printed = io.StringIO()
                with self.assertRaises(SystemExit), contextlib.redirect_stderr(printed):
                    report.make_parser().parse_args([name, "--out", str(out), *arguments])
                self.assertIn(message, printed.getvalue())


if __name__ == "__main__":
    unittest.main()
