"""The chart in a finding's thread: drawn with matplotlib, uploaded once."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from statistics import median
from typing import TYPE_CHECKING, Any, Protocol

from slack_sdk.errors import SlackApiError

from plumbline.alerts.slack.connection import MESSAGE_GONE, SLACK_ERRORS, affects_workspace, describe_error, error_code, iterate_messages
from plumbline.archive import IncidentRecord, IncidentView
from plumbline.metrics.formatting import format_significant
from plumbline.presentation.metric_history import History

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from slack_sdk import WebClient


WIDE_PX, HIGH_PX = 1200, 675
ALT_LIMIT = 1000
"""Characters that Slack takes in a picture's alternative text."""
_DPI = 100
_PAPER, _INK, _QUIET, _GRID, _LINE, _BASELINE, _CHANGE = "#f7f8fa", "#1d1f24", "#5b5f66", "#dde0e5", "#0072b2", "#00795c", "#c4480e"
_SHORT = 7
"""Characters of a label of which five stand side by side; of longer ones, four."""


@dataclass(frozen=True)
class Picture:
    """A PNG to post. `alt_text` says what it shows to whoever does not see it."""

    name: str
    title: str
    alt_text: str
    data: bytes


def picture(history: History, name: str) -> Picture:
    """The history drawn; `name` becomes the name of the file. The same history gives the same bytes."""
    return Picture(name, history.title, alt_text(history), draw(history))


def alt_text(history: History) -> str:
    """The picture in words: what, from when to when, before and after."""
    points = history.points
    before, after = (median(p.middle for p in side) for side in (points[: history.since], points[history.since :]))
    simulated = "Simulated. " if history.simulated else ""
    alternative = f"{simulated}Chart of {history.title}, {points[0].label} to {points[-1].label}, {len(points)} points: "
    alternative += f"{format_significant(before)} {history.unit} before, {format_significant(after)} {history.unit} since {history.begin} ({history.change})."
    if history.level is not None:
        alternative += f" {history.level_name.capitalize()}: {format_significant(history.level)} {history.unit}."
    return alternative[:ALT_LIMIT]


def draw(history: History) -> bytes:
    """The history as a PNG of 1200 × 675 pixels."""
    # Here and not above: it takes a good part of a second, and only who posts a chart needs it.
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context({"font.family": "DejaVu Sans", "font.size": 21, "text.color": _INK, "axes.labelcolor": _QUIET}):
        figure = Figure(figsize=(WIDE_PX / _DPI, HIGH_PX / _DPI), dpi=_DPI, facecolor=_PAPER)
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0.105, 0.115, 0.865, 0.645))
        _frame(axes, history)
        _values(axes, history)
        _marks(axes, history)
        change = f"{'SIMULATED · ' if history.simulated else ''}{history.change} since {history.begin}"
        for text, at, colour in ((history.title, 0.945, _INK), (change, 0.862, _CHANGE)):
            heading = figure.text(0.03, at, text, fontsize=25, color=colour, fontweight="bold", va="center")
            heading.set_fontsize(25 * min(1.0, 0.94 * WIDE_PX / heading.get_window_extent().width))
        target = io.BytesIO()
        # Without the program's name and version the same history stays the same file.
        figure.savefig(target, format="png", facecolor=_PAPER, metadata={"Software": None})
    return target.getvalue()


def _frame(axes: Axes, history: History) -> None:
    axes.set_facecolor(_PAPER)
    axes.grid(axis="y", color=_GRID, linewidth=1.5)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_GRID)
    axes.tick_params(length=0, labelcolor=_QUIET, pad=8)
    axes.set_title(history.unit, loc="left", fontsize=20, color=_QUIET, pad=8)
    long = len(history.points[-1].label) > _SHORT
    at = _labelled(len(history.points), 4 if long else 5)
    axes.set_xticks(at, [history.points[i].label for i in at])
    if long and len(history.points) > len(at):
        # The newest stands at the edge: centred, it would be cut.
        axes.get_xticklabels()[-1].set_horizontalalignment("right")
    axes.set_xlim(-0.6, len(history.points) - 0.4)
    low, high = _range(history)
    axes.set_ylim(low, high)
    axes.locator_params(axis="y", nbins=5)


def _values(axes: Axes, history: History) -> None:
    middles = [p.middle for p in history.points]
    style: dict[str, Any] = {"drawstyle": "steps-post"} if history.steps else {}
    axes.plot(range(len(middles)), middles, color=_LINE, linewidth=4, zorder=3, **style)
    for i, point in enumerate(history.points):
        if len(point.values) > 1:
            axes.scatter([i] * len(point.values), point.values, s=60, color=_LINE, alpha=0.35, linewidths=0, zorder=2)
    since = history.since
    if history.steps:
        axes.scatter([since], [middles[since]], s=190, marker="D", color=_CHANGE, edgecolors=_PAPER, linewidths=2, zorder=4)
        return
    groups = (
        ([i for i, p in enumerate(history.points) if p.baseline], "s", _BASELINE),
        ([i for i in range(since, len(middles)) if not history.points[i].baseline], "D", _CHANGE),
        ([i for i in range(since) if not history.points[i].baseline], "o", _LINE),
    )
    size = 190 if len(middles) <= 40 else 60
    for places, marker, colour in groups:
        axes.scatter(places, [middles[i] for i in places], s=size, marker=marker, color=colour, edgecolors=_PAPER, linewidths=2, zorder=4)


