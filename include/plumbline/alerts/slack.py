"""The way to Slack: an Airflow connection, if there is one.

Connection `plumbline_slack`: type Slack API, password = the bot token, extra = `{"channel": "C0123456789"}` (and `base_url` for tests).
The channel is an id, not a name: messages are updated and looked up by id only, and a name may change hands. The bot needs the scopes
`chat:write`, `files:write` for charts and, to be sure of never posting twice after a crash, `channels:history` (`groups:history` for a
private channel).
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.error import URLError

from slack_sdk.http_retry import ConnectionErrorRetryHandler, HttpRequest, HttpResponse, RateLimitErrorRetryHandler, RetryState

if TYPE_CHECKING:
    from slack_sdk import WebClient

CONNECTION = "plumbline_slack"
_CHANNEL_ID = re.compile(r"[CGD][A-Z0-9]{6,}")
_LONGEST_WAIT_S = 60
_TIMEOUT_S = 10


@dataclass(frozen=True)
class Slack:
    """A client that may be used and the id of the channel that findings go to."""

    client: WebClient
    channel: str


class ShortRateLimit(RateLimitErrorRetryHandler):
    """Waits as long as Slack asks, but not for ever: a message that must wait longer is kept as undelivered and retried by a later run."""

    def _can_retry(
        self, *, state: RetryState, request: HttpRequest, response: HttpResponse | None = None, error: Exception | None = None
    ) -> bool:
        if response is None or response.status_code != 429:
            return False
        asked = next((values[0] for name, values in response.headers.items() if name.lower() == "retry-after"), "1")
        return asked.isdigit() and int(asked) <= _LONGEST_WAIT_S


def connect(conn_id: str = CONNECTION, log: logging.Logger | None = None) -> Slack | None:
    """The Slack of an Airflow connection; None (with the reason in the log) if there is no such connection or it cannot be used."""
    from airflow.exceptions import AirflowNotFoundException
    from airflow.providers.slack.hooks.slack import SlackHook

    log = log or logging.getLogger(__name__)
    try:
        connection = SlackHook.get_connection(conn_id)
    except AirflowNotFoundException:
        log.info("no Slack connection %s: findings go to the log and the page only", conn_id)
        return None
    channel = str(connection.extra_dejson.get("channel") or "")
    if not _CHANNEL_ID.fullmatch(channel) or not connection.password:
        log.error(
            'Slack connection %s has channel "%s" and %s token; expected a bot token as password and extra {"channel": "C0123456789"} '
            "(an id, not a name). Findings go to the log and the page only.",
            conn_id,
            channel,
            "a" if connection.password else "no",
        )
        return None
    # Only errors from before the request was sent are retried at once: after that the message may have arrived, and deliver() looks
    # for it before it posts again.
    retries = [ShortRateLimit(max_retry_count=2), ConnectionErrorRetryHandler(max_retry_count=2, error_types=[URLError])]
    hook = SlackHook(slack_conn_id=conn_id, retry_handlers=retries, timeout=_TIMEOUT_S)
    return Slack(hook.client, channel)
