"""The report's templates: how they are found, and what turns a value into text that is safe where it stands."""

from __future__ import annotations

import json

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from plumbline.reports.chart import Chart
from plumbline.reports.figures import sentence, size, words
from plumbline.reports.summary import headline


def templates() -> Environment:
    """HTML is escaped by itself, Markdown by the filter `md`; a name that is not there is an error."""
    environment = Environment(
        loader=PackageLoader("plumbline.reports", "templates"),
        autoescape=lambda name: bool(name) and ".html" in str(name),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "words": words,
        "sentence": sentence,
        "size": size,
        "chart_json": chart_json,
        "md": markdown,
        "headline": headline,
    }
    return environment


def chart_json(chart: Chart) -> Markup:
    """A chart's data for a script element: nothing in it can end the element."""
    text = json.dumps({"data": chart.data, "layout": chart.layout}, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def markdown(text: object) -> str:
    """Text for a cell of a Markdown table."""
    return str(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
