"""Keep the text of private prompts, and of answers to them, out of documents, evidence and errors."""

from __future__ import annotations

import re
from collections.abc import Iterable

WITHHELD = "the rest is withheld, because the prompts are private"
_WINDOW = 12
# What the client itself writes, or a status that has a fixed set of words.
_SAFE = re.compile(
    r"HTTP \d{3}|[A-Z_]{4,24}(?=: )"
    r"|\d+ (?:tokens|events and no usage that counts their tokens); expected \d+(?: tokens)?|\d+ of \d+ tokens within [\d.e+-]+s|not sent within [\d.e+-]+s: too many requests in flight"
    r"|the connection was closed (in the middle of the answer|before an answer came)"
    r"|the stream ended without (\[DONE\], after \d+ events with text|a final response)"
    r"|the server ended before it had answered|the server had ended before it was due|the load was stopped by a signal"
)


def safe_detail(detail: str) -> str:
    """The beginning of a request's error that cannot hold text of a prompt or of an answer."""
    known = _SAFE.match(detail)
    if known is None:
        return WITHHELD
    return detail if known.end() == len(detail) else f"{known[0]}: {WITHHELD}"


def without_text(message: str, texts: Iterable[str]) -> str:
    """The lines of `message` that repeat no part of any of the texts; a server's own log may quote them."""
    joined = "\0".join(texts)
    # Logs show a line break as two characters, and quotes with a backslash.
    known = (joined, repr(joined))

    def quotes(line: str) -> bool:
        windows = (line[i : i + _WINDOW] for i in range(max(1, len(line) - _WINDOW + 1)))
        return any(len(window) == _WINDOW and any(window in text for text in known) for window in windows)

    lines = message.split("\n")
    kept = [line for line in lines if not quotes(line)]
    return message if len(kept) == len(lines) else "\n".join([*kept, WITHHELD]).strip()
