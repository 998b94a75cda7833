"""Text as Slack takes it: escaped, and cut to a limit that says what was cut."""

from __future__ import annotations

from slack_sdk.models.blocks import MarkdownTextObject

CUT = " … (cut: see the finding)"


def escaped(text: str) -> str:
    """Slack's three control characters, so that a version string cannot become a link or a mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def cut(text: str, limit: int) -> str:
    """At most `limit` characters."""
    return text if len(text) <= limit else text[: limit - len(CUT)] + CUT


def markdown(text: str, limit: int, *, label: str | None = None, bold: bool = False, before: str = "") -> MarkdownTextObject:
    """A text object of at most `limit` characters of plain `text`; `before` is put in front as it is, such as a mention."""
    # Cut before the bold marks go round it, or the cut would take the closing one.
    body = cut(escaped(text), limit - 60 - len(before))
    return MarkdownTextObject(text=before + (f"*{label}*\n{body}" if label else f"*{body}*" if bold else body))
