"""A URL that takes each message as JSON, signed over its id, its time and its body as standardwebhooks.com describes, so that a receiver verifies it
with any library of that standard, knows an old one by its time, and a repeated one by its id."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time

import httpx

from plumbline.alerts.channel import UPDATED, AlertChannel, ChannelError, Post
from plumbline.declarations.alert_channels import WebhookChannel
from plumbline.declarations.urls import sends_in_clear
from plumbline.launch.connections import airflow_connection

_TIMEOUT_S = 10.0
_PREFIX = "whsec_"
_GONE = 410
_SHORTEST = 16
"""Bytes of a secret, so that it is not found by trying."""


class WebhookSender(AlertChannel):
    """Made with its secret: ValueError without the connection or its password."""

    def __init__(self, declared: WebhookChannel) -> None:
        given = airflow_connection(declared.connection, "is not defined; expected one whose password signs the webhook's messages")
        self._url = declared.url or str(given.extra_dejson.get("url") or "")
        if not self._url.startswith(("https://", "http://")) or sends_in_clear(self._url):
            raise ValueError(
                f"connection {declared.connection}: no https:// URL; expected `url` in alerts.yaml or in the connection's extra"
            )
        self._secrets = [_secret_bytes(text, declared.connection) for text in (given.password or "").split()]
        if not self._secrets:
            raise ValueError(f"connection {declared.connection} has no password; expected the secret that signs the messages")

    def send(self, post: Post) -> str:
        key = post.message_id or f"plumbline-{post.thread_key}"
        body = _body(post, key)
        delivery = hashlib.sha256(
            f"{post.kind}/{post.thread_key}/{post.name}/{post.message.digest if post.name == UPDATED else ''}".encode()
        )
        headers = {"Content-Type": "application/json", **signed_headers(self._secrets, delivery.hexdigest()[:32], int(time.time()), body)}
        try:
            with httpx.stream("POST", self._url, content=body, headers=headers, timeout=_TIMEOUT_S) as answer:
                status, taken = answer.status_code, answer.is_success  # what it says besides is not read
        except httpx.ConnectError as error:
            raise ChannelError(f"the webhook does not answer: {error}", refused=True) from error
        except httpx.HTTPError as error:
            raise ChannelError(f"the webhook gave no answer: {type(error).__name__}") from error
        if not taken:  # also a redirect: the message is for the declared address alone
            raise ChannelError(f"the webhook answered {status}; expected 200 to 299", closed=status == _GONE)
        return key


def signed_headers(secrets: list[bytes], message_id: str, at: int, body: bytes) -> dict[str, str]:
    """The three headers of a message. `at`: seconds since 1970. One signature a secret, with space between, so that a receiver changes its own
    secret at any time."""
    content = b".".join((message_id.encode(), str(at).encode(), body))
    signatures = (base64.b64encode(hmac.new(secret, content, hashlib.sha256).digest()).decode() for secret in secrets)
    return {"webhook-id": message_id, "webhook-timestamp": str(at), "webhook-signature": " ".join(f"v1,{text}" for text in signatures)}


def _secret_bytes(text: str, connection: str) -> bytes:
    try:
        secret = base64.b64decode(text.removeprefix(_PREFIX), validate=True) if text.startswith(_PREFIX) else text.encode()
    except binascii.Error:
        secret = b""
    if len(secret) < _SHORTEST:
        raise ValueError(
            f"connection {connection}: its password is no secret; expected {_SHORTEST} characters or more, or {_PREFIX} and base64"
        )
    return secret


def _body(post: Post, key: str) -> bytes:
    message = post.message
    content = {
        "key": key,
        "finding": post.thread_key if post.kind == "finding" else None,
        "digest": post.thread_key if post.kind == "digest" else None,
        "event": post.name,
        "state": post.state,
        "provider": post.provider,
        "severity": message.severity,
        "title": message.title,
        "text": message.text,
        "fields": dict(message.fields),
        "links": [{"address": address, "label": label} for address, label in message.links],
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
