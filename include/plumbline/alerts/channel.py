"""The interface of an alert channel, its messages and errors; other packages add kinds of channels."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pkgutil import resolve_name
from typing import Literal

from plumbline.alerts.message import Message
from plumbline.alerts.slack.connection import Slack, is_channel_id
from plumbline.declarations.alert_channels import DeclaredChannel

_SLACK = "plumbline.alerts.slack_channel:SlackChannel"
OPENED, UPDATED = "opened", "updated"
DETAILS, DETAILS_UPDATED = "details", "details updated"
"""The first reply in a Slack thread; other channels get no such post: `Message.text` has all of it."""


@dataclass(frozen=True)
class Post:
    """One delivery of a finished message.

    `thread_key`: the finding's id, or the digest's month. `name`: `opened` for the first message of a thread, `updated` for a change of that
    message, else the reply's name: `escalated`, `reopened`, `cause` or `reminder N`. `message_id`: what `send` returned for the first message.
    `state`, `provider`: the finding's; empty of a digest.
    """

    kind: Literal["finding", "digest"]
    thread_key: str
    name: str
    message: Message
    message_id: str = ""
    state: str = ""
    provider: str = ""


@dataclass(frozen=True)
class Delivered:
    """A message in a channel: its id there and the digest of its content."""

    message_id: str
    digest: str


class ChannelError(Exception):
    """A channel did not take a message.

    `scope`: what else would fail the same way: only this `message`, the `channel`, or the whole `service`. `refused`: whether it is certain
    that nothing was delivered. `gone`: the thread's first message no longer exists. `closed`: the channel accepts nothing more.
    """

    def __init__(
        self,
        code: str,
        *,
        scope: Literal["message", "channel", "service"] = "channel",
        refused: bool = False,
        gone: bool = False,
        closed: bool = False,
    ) -> None:
        super().__init__(code)
        self.code, self.scope, self.refused, self.gone, self.closed = code, scope, refused, gone, closed


class AlertChannel(ABC):
    """One place that messages go to, made with its declaration."""

    @abstractmethod
    def send(self, post: Post) -> str | None:
        """Deliver the post; the id of a new message, if the channel has ids. Any exception counts as not delivered: the next run retries."""

    def find(self, post: Post, since: datetime) -> Delivered | None:
        """A delivery of the post since then whose result was never recorded; None also if the channel cannot search."""
        return None


class Channels:
    """The channels by the name that routes give them: a Slack channel's id, or the name of a declared channel."""

    def __init__(self, slack: Slack | None, declared: Mapping[str, DeclaredChannel], log: logging.Logger) -> None:
        self.default = slack.channel if slack else ""
        self._slack, self._declared, self._log = slack, declared, log
        self._opened: dict[str, AlertChannel] = {}

    def get(self, name: str) -> AlertChannel | None:
        """The channel; None if it is a Slack channel and no Slack is connected, or if it is not declared any more.

        ChannelError if a channel of another package cannot be made.
        """
        if name not in self._opened:
            if is_channel_id(name):
                if self._slack is None:
                    return None
                self._opened[name] = resolve_name(_SLACK)(self._slack.client, name, self._log)
            elif name in self._declared:
                declared = self._declared[name]
                try:
                    self._opened[name] = resolve_name(declared.implementation)(declared)
                except Exception as error:
                    raise failure(error) from error
            else:
                return None
        return self._opened[name]


def failure(error: Exception) -> ChannelError:
    """Any exception of a channel as a ChannelError; it may have delivered the message all the same."""
    return error if isinstance(error, ChannelError) else ChannelError(f"{type(error).__name__}: {error}".splitlines()[0])
