"""Slack client from an Airflow connection, its retries, paging and error classes."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import URLError

from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.http_retry import ConnectionErrorRetryHandler, HttpRequest, HttpResponse, RateLimitErrorRetryHandler, RetryState

from plumbline.declarations.urls import sends_in_clear
from plumbline.launch.connections import require_answer

if TYPE_CHECKING:
    from slack_sdk import WebClient


CONNECTION = "plumbline_slack"
_CHANNEL_ID = re.compile(r"[CGD][A-Z0-9]{6,}")
_LONGEST_WAIT_S = 60
_TIMEOUT_S = 10


def is_channel_id(name: str) -> bool:
    """Whether it is the id of a Slack channel, such as C0123456789."""
    return _CHANNEL_ID.fullmatch(name) is not None


@dataclass(frozen=True)
class Slack:
    """A client and the id of the channel that receives findings without a channel of their own."""

    client: WebClient
    channel: str


class ShortRateLimit(RateLimitErrorRetryHandler):
    """Waits as long as Slack asks, at most a minute: a message that must wait longer stays undelivered until a later run."""

    def _can_retry(
        self, *, state: RetryState, request: HttpRequest, response: HttpResponse | None = None, error: Exception | None = None
    ) -> bool:
        if response is None or response.status_code != 429:
            return False
        wait_s = next((values[0] for name, values in response.headers.items() if name.lower() == "retry-after"), "1")
        return wait_s.isdigit() and int(wait_s) <= _LONGEST_WAIT_S


def connect(conn_id: str = CONNECTION, log: logging.Logger | None = None) -> Slack | None:
    """The Slack of an Airflow connection; None (with the reason in the log) if there is no such connection or it cannot be used.

    ConnectionError if Airflow's API does not answer: the run is repeated."""
    from airflow.exceptions import AirflowNotFoundException
    from airflow.providers.slack.hooks.slack import SlackHook

    log = log or logging.getLogger(__name__)
    try:
        connection = SlackHook.get_connection(conn_id)
    except AirflowNotFoundException:
        require_answer(conn_id)
        log.info("no Slack connection %s: findings go to the log and the page only", conn_id)
        return None
    channel = str(connection.extra_dejson.get("channel") or "")
    if not is_channel_id(channel) or not connection.password:
        log.error(
            'Slack connection %s has channel "%s" and %s token; expected a bot token as password and extra {"channel": "C0123456789"} '
            "(an id, not a name). Findings go to the log and the page only.",
            conn_id,
            channel,
            "a" if connection.password else "no",
        )
        return None
    if sends_in_clear(str(connection.extra_dejson.get("base_url") or "")):
        log.error("Slack connection %s has a base_url of plain http, which would send the token in clear; expected https://", conn_id)
        return None
    # Only errors from before the request was sent are retried at once: after that the message may have arrived, and deliver() looks
    # for it before it posts again.
    retries = [ShortRateLimit(max_retry_count=2), ConnectionErrorRetryHandler(max_retry_count=2, error_types=[URLError])]
    hook = SlackHook(slack_conn_id=conn_id, retry_handlers=retries, timeout=_TIMEOUT_S)
    return Slack(hook.client, channel)


MESSAGE_GONE = (
    "message_not_found",
    "thread_not_found",
    "cannot_reply_to_message",
    "cant_update_message",
    "edit_window_closed",
    "restricted_action_thread_locked",
)
"""Slack's codes for a message that can no longer be changed or answered: deleted, locked or too old."""
CHANNEL_CLOSED = ("is_archived", "channel_not_found", "not_in_channel")
"""Slack's codes for a channel that accepts nothing until its settings change."""
MESSAGE_REJECTED = (
    "invalid_blocks",
    "invalid_blocks_format",
    "msg_too_long",
    "no_text",
    "invalid_metadata_format",
    "msg_blocks_too_long",
)
"""Slack's codes for a message that it does not accept; another message may pass."""
_WORKSPACE_ERRORS = (
    "",  # no answer
    "access_denied",
    "accesslimited",
    "account_inactive",
    "ekm_access_denied",
    "fatal_error",
    "internal_error",
    "invalid_auth",
    "missing_scope",
    "not_authed",
    "org_login_required",
    "ratelimited",
    "request_timeout",
    "service_unavailable",
    "team_access_not_granted",
    "token_expired",
    "token_revoked",
)
SLACK_ERRORS = (SlackClientError, OSError, HTTPException)
"""Everything that a call of Slack's client raises when Slack refuses or cannot be reached."""


def error_code(error: Exception) -> str:
    """Slack's code for a refusal; empty without one."""
    if not isinstance(error, SlackApiError):
        return ""
    data = error.response.data
    return str(data.get("error") or "") if isinstance(data, dict) else ""


def describe_error(error: Exception) -> str:
    return error_code(error) or f"{type(error).__name__}: {error}".splitlines()[0]


def affects_workspace(error: Exception) -> bool:
    """Whether other channels would fail too."""
    return error_code(error) in _WORKSPACE_ERRORS


_PAGE = 200


def iterate_messages(method: Callable[..., Any], **arguments: Any) -> Iterator[dict[str, Any]]:
    """Messages of a channel's history (newest first) or of a thread's replies (oldest first), page by page; `method`: of Slack's client.

    Raises what Slack's client raises.
    """
    cursor: str | None = None
    while True:
        page = method(**arguments, limit=_PAGE, cursor=cursor)
        yield from page["messages"]
        cursor = (page.get("response_metadata") or {}).get("next_cursor") or None
        if cursor is None:
            return
