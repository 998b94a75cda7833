"""One finding in one channel: a message and its replies, each posted exactly once, also after a crash."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from plumbline.alerts.channel import OPENED, UPDATED, AlertChannel, ChannelError, Delivered, Post, failure
from plumbline.alerts.message import Message
from plumbline.archive import IncidentRecord
from plumbline.results.finding import Finding, gravity

POSTING, UNDELIVERED, MOVED = "posting", "undelivered", "moved"


@dataclass
class Thread:
    """`note` is the archive's record of the thread; each method saves what the channel was last known to show.

    Methods raise ChannelError.
    """

    channel: AlertChannel
    finding: Finding
    note: IncidentRecord
    save: Callable[[IncidentRecord], None]
    now: datetime

    @property
    def in_doubt(self) -> bool:
        """Whether a first message may have arrived without being recorded."""
        return not self.note.ts and self.note.state == POSTING

    def open(self, message: Message) -> None:
        """Post the first message."""
        sent = self._send_once(OPENED, message)
        self._save(ts=sent.message_id, state=self.finding.state, message_hash=sent.digest, severity=self._notified_severity(OPENED))

    def reply(self, what: str, message: Message) -> None:
        """Post a reply."""
        self._send_once(what, message)
        self._save(severity=self._notified_severity(what))

    def update(self, message: Message) -> None:
        """Bring the first message up to date in place. Idempotent."""
        self._send(self._post(UPDATED, message))
        self._save(state=self.finding.state, message_hash=message.digest)

    def undelivered(self) -> None:
        """Record that the first message is not up to date."""
        if not self.in_doubt:
            self._save(state=UNDELIVERED)

    def restart(self) -> None:
        """Forget a message that is gone."""
        self.note = replace(self.note, ts="", state=UNDELIVERED, message_hash="", posts={})

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
        return Post("finding", self.finding.finding_id, what, message, "" if what == OPENED else self.note.ts)

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
        return {"at": self.now.isoformat(), "ts": "", "severity": self.finding.severity}

    def _notified_severity(self, what: str) -> str:
        """The highest severity that was notified, after this post."""
        return min(self.note.severity, str(self.note.posts[what]["severity"]), key=gravity)

    def _record(self, what: str, post: Mapping[str, Any], **values: Any) -> None:
        known = {"ts": post["ts"]} if what == OPENED and post["ts"] else {}
        self._save(posts={**self.note.posts, what: dict(post)}, **{**values, **known})

    def _save(self, **values: Any) -> None:
        self.note = replace(self.note, **values)
        self.save(self.note)


def is_recurrence(now: Finding, before: Finding) -> bool:
    """Whether `now` is the drift that `before` reported: same provider, kind and subject, and a shared series in the same direction (for
    machines: a shared fact)."""
    if (now.provider, now.kind, now.subject) != (before.provider, before.kind, before.subject) or now.finding_id == before.finding_id:
        return False
    if now.kind == "environment":
        return bool({m.name for m in now.members} & {m.name for m in before.members})
    shared = set(now.series) & set(before.series)
    if not now.series or not before.series:  # the provider as a whole
        return True
    return any(now.direction_of(key) == before.direction_of(key) for key in shared)
