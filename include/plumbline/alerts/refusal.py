"""What goes wrong with Slack, and how it is told."""

from __future__ import annotations

from http.client import HTTPException

from slack_sdk.errors import SlackApiError, SlackClientError

GONE = ("message_not_found", "thread_not_found", "edit_window_closed", "cant_update_message")
"""What Slack says of a message that can no longer be changed."""
ABOUT_THE_MESSAGE = (
    "invalid_blocks",
    "invalid_blocks_format",
    "msg_too_long",
    "no_text",
    "invalid_metadata_format",
    "msg_blocks_too_long",
)
"""Refusals that another message need not meet."""
ABOUT_THE_CHANNEL = (
    "channel_not_found",
    "is_archived",
    "not_in_channel",
    "restricted_action",
    "restricted_action_read_only_channel",
    "restricted_action_thread_locked",
    "restricted_action_non_threadable_channel",
    "restricted_action_thread_only_channel",
)
"""Refusals that another channel need not meet."""
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
