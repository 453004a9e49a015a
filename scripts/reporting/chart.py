"""What a chart shows, whatever draws it: panels side by side, each with series over one pair of axes."""

import dataclasses

import numpy

# Colours of Okabe and Ito, told apart by people who see few colours, and with the dashes and markers also in grey print.
COLOURS = ["#000000", "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
DASHES = ["solid", "dash", "dot", "dashdot"]
MARKERS = ["circle", "square", "diamond", "triangle", "cross"]


@dataclasses.dataclass(frozen=True)
class Style:
    colour: str = COLOURS[0]
    dash: str = "solid"
    marker: str = "circle"
    filled: bool = True


def style(index):
    """The index-th of 140 different styles."""
    return Style(COLOURS[index % len(COLOURS)], DASHES[index % len(DASHES)], MARKERS[index % len(MARKERS)])


def units(value):
    """1250000 as "1.25M"; a fraction to two digits."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{unit}"
    return f"{value:.4g}" if abs(value) >= 1 else f"{value:.2g}"


@dataclasses.dataclass
class Series:
    name: str  # in the legend, where series of one name are one entry
    x: list
    y: list
    style: Style = Style()
    low: list = None  # spread around y, drawn as a band along a line and as bars at points
    high: list = None
    line: bool = True
    points: bool = False
    row: str = None  # what is switched off with this row, and this seed, of the grid
    seed: int = None

    def __post_init__(self):
        for name in ("x", "y", "low", "high"):
            values = getattr(self, name)
            if values is not None:
                setattr(self, name, numpy.asarray(values, dtype=float))


@dataclasses.dataclass
class Panel:
    title: str
    x_label: str
    y_label: str
    series: list
    x_log: bool = False
    y_log: bool = False  # in files alone
    x_ticks: list = None
    y_signed_log: bool = False  # asinh: linear near zero, logarithmic far from it, for both signs
    x_names: list = None  # names of the places 0, 1, ... of the horizontal axis
    bands: bool = True  # with many lines they would hide each other
    level: float = None  # a horizontal line for orientation


@dataclasses.dataclass
class Chart:
    name: str  # file name without its ending
    title: str
    caption: str
    panels: list
    legend_each: bool = False  # a legend under each panel of a file, instead of one for all
    shared_y: bool = False  # one vertical scale for all panels
    log_switch: bool = False  # the page offers logarithmic axes

    @property
    def columns(self):
        """Panels side by side: up to three in one row, more in two rows."""
        return len(self.panels) if len(self.panels) <= 3 else -(-len(self.panels) // 2)

    @property
    def rows(self):
        return -(-len(self.panels) // self.columns)

    def names(self):
        """Legend entries in their order, each with its first series."""
        entries = {}
        for panel in self.panels:
            for series in panel.series:
                entries.setdefault(series.name, series)
        return entries