def _marks(axes: Axes, history: History) -> None:
    since, last = history.since, len(history.points) - 1
    axes.axvspan(since - 0.5, last + 0.6, color=_CHANGE, alpha=0.07, linewidth=0, zorder=0)
    axes.axvline(since - 0.5, color=_CHANGE, linewidth=2.5, linestyle=(0, (2, 2)), zorder=1)
    if history.band is not None:
        axes.fill_between([since - 0.5, last + 0.6], *history.band, color=_CHANGE, alpha=0.20, linewidth=0, zorder=1)
    if history.level is not None:
        axes.axhline(history.level, color=_BASELINE, linewidth=3, linestyle=(0, (6, 3)), zorder=2)
        # Above the picture, where nothing is drawn: beside its line it would lie over some value or other.
        level = f"– –  {history.level_name} {format_significant(history.level)}"
        axes.set_title(level, loc="right", fontsize=20, color=_BASELINE, pad=8, fontweight="bold")


def _range(history: History) -> tuple[float, float]:
    """Lowest and highest shown: all that is drawn, with room for a label; never so narrow that noise looks like a cliff."""
    values = [v for p in history.points for v in p.values]
    values += [history.level] if history.level is not None else []
    values += history.band or ()
    low, high = min(values), max(values)
    room = max(0.18 * (high - low), 0.01 * max(abs(low), abs(high))) or 1.0
    bottom = low - room
    return (max(0.0, bottom) if low >= 0 else bottom), high + room


def _labelled(count: int, most: int) -> list[int]:
    """Which places get a label: the newest always, the others evenly back from it."""
    step = max(1, -(-count // most))
    return sorted(range(count - 1, -1, -step))


# A finding's chart in its thread, once: also after a crash between the upload and the note of it.
#
# The incident of a finding keeps it under `chart`: when the upload was begun, and the file's id once it is known to have arrived. One
# that was begun and not noted is looked for in the thread by the name of its file. A Slack that refuses, or is away, loses nothing:
# the next run tries again. Nothing here raises because of Slack.


CHART = "chart"


class IncidentWriter(Protocol):
    """What the archive offers: notes of what was said where."""

    def save_incident(self, incident: IncidentRecord) -> None: ...


def attach(
    threads: Iterable[IncidentView],
    draw: Callable[[str], Picture | None],
    notes: IncidentWriter,
    client: WebClient,
    log: logging.Logger | None = None,
) -> list[str]:
    """Put a chart into each of these threads that has none; the ids of the findings that got one.

    `draw` makes the picture of a finding id, None if there is nothing to draw. A thread whose message is not known to have arrived waits.
    """
    log = log or logging.getLogger(__name__)
    done, refusing = [], set[str]()
    for thread in threads:
        if not thread.ts or _file_of(thread) or thread.channel in refusing:
            continue
        picture = draw(thread.finding_id)
        if picture is None:
            continue
        try:
            if CHART in thread.posts:
                known = _find_lost_file(client, thread, picture.name, log)
                if known:
                    _note(notes, thread, known, picture.alt_text)
                    continue
            _note(notes, thread, "", picture.alt_text)
            answer = client.files_upload_v2(
                channel=thread.channel,
                thread_ts=thread.ts,
                content=picture.data,
                filename=picture.name,
                title=picture.title,
                alt_txt=picture.alt_text,
            )
            _note(notes, thread, str(answer["files"][0]["id"]), picture.alt_text)
            done.append(thread.finding_id)
        except SLACK_ERRORS as error:
            hint = "; give the bot the scope files:write" if error_code(error) == "missing_scope" else ""
            log.warning("the chart of finding %s is tried again by the next run: %s%s", thread.finding_id, describe_error(error), hint)
            if affects_workspace(error):
                break
            if error_code(error) not in MESSAGE_GONE:
                refusing.add(thread.channel)
    return done


def _file_of(thread: IncidentView) -> str:
    return str(thread.posts.get(CHART, {}).get("file", ""))


def chart_of(posts: Mapping[str, Any]) -> tuple[str, str] | None:
    """The file's id and text alternative, by what an incident records; None without a chart in its thread."""
    chart = posts.get(CHART, {})
    return (str(chart["file"]), str(chart.get("alt") or "Chart")) if chart.get("file") else None


def _note(notes: IncidentWriter, thread: IncidentView, file_id: str, alternative: str) -> None:
    begun = thread.posts.get(CHART, {}).get("at") or datetime.now(timezone.utc).isoformat()
    posts = {**thread.posts, CHART: {"at": begun, "ts": thread.ts if file_id else "", "file": file_id, "alt": alternative}}
    known = {name: getattr(thread, name) for name in IncidentRecord.__dataclass_fields__}
    notes.save_incident(replace(IncidentRecord(**known), posts=posts))


def _find_lost_file(client: WebClient, thread: IncidentView, name: str, log: logging.Logger) -> str:
    """The id of a file of this name in the thread; empty if there is none, or if the bot may not look."""
    try:
        replies = iterate_messages(client.conversations_replies, channel=thread.channel, ts=thread.ts)
        return next((str(f["id"]) for m in replies for f in m.get("files", ()) if f.get("name") == name), "")
    except SlackApiError as error:
        if error_code(error) != "missing_scope":
            raise
        log.warning("the bot lacks channels:history: the chart of finding %s may be posted a second time after a crash", thread.finding_id)
        return ""
