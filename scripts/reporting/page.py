"""The page: one HTML file with everything in it, plotly.js too."""

import json
import os
import pathlib

import jinja2
import plotly.offline

from . import draw_page

HERE = pathlib.Path(__file__).parent


def write(path, title, sections):
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(HERE), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["table"] = table_html
    environment.filters["figure"] = figure_script
    text = environment.get_template("page.html").render(title=title, sections=sections, style=HERE.joinpath("page.css").read_text(),
                                                        script=HERE.joinpath("page.js").read_text(),
                                                        plotly=plotly.offline.get_plotlyjs())
    part = path.with_name(f".{path.name}.part")
    part.write_text(text)
    os.replace(part, path)


def table_html(table):
    return jinja2.filters.Markup(table.to_html(index=False, border=0, justify="left", na_rep="", classes="table"))


def figure_script(chart):
    """JSON that may stand inside a script element."""
    return jinja2.filters.Markup(json.dumps(draw_page.figure_json(chart)).replace("<", "\\u003c"))
