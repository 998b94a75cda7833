"""Where alerts go besides the connection's own Slack channel: the kinds under `channels` of `alerts.yaml`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from plumbline.declarations.base import Declared, extensible
from plumbline.declarations.secret_texts import is_secret_name
from plumbline.declarations.urls import DeclaredUrl, sends_in_clear

SlackChannel = Annotated[
    str, StringConstraints(pattern=r"^[CG][A-Z0-9]{6,}$"), Field(description="a channel's id such as C0123456789, not its name")
]
ConnectionId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,100}$"), Field(description="the id of an Airflow connection")]
NOTIFIER_CLASS = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)+\.[A-Z][A-Za-z0-9]*Notifier\Z")
"""The only shape of a class that a declaration may have imported."""
PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
PLACEHOLDERS = {
    "title": "the message's first line",
    "short": "its first 120 characters",
    "text": "the whole message as plain text",
    "severity": "info, warn or page",
    "level": "the same in PagerDuty's words: info, warning or critical",
    "priority": "the same in Opsgenie's words: P5, P3 or P1",
    "state": "the finding's: open, acknowledged, accepted or resolved; empty of the digest",
    "action": "trigger, acknowledge or resolve",
    "event": "what is sent: opened, updated, escalated, reopened, cause or reminder 1",
    "finding": "the finding's id, or the digest's month",
    "provider": "the finding's provider; empty of the digest",
    "link": "the address of the finding's page; empty without airflow_url",
    "key": "the same for everything about one finding: what a service knows its alert by",
    "post": "the same for each try of one message: what a repeated one is known by",
}
"""What the text of an argument may name in braces."""
_SECRETS = ("integration_key", "routing_key", "api_key", "webhook_url", "webhook_endpoint")
"""Arguments of Airflow's notifiers that are secrets, and not named so."""
_DEEPEST = 8


class AlertChannelBase(Declared):
    """Base of all channels. A package adds one: a subclass, registered under its kind in the group `plumbline.alert_channels`."""

    implementation: ClassVar[str] = ""
    """`module:class` of the `AlertChannel`, made with the declaration; empty of Slack's, which has the connection's client."""


class NamedSlackChannel(AlertChannelBase):
    """A channel of the Slack connection under a name."""

    kind: Literal["slack"]
    channel: SlackChannel


class NotifierChannel(AlertChannelBase):
    """A notifier of Airflow or of one of its providers: e-mail, a pager, a chat."""

    implementation = "plumbline.alerts.notifier_channel:NotifierSender"
    kind: Literal["notifier"]
    class_path: str = Field(
        alias="class", max_length=300, description="its class, such as airflow.providers.smtp.notifications.smtp.SmtpNotifier"
    )
    arguments: dict[str, Any] = Field(description="its arguments; their texts may name values in braces, such as {title}")
    updates: bool = Field(
        False,
        description="whether the service knows an alert by its {key}: then it gets each change; else only what notifies people, and the end",
    )

    @field_validator("class_path")
    @classmethod
    def _names_a_notifier(cls, value: str) -> str:
        if not NOTIFIER_CLASS.match(value):
            raise ValueError(
                f'"{value}" is no notifier; expected the dotted name of a class that ends with Notifier, such as '
                "airflow.providers.smtp.notifications.smtp.SmtpNotifier"
            )
        return value

    @model_validator(mode="after")
    def _check_arguments(self) -> NotifierChannel:
        used: set[str] = set()
        for name, text in _texts(self.arguments, "arguments"):
            if is_secret_name(last := name.rpartition(".")[2]) or last in _SECRETS:
                raise ValueError(f"{name} is the name of a secret; expected it in the Airflow connection that the notifier names by its id")
            used.update(PLACEHOLDER.findall(text))
        if unknown := sorted(used - PLACEHOLDERS.keys()):
            raise ValueError(
                f"arguments name {{{unknown[0]}}}, which no message has; expected {', '.join(f'{{{p}}}' for p in PLACEHOLDERS)}"
            )
        if self.updates and "key" not in used:
            raise ValueError("updates is true and no argument has {key}, by which the service would know the alert; expected one that does")
        return self


class WebhookChannel(AlertChannelBase):
    """A URL that takes each message as signed JSON."""

    implementation = "plumbline.alerts.webhook_channel:WebhookSender"
    kind: Literal["webhook"]
    url: DeclaredUrl | None = Field(
        None,
        pattern=r"^https?://[^\s<>|]+$",
        description="where it goes; the connection's extra `url` if omitted, for a URL that is a secret",
    )
    connection: ConnectionId = Field(description="the Airflow connection whose password signs the messages")

    @model_validator(mode="after")
    def _only_encrypted(self) -> WebhookChannel:
        if self.url is not None and sends_in_clear(self.url):
            raise ValueError(f"url {self.url} is plain http, which would show findings and prices; expected https://")
        return self


def _texts(value: Any, name: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Each text with the path of its field; a value that is no text has an empty one."""
    if depth > _DEEPEST:
        raise ValueError(f"{name} is nested deeper than {_DEEPEST} levels; expected the arguments of a notifier")
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, f"{name}.{key}", depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item, name, depth + 1)
    else:
        yield name, value if isinstance(value, str) else ""


_OwnChannel = Annotated[NamedSlackChannel | NotifierChannel | WebhookChannel, Field(discriminator="kind")]
_EXTENSIBLE = extensible(_OwnChannel, AlertChannelBase, "plumbline.alert_channels")
DeclaredChannel = Annotated[_OwnChannel, _EXTENSIBLE.validator, _EXTENSIBLE.serializer]
