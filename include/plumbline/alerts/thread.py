"""One finding in one channel: a message and its replies, each posted exactly once, also after a crash."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from plumbline.alerts.channel import OPENED, UPDATED, AlertChannel, ChannelError, Delivered, Post, failure
from plumbline.alerts.message import Message
from plumbline.archive import IncidentRecord, IncidentView
from plumbline.findings.types import about_facts
from plumbline.results.finding import Finding, gravity

POSTING, UNDELIVERED, MOVED = "posting", "undelivered", "moved"
_log = logging.getLogger(__name__)


@dataclass
class Thread:
    """`note` is the archive's record of the thread; each method saves what the channel was last known to show. `finding`: None of a digest, and of
    a thread that only gets what its messages leave out.

    Methods raise ChannelError.
    """

    channel: AlertChannel
    finding: Finding | None
    note: IncidentRecord
    save: Callable[[IncidentRecord], None]
    now: datetime
    kind: Literal["finding", "digest"] = "finding"

    @property
    def in_doubt(self) -> bool:
        """Whether a first message may have arrived without being recorded."""
        return not self.note.ts and self.note.state == POSTING

    def show(self, message: Callable[[], Message], then: Callable[[], None] = lambda: None) -> Iterator[str]:
        """Post the first message, or bring it up to date, then do `then`: each step that is done, `posted` or `updated`. A message that is gone is
        posted again; `message` makes the present one."""
        try:
            if not self.note.ts:
                self.open(message())
                yield "posted"
            if self.note.message_hash != message().digest or self.note.state == UNDELIVERED:
                self.update(message())
                yield "updated"
            then()
        except ChannelError as error:
            if not error.gone or not self.note.ts:
                raise
            _log.warning("the message of %s %s is gone (%s): posting it again", self.kind, self.note.finding_id, error.code)
            self.note = replace(self.note, ts="", state=UNDELIVERED, message_hash="", posts={})
            self.open(message())
            yield "posted"

    def open(self, message: Message) -> None:
        sent = self._send_once(OPENED, message)
        self._save(ts=sent.message_id, state=self._state, message_hash=sent.digest, severity=self._notified_severity(OPENED))

    def reply(self, what: str, message: Message) -> None:
        self._send_once(what, message)
        self._save(severity=self._notified_severity(what))

    def update(self, message: Message) -> None:
        """Bring the first message up to date in place. Idempotent."""
        self._send(self._post(UPDATED, message))
        self._save(state=self._state, message_hash=message.digest)

    def keep(self, what: str, message: Message, updated: str = "") -> str:
        """Post a reply once, and bring it up to date under the name `updated`, if given; its id."""
        known = self.note.posts.get(what, {})
        sent = Delivered(known["ts"], known.get("shown", "")) if known.get("ts") else self._send_once(what, message)
        if updated and sent.digest != message.digest:
            self._send(replace(self._post(updated, message), message_id=sent.message_id))
        return sent.message_id

    def describe(self, what: str, **values: str) -> None:
        """Note more about a post."""
        self._record(what, {**self.note.posts[what], **values})

    def undelivered(self) -> None:
        """Record that the first message is not up to date."""
        if not self.in_doubt:
            self._save(state=UNDELIVERED)

    def _send_once(self, what: str, message: Message) -> Delivered:
        """The delivery of a lost post that was found, else of a new one."""
        post = self._post(what, message)
        begun = self.note.posts.get(what)
        if (begun is not None and not begun["ts"]) or (what == OPENED and self.in_doubt):
            lost = self._find(post, datetime.fromisoformat(begun["at"]) if begun else self.now - timedelta(days=30))
            if lost is not None:
                self._record(what, {**(begun or self._beginning()), "ts": lost.message_id})
                return lost
        self._record(what, self._beginning(), **({"ts": "", "state": POSTING} if what == OPENED else {}))
        try:
            message_id = self._send(post)
        except ChannelError as error:
            if error.refused:
                posts = {name: post for name, post in self.note.posts.items() if name != what}
                self._save(posts=posts, **({"state": UNDELIVERED} if what == OPENED else {}))
            raise
        self._record(what, {**self.note.posts[what], "ts": message_id})
        return Delivered(message_id, message.digest)

    def _post(self, what: str, message: Message) -> Post:
        state, provider = (self.finding.state, self.finding.provider) if self.finding else ("", "")
        return Post(self.kind, self.note.finding_id, what, message, "" if what == OPENED else self.note.ts, state, provider)

    def _send(self, post: Post) -> str:
        try:
            return str(self.channel.send(post) or f"{post.thread_key} {post.name}")
        except Exception as error:
            raise failure(error) from error

    def _find(self, post: Post, since: datetime) -> Delivered | None:
        try:
            return self.channel.find(post, since)
        except Exception as error:
            raise failure(error) from error

    def _beginning(self) -> dict[str, Any]:
        return {"at": self.now.isoformat(), "ts": "", "severity": self.finding.severity if self.finding else ""}

    @property
    def _state(self) -> str:
        return self.finding.state if self.finding else self.note.state

    def _notified_severity(self, what: str) -> str:
        """The highest severity that was notified, after this post."""
        return min(self.note.severity, str(self.note.posts[what]["severity"]), key=gravity)

    def _record(self, what: str, post: Mapping[str, Any], **values: Any) -> None:
        known = {"ts": post["ts"]} if what == OPENED and post["ts"] else {}
        self._save(posts={**self.note.posts, what: dict(post)}, **{**values, **known})

    def _save(self, **values: Any) -> None:
        self.note = replace(self.note, **values)
        self.save(self.note)


def record_of(view: IncidentView) -> IncidentRecord:
    return IncidentRecord(**{name: getattr(view, name) for name in IncidentRecord.__dataclass_fields__})


def complete_threads(threads: Iterable[IncidentView], what: str, send: Callable[[IncidentView], bool], log: logging.Logger) -> list[str]:
    """Let `send` post into each thread whose message has arrived; the ids of the findings for which it did.

    A channel that refuses raises nothing: the next run retries.
    """
    done, refusing = [], set[str]()
    for thread in threads:
        if not thread.ts or thread.channel in refusing:
            continue
        try:
            if send(thread):
                done.append(thread.finding_id)
        except ChannelError as error:
            log.warning("the %s of finding %s is retried by the next run: %s", what, thread.finding_id, error.code)
            if error.scope == "service":
                break
            if error.scope == "channel" and not error.gone:
                refusing.add(thread.channel)
    return done


def is_recurrence(now: Finding, before: Finding) -> bool:
    """Whether `now` is the drift that `before` reported: same provider, kind and subject, and a shared series in the same direction (for
    machines: a shared fact)."""
    if now.identity != before.identity or now.finding_id == before.finding_id:
        return False
    if about_facts(now):
        return bool({m.name for m in now.members} & {m.name for m in before.members})
    shared = set(now.series) & set(before.series)
    if not now.series or not before.series:  # the provider as a whole
        return True
    return any(now.direction_of(key) == before.direction_of(key) for key in shared)
