"""A notifier of Airflow or of one of its providers as an alert channel: `BaseNotifier`, made with arguments whose texts name parts of the message.

The notifier's own templates are not rendered: a message has words of providers and programs, which must not be read as Jinja. A service that knows an
alert by its key (as pagers do) takes the same message twice as one, so that a delivery whose result was lost is repeated without harm; another
one gets the same `{post}` again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from html import escape
from pkgutil import resolve_name
from typing import Any

from plumbline.alerts.channel import UPDATED, AlertChannel, ChannelError, Post
from plumbline.alerts.message import Message
from plumbline.alerts.slack.mrkdwn import truncate
from plumbline.declarations.alert_channels import PLACEHOLDER, NotifierChannel

_LEVELS = {"info": "info", "warn": "warning", "page": "critical"}
_PRIORITIES = {"info": "P5", "warn": "P3", "page": "P1"}
_ENDED = ("accepted", "resolved")
_SHORT = 120
"""Opsgenie takes 130 characters of a message."""
_LONGEST = 4000
"""Characters of one argument after its values are in it."""


def _close_opsgenie(notifier: Any, key: str) -> None:
    notifier.hook.close_alert(identifier=key, identifier_type="alias")


_CLOSES: dict[str, Callable[[Any, str], None]] = {"airflow.providers.opsgenie.notifications.opsgenie.OpsgenieNotifier": _close_opsgenie}
"""Notifiers that open alerts only, and how their hook closes one."""


class NotifierSender(AlertChannel):
    def __init__(self, declared: NotifierChannel) -> None:
        self._declared = declared
        self._notifier = _notifier_class(declared.class_path)

    def send(self, post: Post) -> str:
        key = post.message_id or f"plumbline-{post.thread_key}"
        ended = post.state in _ENDED
        if post.name == UPDATED and not ended and not self._declared.updates:
            return key
        notifier = self.notifier(post)
        if ended and (close := _CLOSES.get(self._declared.class_path)) and self._declared.updates:
            close(notifier, key)
        else:
            notifier.notify({})
        return key

    def notifier(self, post: Post) -> Any:
        """The notifier of a post; nothing is sent. ValueError for arguments that it does not take."""
        arguments = _filled(self._declared.arguments, _values(post))
        try:
            inspect.signature(self._notifier).bind(**arguments)
            return self._notifier(**arguments)
        except TypeError as error:
            raise ChannelError(f"{self._declared.class_path} does not take its arguments: {error}", refused=True) from error


def example_post() -> Post:
    """A post to make a notifier with, without sending it."""
    return Post("finding", "example", UPDATED, Message("an example", (), "an example"), state="open")


def _notifier_class(path: str) -> Any:
    from airflow.sdk import BaseNotifier

    try:
        found = resolve_name(path)
    except (ImportError, AttributeError) as error:
        raise ChannelError(
            f"class {path} cannot be imported: {error}; expected its provider's package in this Airflow", refused=True
        ) from error
    if not (isinstance(found, type) and issubclass(found, BaseNotifier)):
        raise ChannelError(f"{path} is no notifier; expected a class on airflow.sdk.BaseNotifier", refused=True)
    made: Any = found  # airflow's types are not followed
    if made.notify is BaseNotifier.notify:
        raise ChannelError(f"{path} has no notify, only async_notify; expected one that a task can call", refused=True)
    return made


def _values(post: Post) -> dict[str, str]:
    key, message = post.message_id or f"plumbline-{post.thread_key}", post.message
    ended = post.state in _ENDED
    # A change is another message; a first try and its repetition are one.
    changed = f"-{message.digest[:12]}" if post.name == UPDATED else ""
    return {
        "title": message.title,
        "short": truncate(message.title, _SHORT),
        "text": message.text,
        "severity": message.severity,
        "level": _LEVELS[message.severity],
        "priority": _PRIORITIES[message.severity],
        "state": post.state,
        "action": "resolve" if ended else "acknowledge" if post.state == "acknowledged" else "trigger",
        "event": post.name,
        "finding": post.thread_key,
        "provider": post.provider,
        "link": message.links[0][0] if message.links else "",
        "key": key,
        "post": f"{post.thread_key}-{post.name.replace(' ', '-')}{changed}",
    }


def _filled(value: Any, values: dict[str, str], html: bool = False) -> Any:
    """The arguments with the values in their texts, once: what a value itself has in braces stays. `html`: escaped."""
    if isinstance(value, str):
        return PLACEHOLDER.sub(lambda named: escape(values[named[1]]) if html else values[named[1]], value)[:_LONGEST]
    if isinstance(value, dict):
        return {name: _filled(item, values, html or str(name).startswith("html")) for name, item in value.items()}
    return [_filled(item, values, html) for item in value] if isinstance(value, list | tuple) else value
