"""The chart in a finding's thread: the one of its page as a PNG, uploaded once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from statistics import median
from typing import TYPE_CHECKING, Any

from plumbline.alerts.channel import AlertChannel, Delivered, Post
from plumbline.alerts.message import Message
from plumbline.alerts.slack.connection import SLACK_ERRORS, error_code, iterate_messages
from plumbline.alerts.slack_channel import channel_error
from plumbline.alerts.thread import Thread, complete_threads, record_of
from plumbline.archive import Archive, IncidentView
from plumbline.metrics.formatting import format_significant
from plumbline.presentation.charts.static import light_colours, png

if TYPE_CHECKING:
    from slack_sdk import WebClient

    from plumbline.presentation.metric_history import History


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
    # Not above: it brings numpy and scipy, which a list of findings does without.
    from plumbline.presentation.metric_history import finding_chart

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


CHART = "chart"
"""The post of an incident that keeps the chart: when its upload began and, once it has arrived, the file's id. A lost one is found in the thread
by the name of its file."""


@dataclass(frozen=True)
class _Upload(AlertChannel):
    client: WebClient
    channel: str
    picture: Picture
    log: logging.Logger

    def send(self, post: Post) -> str:
        try:
            answer = self.client.files_upload_v2(
                channel=self.channel,
                thread_ts=post.message_id,
                content=self.picture.data,
                filename=self.picture.name,
                title=self.picture.title,
                alt_txt=self.picture.alt_text,
            )
        except SLACK_ERRORS as error:
            if error_code(error) == "missing_scope":
                self.log.warning("charts need the bot's scope files:write")
            raise channel_error(error) from error
        return str(answer["files"][0]["id"])

    def find(self, post: Post, since: datetime) -> Delivered | None:
        try:
            replies = iterate_messages(self.client.conversations_replies, channel=self.channel, ts=post.message_id)
            files = (f for m in replies for f in m.get("files", ()) if f.get("name") == self.picture.name)
            return next((Delivered(str(f["id"]), post.message.digest) for f in files), None)
        except SLACK_ERRORS as error:
            if error_code(error) != "missing_scope":
                raise channel_error(error) from error
        self.log.warning(
            "the bot lacks channels:history: the chart of finding %s may be posted a second time after a crash", post.thread_key
        )
        return None


def attach(
    threads: Iterable[IncidentView],
    draw: Callable[[str], Picture | None],
    notes: Archive,
    client: WebClient,
    log: logging.Logger | None = None,
) -> list[str]:
    """Put a chart into each of these threads that has none; the ids of the findings that got one.

    `draw` makes the picture of a finding id, None if there is nothing to draw. A thread whose message is not known to have arrived waits.
    """
    log = log or logging.getLogger(__name__)

    def send(view: IncidentView) -> bool:
        picture = None if chart_of(view.posts) else draw(view.finding_id)
        if picture is None:
            return False
        upload = _Upload(client, view.channel, picture, log)
        thread = Thread(upload, None, record_of(view), notes.save_incident, datetime.now(timezone.utc))
        file_id = thread.keep(CHART, Message(picture.alt_text, (), picture.title))
        thread.describe(CHART, file=file_id, alt=picture.alt_text)
        return True

    return complete_threads(threads, "chart", send, log)


def chart_of(posts: Mapping[str, Any]) -> tuple[str, str] | None:
    """The file's id and text alternative, by what an incident records; None without a chart in its thread."""
    chart = posts.get(CHART, {})
    return (str(chart["file"]), str(chart.get("alt") or "Chart")) if chart.get("file") else None
