"""What goes wrong with Slack, and how it is told."""

from __future__ import annotations

from http.client import HTTPException

from slack_sdk.errors import SlackApiError, SlackClientError

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
