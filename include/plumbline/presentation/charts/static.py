"""A chart as static SVG or PNG: matplotlib draws the data that the pages hand to Plotly. Colours of an SVG stay names of the style sheet."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from plumbline.presentation.charts.chart import Chart, Part

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, WIDE = 480, 992
"""Pixels of a chart in a column of two, and of one across both."""
_NAMES = (
    *("paper", "raised", "ink", "soft", "faint", "line", "grid", "band", "accent", "good", "warn", "bad"),
    *(f"p{i}" for i in range(8)),
    *(f"s{i}" for i in range(12)),
)
_STAND_INS = {name: f"#fe{i:02x}01" for i, name in enumerate(_NAMES)}
"""Colours that stand for names of the style sheet in matplotlib; no chart has them otherwise."""
_SYMBOLS = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "cross": "P",
    "x": "X",
    "star": "*",
    "hexagon": "h",
    "line-ns": "|",
    "circle-open": "o",
}
_DASHES: dict[str, Any] = {
    "solid": "-",
    "dash": (0, (5, 2.5)),
    "dot": (0, (1.2, 1.8)),
    "dashdot": (0, (5, 2, 1.2, 2)),
    "longdash": (0, (9, 3)),
    "longdashdot": (0, (9, 2.5, 1.5, 2.5)),
}
_HATCHES = {"/": "///", "x": "xxx", "\\": "\\\\\\", "-": "---", "|": "|||", "+": "+++", ".": "..."}
_RC_PARAMS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "hatch.linewidth": 0.6,
    "path.simplify_threshold": 0.6,
}


def svg(chart: Chart) -> str:
    """The chart as an `<svg>` element for HTML. The same chart gives the same bytes; ids are unique by the chart's name."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    with rc_context({**_RC_PARAMS, "svg.hashsalt": chart.name}):
        figure = _figure(chart, _STAND_INS)
        FigureCanvasSVG(figure)
        _lay_out(figure)
        target = io.StringIO()
        figure.savefig(target, format="svg", transparent=True, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _compact(target.getvalue(), chart)


def light_colours() -> dict[str, str]:
    """The style sheet's colours for a light page, by name; `band` as a plain colour."""
    style = (files("plumbline.presentation.html") / "templates" / "report.css").read_text()
    colours = dict(re.findall(r"--([a-z]+\d*(?:-bg)?): (#[0-9a-f]{6})", style[: style.index("@media")]))
    return {**colours, "band": colours["grid"]}


def png(chart: Chart, colours: Mapping[str, str], scale: float = 2.0) -> bytes:
    """The chart as a PNG, `scale` pixels a point, for readers without SVG. `colours`: of each name, such as `p0`."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with rc_context(_RC_PARAMS):
        figure = _figure(chart, colours)
        FigureCanvasAgg(figure)
        figure.set_dpi(72 * scale)
        _lay_out(figure)
        target = io.BytesIO()
        figure.savefig(target, format="png", dpi=72 * scale, facecolor=colours["paper"], metadata={"Software": None})
    return target.getvalue()


def _lay_out(figure: Figure) -> None:
    """Place the parts: writing the file would otherwise draw everything once more for it."""
    layout = figure.get_layout_engine()
    assert layout is not None
    layout.execute(figure)
    figure.set_layout_engine("none")


def _compact(text: str, chart: Chart) -> str:
    """The element without a preamble and unused ids, with the style sheet's colours and fonts."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    for name, colour in _STAND_INS.items():
        text = text.replace(colour, f"var(--{name})")
    text = re.sub(r" font-family: '[^;\"]+;?|font: (?:\w+ )?(?=[\d.]+px)", "", text)
    text = re.sub(r'style="([\d.]+px) [^;"]+', r'style="font-size: \1', text)
    text = re.sub(
        r'="[^"]*"', lambda match: re.sub(r"(\d)\.(\d)\d*", lambda n: n[1] if n[2] == "0" else f"{n[1]}.{n[2]}", match.group()), text
    )
    for pattern in _UNUSED_MARKUP:
        text = re.sub(pattern, "", text)
    text = re.sub(r"\s*\n\s*", " ", text).replace("> <", "><").replace("xlink:href=", "href=")
    width, height = _size(chart)
    head = f'<svg class="drawn" viewBox="0 0 {width} {height}" width="{width}" height="{height}" aria-hidden="true">'
    return head + text[text.index(">") + 1 :].strip()


def _size(chart: Chart) -> tuple[int, int]:
    return (WIDE if chart.wide else WIDTH), chart.height


_UNUSED_MARKUP = (
    r' transform="rotate\(-?0 [^"]*"',
    r' id="[A-Za-z0-9]+[_.][A-Za-z0-9_.]*"',
    r'<path d="[^"]*" style="fill: none"/>',
    r'<style type="text/css">[^<]*</style>',
    r"; stroke-linecap: (?:square|butt)|; stroke-linejoin: miter",
    *(r"<g>\s*</g>|<g/>|<defs>\s*</defs>",) * 3,
)
"""Markup that matplotlib writes without effect; groups within empty groups are three deep."""


class _Drawing:
    """One chart on its axes: where categories are, and which colours names have."""

    def __init__(self, chart: Chart, axes: Axes, colours: Mapping[str, str]) -> None:
        self.chart, self.axes, self.colours = chart, axes, colours
        self.places = {along: self._categories(along) for along in ("x", "y")}
        self._stacked: dict[Any, float] = {}

    def colour(self, name: Any) -> str:
        if not isinstance(name, str):
            return self.colours["p0"]
        return self.colours[name[1:]] if name.startswith("$") else name

    def _layout(self, along: str) -> Part:
        layout: Part = self.chart.layout.get(f"{along}axis", {})
        return layout

    def _categories(self, along: str) -> dict[Any, int] | None:
        """Category → place; None of an axis of numbers or dates."""
        layout = self._layout(along)
        values = [v for trace in self.chart.data for v in trace.get(along, ())]
        if layout.get("type") != "category" and not any(isinstance(v, str) for v in values):
            return None
        return {name: i for i, name in enumerate(dict.fromkeys([*layout.get("categoryarray", ()), *values]))}

    def positions(self, along: str, values: Sequence[Any]) -> list[float]:
        places = self.places[along]
        return [math.nan if v is None else float(v) if places is None else places[v] for v in values]

    def bars(self, trace: Part) -> None:
        y, x = self.positions("y", trace["y"]), [0.0 if v is None else float(v) for v in trace["x"]]
        marker = trace["marker"]
        base = list(trace.get("base") or [0.0] * len(x))
        if self.chart.layout.get("barmode") == "stack":
            for i, (place, value) in enumerate(zip(y, x, strict=True)):
                base[i] = self._stacked.get(place, 0.0)
                self._stacked[place] = base[i] + value
        colour = marker["color"]
        has_several_colours = isinstance(colour, list)
        # Without colours too, bars can be distinguished.
        hatch = _HATCHES.get(marker.get("pattern", {}).get("shape", ""))
        self.axes.barh(
            y,
            x,
            height=trace.get("width", 1 - self.chart.layout.get("bargap", 0.25)),
            left=base,
            color=[self.colour(c) for c in colour] if has_several_colours else self.colour(colour),
            alpha=marker.get("opacity"),
            edgecolor=self.colour("$paper"),
            linewidth=0.8,
            hatch=hatch,
            label=trace.get("name"),
            zorder=2,
        )
        self._errors(trace, [b + v for b, v in zip(base, x, strict=True)], y)
        if "text" in trace and trace.get("textposition") in ("outside", "inside"):
            self._annotate_bars(trace, y, [b + v for b, v in zip(base, x, strict=True)], x)

    def _annotate_bars(self, trace: Part, y: Sequence[float], ends: Sequence[float], lengths: Sequence[float]) -> None:
        for text, place, end, length in zip(trace["text"], y, ends, lengths, strict=True):
            is_negative = length < 0
            self.axes.annotate(
                str(text), (end, place), xytext=(-4 if is_negative else 4, 0), textcoords="offset points", fontsize=10,
                ha="right" if is_negative else "left", va="center", color=self.colour("$soft"), annotation_clip=False,
            )  # fmt: skip

    def scatter(self, trace: Part) -> None:
        x, y = self.positions("x", trace["x"]), self.positions("y", trace["y"])
        mode, line, marker = trace.get("mode", "lines"), trace.get("line", {}), trace.get("marker", {})
        colour = self.colour(line.get("color") or marker.get("color"))
        style: Part = {"color": colour, "alpha": trace.get("opacity", marker.get("opacity")), "zorder": 3}
        symbols = marker.get("symbol", "circle")
        symbols = symbols if isinstance(symbols, list) else [symbols]
        if "lines" in mode:
            style |= {"linewidth": 0.75 * line.get("width", 2), "linestyle": _DASHES[line.get("dash", "solid")]}
            style |= {"drawstyle": "steps-post"} if line.get("shape") == "hv" else {}
            style |= {"solid_capstyle": "butt"}
        else:
            style |= {"linestyle": "none"}
        if "markers" in mode:
            edge = marker.get("line", {})
            open_line = symbols[0] == "line-ns"
            size = marker.get("size", 7)
            style |= {"marker": _SYMBOLS.get(symbols[0], "o"), "markersize": 0.75 * (size[0] if isinstance(size, list) else size)}
            style |= {"markeredgecolor": colour if open_line else self.colour(edge.get("color", "$paper"))}
            style |= {"markeredgewidth": 2.2 if open_line else 0.75 * edge.get("width", 0.6)}
        self.axes.plot(x, y, label=trace.get("name"), **style)
        self._errors(trace, x, y)
        if "text" in mode:
            place = trace.get("textposition", "top center")
            places = place if isinstance(place, list) else [place] * len(x)
            for text, px, py, (rise, side) in zip(trace["text"], x, y, map(str.split, places), strict=True):
                above = rise == "top"
                self.axes.annotate(
                    str(text), (px, py), xytext=(0, 8 if above else -8), textcoords="offset points", fontsize=10,
                    ha={"left": "right", "right": "left"}.get(side, "center"), va="bottom" if above else "top",
                    color=self.colour(trace.get("textfont", {}).get("color", "$ink")),
                )  # fmt: skip

    def _errors(self, trace: Part, x: Sequence[float], y: Sequence[float]) -> None:
        for along in ("x", "y"):
            bars = trace.get(f"error_{along}")
            if bars:
                ends = [bars["arrayminus"], bars["array"]]
                error_lengths: Part = {f"{along}err": [[max(e or 0.0, 0.0) for e in lengths] for lengths in ends]}
                self.axes.errorbar(
                    x, y, fmt="none", ecolor=self.colour(bars.get("color", "$ink")), elinewidth=0.75 * bars.get("thickness", 1.4),
                    capsize=0.4 * bars.get("width", 4), zorder=4, **error_lengths,
                )  # fmt: skip

    def shape(self, shape: Part) -> None:
        line = shape.get("line", {})
        if shape.get("yref") != "paper":
            self._level(shape, line)
        elif shape["type"] == "rect":
            self.axes.axvspan(shape["x0"], shape["x1"], color=self.colour(shape.get("fillcolor", "$band")), linewidth=0, zorder=0)
        else:
            self.axes.axvline(
                shape["x0"], color=self.colour(line.get("color", "$ink")), linewidth=0.75 * line.get("width", 1.4),
                linestyle=_DASHES[line.get("dash", "solid")], zorder=3,
            )  # fmt: skip

    def _level(self, shape: Part, line: Part) -> None:
        """A range of y between two x, or a line over the whole width."""
        style: Part = {"color": self.colour(line["color"]), "linewidth": 0.75 * line["width"], "linestyle": _DASHES[line["dash"]]}
        if shape["type"] == "rect":
            x, low, high = [shape["x0"], shape["x1"]], shape["y0"], shape["y1"]
            self.axes.fill_between(x, low, high, zorder=1, alpha=0.2, **style)
        else:
            self.axes.axhline(shape["y0"], zorder=2, **style)

    def note(self, note: Part) -> None:
        log = self._layout("x").get("type") == "log" and note.get("xref") == "x"
        x = 10 ** note["x"] if log else note["x"]
        whole = {"yref": self.axes.get_xaxis_transform(), "xref": self.axes.get_yaxis_transform()}
        place = next((transform for ref, transform in whole.items() if note.get(ref) == "paper"), self.axes.transData)
        is_right = note.get("xanchor") == "right"
        self.axes.annotate(
            note["text"], (x, note["y"]), xycoords=place, xytext=(-4 if is_right else 4, 3), textcoords="offset points", fontsize=10,
            ha="right" if is_right else "left", va="bottom", color=self.colour(note.get("font", {}).get("color", "$ink")),
        )  # fmt: skip

    def finish(self, along: str) -> None:
        """Scale, ticks and title of one axis."""
        layout, axis = self._layout(along), getattr(self.axes, f"{along}axis")
        limits, places = getattr(self.axes, f"set_{along}lim"), self.places[along]
        getattr(self.axes, f"set_{along}label")(layout.get("title", {}).get("text", ""), color=self.colour("$soft"))
        if places is not None:
            names = list(places)
            most = min(8, _size(self.chart)[0] // (8 * max([1, *(len(_shorten(str(name))) for name in names)])))
            step = 1 if along == "y" else max(1, -(-len(names) // max(1, most)))
            indices = list(range(len(names)))[::-1][::step][::-1]
            axis.set_ticks(indices, [_shorten(str(names[i])) for i in indices])
            limits(-0.5, len(names) - 0.5)
            return
        if layout.get("type") == "log":
            getattr(self.axes, f"set_{along}scale")("log")
            axis.set_minor_locator(_no_ticks())
        if "range" in layout:
            low, high = layout["range"]
            limits(*((10**low, 10**high) if layout.get("type") == "log" else (low, high)))
        elif layout.get("rangemode") == "tozero":
            low, high = getattr(self.axes, f"get_{along}lim")()
            limits(min(0.0, low) if low < 0 else 0.0, high)
        if "tickvals" in layout:
            ticks, texts = layout["tickvals"], layout.get("ticktext") or [_format(v, layout) for v in layout["tickvals"]]
            low, high = getattr(self.axes, f"get_{along}lim")()
            visible_ticks = [(t, text) for t, text in zip(ticks, texts, strict=True) if low <= t <= high]
            limit = 9 if self.chart.wide or along == "y" else 6
            visible_ticks = visible_ticks[:: max(1, -(-len(visible_ticks) // limit))]
            axis.set_ticks([t for t, _ in visible_ticks], [text for _, text in visible_ticks])
        else:
            if layout.get("type") != "log":
                self.axes.locator_params(
                    axis=along,  # type: ignore[arg-type]
                    nbins=layout.get("nticks", 6),
                )
            axis.set_major_formatter(lambda value, _: _format(value, layout))


def _no_ticks() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()


def _shorten(name: str) -> str:
    return name if len(name) <= 28 else f"{name[:27]}…"


def _format(value: float, layout: Part) -> str:
    """A tick's label, in Plotly's formats that charts use."""
    form, suffix = layout.get("tickformat", ""), layout.get("ticksuffix", "")
    if form.endswith("%"):
        return f"{value:.0%}"
    if form.endswith("~s"):
        for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if abs(value) >= size:
                return f"{value / size:.4g}{letter}{suffix}"
    return f"{float(f'{value:.6g}'):,.10g}{suffix}".replace("-", "−")


def _figure(chart: Chart, colours: Mapping[str, str]) -> Figure:
    from matplotlib.figure import Figure

    width, height = _size(chart)
    figure = Figure(figsize=(width / 72, height / 72), dpi=72, layout="constrained")
    axes = figure.add_subplot()
    drawing = _Drawing(chart, axes, colours)
    for trace in chart.data:
        if trace.get("yaxis", "y") == "y":
            (drawing.bars if trace["type"] == "bar" else drawing.scatter)(trace)
    for shape in chart.layout.get("shapes", ()):
        drawing.shape(shape)
    for along in ("x", "y"):
        drawing.finish(along)
    for note in chart.layout.get("annotations", ()):
        drawing.note(note)
    _frame(axes, drawing)
    _legend(figure, axes, drawing)
    return figure


def _frame(axes: Axes, drawing: _Drawing) -> None:
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(drawing.colour("$line"))
    for along in ("x", "y"):
        if drawing.places[along] is None:
            axes.grid(axis=along, color=drawing.colour("$grid"), linewidth=0.8, clip_on=False)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelcolor=drawing.colour("$soft"), pad=5)


def _legend(figure: Figure, axes: Axes, drawing: _Drawing) -> None:
    """Above the plot: each name once, and none where one trace says it all."""
    hidden = {t["name"] for t in drawing.chart.data if "name" in t and t.get("showlegend") is False}
    hidden -= {t["name"] for t in drawing.chart.data if "name" in t and t.get("showlegend") is True}
    handles = {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True) if label not in hidden}
    is_shown = drawing.chart.layout.get("showlegend", len(handles) > 1)
    if is_shown and handles:
        columns = max(1, int(_size(drawing.chart)[0] // (34 + 6.2 * max(len(name) for name in handles))))
        legend = figure.legend(
            list(handles.values()), list(handles), loc="outside upper left", ncols=min(columns, len(handles)), frameon=False, fontsize=10,
            handlelength=1.6, columnspacing=1.2, borderaxespad=0.2,
        )  # fmt: skip
        for text in legend.get_texts():
            text.set_color(drawing.colour("$ink"))
