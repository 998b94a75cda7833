"""A finding's chart in its thread, once: also after a crash between the upload and the note of it.

The incident of a finding keeps it under `chart`: when the upload was begun, and the file's id once it is known to have arrived. One
that was begun and not noted is looked for in the thread by the name of its file. A Slack that refuses, or is away, loses nothing:
the next run tries again. Nothing here raises because of Slack.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Protocol

from slack_sdk.errors import SlackApiError

from plumbline.alerts.paging import messages
from plumbline.alerts.refusal import FAILURES, GONE, error_code, everywhere, reason
from plumbline.archive import IncidentRecord, IncidentView

if TYPE_CHECKING:
    from slack_sdk import WebClient

    from plumbline.alerts.chart import Picture

CHART = "chart"


class Notes(Protocol):
    """What the archive offers: notes of what was said where."""

    def save_incident(self, incident: IncidentRecord) -> None: ...


def attach(
    threads: Iterable[IncidentView],
    draw: Callable[[str], Picture | None],
    notes: Notes,
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
            if CHART in thread.said:
                known = _lost_file(client, thread, picture.name, log)
                if known:
                    _note(notes, thread, known)
                    continue
            _note(notes, thread, "")
            answer = client.files_upload_v2(
                channel=thread.channel,
                thread_ts=thread.ts,
                content=picture.data,
                filename=picture.name,
                title=picture.title,
                alt_txt=picture.alt_text,
            )
            _note(notes, thread, str(answer["files"][0]["id"]))
            done.append(thread.finding_id)
        except FAILURES as error:
            hint = "; give the bot the scope files:write" if error_code(error) == "missing_scope" else ""
            log.warning("the chart of finding %s is tried again by the next run: %s%s", thread.finding_id, reason(error), hint)
            if everywhere(error):
                break
            if error_code(error) not in GONE:
                refusing.add(thread.channel)
    return done


def _file_of(thread: IncidentView) -> str:
    return str(thread.said.get(CHART, {}).get("file", ""))


def _note(notes: Notes, thread: IncidentView, file_id: str) -> None:
    begun = thread.said.get(CHART, {}).get("at") or datetime.now(timezone.utc).isoformat()
    said = {**thread.said, CHART: {"at": begun, "ts": thread.ts if file_id else "", "file": file_id}}
    known = {name: getattr(thread, name) for name in IncidentRecord.__dataclass_fields__}
    notes.save_incident(replace(IncidentRecord(**known), said=said))


def _lost_file(client: WebClient, thread: IncidentView, name: str, log: logging.Logger) -> str:
    """The id of a file of this name in the thread; empty if there is none, or if the bot may not look."""
    try:
        said = messages(client.conversations_replies, channel=thread.channel, ts=thread.ts)
        return next((str(f["id"]) for m in said for f in m.get("files", ()) if f.get("name") == name), "")
    except SlackApiError as error:
        if error_code(error) != "missing_scope":
            raise
        log.warning("the bot lacks channels:history: the chart of finding %s may be posted a second time after a crash", thread.finding_id)
        return ""
