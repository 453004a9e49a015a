"""The page of scripts/report in a real browser: every chart is drawn, nothing complains, runs can be switched."""

import report_packages

import pathlib
import shutil
import subprocess
import tempfile
import unittest

import yaml
from report_packages import RECORDS, ROOT
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if not CHROMIUM or not DRIVER:
    report_packages.skip("there is no chromium with its chromedriver")


# Enough for every kind of chart.
ROWS = ["t1_01_standard", "t1_06_replace_first_layer_learned", "t1_09_replace_embedding_learned", "t1_13_add_embedding_learned", "bov",
        "fig5b_shared_table", "t3_02_value_embedding_gated"]


def start_browser():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1500,1000"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))


class Page(unittest.TestCase):
    """Rows of a grid with one run missing and one half-written."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        grid = cls.folder / "small"
        shutil.copytree(RECORDS, grid)
        plan = yaml.safe_load((grid / "grid.yaml").read_text())
        plan["rows"] = [row for row in plan["rows"] if row["name"] in ROWS]
        (grid / "grid.yaml").write_text(yaml.safe_dump(plan, sort_keys=False))
        shutil.rmtree(grid / "t1_06_replace_first_layer_learned/seed-3")
        (grid / "t1_09_replace_embedding_learned/seed-2/result.json").unlink()
        result = subprocess.run([ROOT / "scripts/report", grid, "--out", cls.folder / "out", "--formats", "svg"],
                                capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        cls.page = cls.folder / "out/index.html"
        cls.browser = start_browser()
        cls.addClassCleanup(cls.browser.quit)

    def setUp(self):
        self.browser.get(self.page.as_uri())
        WebDriverWait(self.browser, 60).until(lambda browser: browser.execute_script(
            "return [...document.querySelectorAll('.chart')].every(chart => chart.querySelector('.main-svg'))"))

    def tearDown(self):
        self.assertEqual(self.browser.get_log("browser"), [])

    def script(self, text, *arguments):
        return self.browser.execute_script(text, *arguments)

    def chart(self, name):
        return self.browser.find_element(By.ID, f"small-{name}")

    def shown_rows(self, name):
        """{row: number of its visible traces} of a chart."""
        traces = self.script("return arguments[0].data.map(t => [t.meta.row, t.visible])", self.chart(name))
        counts = {}
        for row, visible in traces:
            counts[row] = counts.get(row, 0) + (visible in (None, True))
        return counts

    def lines_drawn(self, name):
        return len(self.chart(name).find_elements(By.CSS_SELECTOR, ".scatterlayer .trace"))

    def click(self, element):
        self.script("arguments[0].scrollIntoView({block: 'center'})", element)
        ActionChains(self.browser).move_to_element(element).click().perform()

    def box(self, row, seed=None):
        seed_part = ":not([data-seed])" if seed is None else f"[data-seed='{seed}']"
        return self.browser.find_element(By.CSS_SELECTOR, f"input[data-row='{row}']{seed_part}")

    def test_every_chart_is_drawn(self):
        charts = self.browser.find_elements(By.CLASS_NAME, "chart")
        names = {chart.get_attribute("id").removeprefix("small-") for chart in charts}
        files = {path.stem for path in (self.folder / "out/figures").glob("*.svg")}
        self.assertEqual(names, files)
        self.assertLessEqual({"final_difference", "training_loss", "validation", "loss_difference", "figure_2", "figure_4", "figure_5a",
                              "figure_5b", "coefficients_bov", "coefficients_t3_02_value_embedding_gated"}, names)
        for chart in charts:
            with self.subTest(chart=chart.get_attribute("id")):
                traces = self.script("return arguments[0].data.length", chart)
                self.assertGreater(traces, 0)
                self.assertEqual(len(chart.find_elements(By.CSS_SELECTOR, ".scatterlayer .trace")), traces)
                self.assertGreater(chart.rect["width"], 800)
                # Titles of axes and legends stay inside the chart.
                outside = self.script("""
                    const frame = arguments[0].getBoundingClientRect();
                    return [...arguments[0].querySelectorAll('.xtitle, .ytitle, .legendtext, .xtick text, .ytick text')]
                      .filter(text => { const box = text.getBoundingClientRect();
                        return box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1; })
                      .map(text => text.textContent)""", chart)
                self.assertEqual(outside, [])

    def test_page_needs_nothing_else(self):
        self.assertEqual(self.script("return performance.getEntriesByType('resource').map(entry => entry.name)"), [])
        buttons = self.script("return [...document.querySelectorAll('.modebar-btn')].map(button => button.dataset.title)")
        self.assertIn("Zoom", buttons)
        self.assertEqual([title for title in buttons if "Share" in title], [])

    def test_unfinished_and_missing_runs_are_named(self):
        text = self.browser.find_element(By.TAG_NAME, "body").text
        self.assertIn("21 runs: 19 complete, 1 missing, 1 unfinished", text)
        self.assertIn("t1_06_replace_first_layer_learned 3 missing", text)
        self.assertIn("t1_09_replace_embedding_learned 2 unfinished step 12 of 12", text)

    def test_a_row_is_switched_off_and_on_in_every_chart(self):
        before = {name: self.lines_drawn(name) for name in ("training_loss", "figure_4", "coefficients_bov")}
        self.assertEqual(self.shown_rows("training_loss")["bov"], 6)  # three seeds in two panels
        self.click(self.box("bov"))
        for name in before:
            self.assertEqual(self.shown_rows(name)["bov"], 0, name)
            self.assertLess(self.lines_drawn(name), before[name])
        self.assertEqual(self.shown_rows("training_loss")["t1_01_standard"], 6)
        self.assertFalse(self.box("bov", 2).is_selected())
        self.click(self.box("bov"))
        self.assertEqual({name: self.lines_drawn(name) for name in before}, before)

    def test_a_seed_is_switched(self):
        self.click(self.box("bov", 2))
        self.assertEqual(self.shown_rows("training_loss")["bov"], 4)
        self.assertTrue(self.box("bov").is_selected())
        for seed in (1, 3):
            self.click(self.box("bov", seed))
        self.assertEqual(self.shown_rows("coefficients_bov")["bov"], 0)
        self.assertFalse(self.box("bov").is_selected())

    def test_a_legend_entry_switches_its_row(self):
        chart = self.chart("training_loss")
        entry = next(toggle for toggle in chart.find_elements(By.CSS_SELECTOR, ".legend .traces")
                     if toggle.find_element(By.CLASS_NAME, "legendtext").text == "bov")
        self.click(entry.find_element(By.CLASS_NAME, "legendtoggle"))
        # A second click within this time would be a double click, so plotly waits.
        WebDriverWait(self.browser, 10).until(lambda _: self.shown_rows("training_loss")["bov"] == 0)
        self.assertEqual(self.shown_rows("training_loss")["t1_01_standard"], 6)

    def test_logarithmic_axes(self):
        chart = self.chart("training_loss")
        for label, axes in [("x log", ("xaxis", "xaxis2")), ("y log", ("yaxis", "yaxis2"))]:
            button = next(text for text in chart.find_elements(By.CSS_SELECTOR, ".updatemenu-button") if text.text == label)
            self.click(button)
            for axis in axes:
                self.assertEqual(self.script("return arguments[0]._fullLayout[arguments[1]].type", chart, axis), "log")

    def test_hover_and_zoom(self):
        chart = self.chart("training_loss")
        self.script("arguments[0].scrollIntoView({block: 'center'})", chart)
        area = chart.find_element(By.CSS_SELECTOR, ".nsewdrag")
        before = self.script("return arguments[0]._fullLayout.xaxis.range", chart)
        self.script("Plotly.Fx.hover(arguments[0], [{curveNumber: 0, pointNumber: 1}])", chart)
        label = WebDriverWait(self.browser, 10).until(lambda _: chart.find_element(By.CSS_SELECTOR, ".hoverlayer .hovertext").text)
        self.assertIn("t1_01_standard, seed 1", label)
        ActionChains(self.browser).move_to_element_with_offset(area, -80, -50).click_and_hold() \
            .move_by_offset(80, 50).move_by_offset(60, 40).release().perform()
        after = self.script("return arguments[0]._fullLayout.xaxis.range", chart)
        self.assertLess(after[1] - after[0], 0.9 * (before[1] - before[0]))


if __name__ == "__main__":
    unittest.main()
