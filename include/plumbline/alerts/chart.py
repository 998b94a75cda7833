"""The chart in a finding's thread: the one of its page as a PNG, uploaded once."""

from __future__ import annotations

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
from plumbline.presentation.charts.static import light_colours, png
from plumbline.presentation.metric_history import History, finding_chart

if TYPE_CHECKING:
    from slack_sdk import WebClient


ALT_LIMIT = 1000
"""Characters that Slack takes in a picture's alternative text."""
_HIGH, _PIXELS = 300, 2.5
"""Points of the chart, and pixels of a point."""


@dataclass(frozen=True)
class Picture:
    """A PNG to post. `alt_text` says what it shows to whoever does not see it."""

    name: str
    title: str
    alt_text: str
    data: bytes


def picture(history: History, name: str) -> Picture:
    """The history drawn; `name` becomes the name of the file. The same history gives the same bytes."""
    # Slack shows it small: in a column's width its letters stay large.
    chart = replace(finding_chart(history), wide=False, height=_HIGH)
    title = f"{'SIMULATED · ' if history.simulated else ''}{history.title}: {history.change} since {history.begin}"
    return Picture(name, title, alt_text(history), png(chart, light_colours(), _PIXELS))


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
