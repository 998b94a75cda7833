"""What goes wrong with Slack, and how it is told."""

from __future__ import annotations

from http.client import HTTPException

from slack_sdk.errors import SlackApiError, SlackClientError

GONE = (
    "message_not_found",
    "thread_not_found",
    "cannot_reply_to_message",
    "cant_update_message",
    "edit_window_closed",
    "restricted_action_thread_locked",
)
"""What Slack says of a message that can no longer be changed or answered: somebody deleted or locked it, or it is too old."""
NO_WAY_IN = ("is_archived", "channel_not_found", "not_in_channel")
"""What Slack says of a channel that takes nothing more until somebody mends that."""
ABOUT_THE_MESSAGE = (
    "invalid_blocks",
    "invalid_blocks_format",
    "msg_too_long",
    "no_text",
    "invalid_metadata_format",
    "msg_blocks_too_long",
)
"""Refusals that another message need not meet."""
_EVERYWHERE = (
    "",  # no word from Slack at all
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
FAILURES = (SlackClientError, OSError, HTTPException)
"""Everything that a call of Slack's client raises when Slack refuses or cannot be reached."""


def error_code(error: Exception) -> str:
    """Slack's own word for why it refused; empty when it gave none."""
    if not isinstance(error, SlackApiError):
        return ""
    data = error.response.data
    return str(data.get("error") or "") if isinstance(data, dict) else ""


def reason(error: Exception) -> str:
    """The error in one line."""
    return error_code(error) or f"{type(error).__name__}: {error}".splitlines()[0]


def everywhere(error: Exception) -> bool:
    """Whether another channel would meet the same failure."""
    return error_code(error) in _EVERYWHERE
