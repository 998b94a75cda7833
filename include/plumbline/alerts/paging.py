"""All messages of a channel or a thread, which Slack hands out by the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

_PAGE = 200


def messages(method: Callable[..., Any], **arguments: Any) -> Iterator[dict[str, Any]]:
    """What `conversations_history` (newest first) or `conversations_replies` (oldest first) answers, as far as it is asked for.

    Raises what Slack's client raises.
    """
    cursor: str | None = None
    while True:
        page = method(**arguments, limit=_PAGE, cursor=cursor)
        yield from page["messages"]
        cursor = (page.get("response_metadata") or {}).get("next_cursor") or None
        if cursor is None:
            return
