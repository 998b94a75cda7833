"""What an HTTP server says of a request that it did not serve: the status that its words stand for, its message on one line, and the wait that it asks for."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from plumbline.loadclient.request_log import ErrorClass

MESSAGE_LENGTH = 300
_NESTED = 4
_OWN_CLASS: dict[int, ErrorClass] = {
    408: "timeout",
    429: "rate_limited",
    **dict.fromkeys((502, 503, 504, 529, *range(521, 527), 530), "unreachable"),
}
"""521 to 530 are Cloudflare's for an origin that is away, 529 Anthropic's for an overloaded one."""


def status_class(status: int) -> ErrorClass:
    """The class of a request that was answered with this status, or with an error in its stream that stands for it."""
    return _OWN_CLASS.get(status, "server_error")


@dataclass(frozen=True)
class StatedError:
    """`status`: the HTTP status that the error has or stands for; None: its words do not say. `refused_content`: the server does not answer
    such a prompt."""

    status: int | None
    message: str
    refused_content: bool = False


# By the words of code, type and status first, since they are chosen by programmers; only without a match by those of the message.
_WORDS = tuple(
    (status, re.compile(words, re.IGNORECASE))
    for status, words in (
        (402, r"insufficient.?(credit|fund|balance)|billing|payment"),
        (429, r"rate.?limit|too.?many.?requests|quota|throttl|resource.?exhausted"),
        (401, r"(invalid|incorrect|missing|no).{0,12}api.?key|unauthenticated|unauthori[sz]ed|authentication|invalid.?(token|credential)"),
        (403, r"permission|forbidden|access.?denied|not.?allowed"),
        (404, r"not.?found|does.?not.?exist|unknown.?model|no.?such.?model|model.?not.?(available|supported|loaded)"),
        (400, r"context.{0,12}(length|size|window)|maximum.?context|too.?(long|large)|exceed.{0,40}(token|context|maximum|length)"),
        (504, r"time.?out|timed.?out|deadline"),
        (503, r"overloaded|unavailable|no.?healthy|capacity|server.?busy|service.?busy"),
        (400, r"invalid.?(request|argument|prompt|parameter|input)|bad.?request|validation|unsupported|unprocessable|malformed"),
        (500, r"internal|server.?error|api.?error"),
    )
)
_REFUSED_CONTENT = re.compile(r"content.?(filter|policy|management)|responsible.?ai|moderation|safety", re.IGNORECASE)
_ABOUT = ("code", "type", "__type", "error_type", "errorType", "status", "status_code", "statusCode", "http_status", "name", "reason")
_SAID = ("message", "msg", "error_message", "errorMessage", "error_description", "detail", "title", "raw", "Message")


def stated_error(error: Any, beside: Mapping[str, Any] | None = None) -> StatedError:
    """The meaning of an error object: text, or an object whose own fields (or those of an object in it) say what is wrong. `beside`: the fields
    beside the error."""
    about: list[str] = []
    message, status = "", None
    for _ in range(_NESTED):
        error = _whole(error)
        for fields in (error, beside):
            if isinstance(fields, Mapping):
                said = [fields[name] for name in _ABOUT if isinstance(fields.get(name), (str, int)) and not isinstance(fields[name], bool)]
                status = status or next((n for n in map(_status, said) if n is not None), None)
                about += map(str, said)
        error, beside = (beside if error is True else error), None
        if isinstance(error, list):
            alone = len(error) == 1 and isinstance(error[0], Mapping) and "error" in error[0]
            error = error[0] if alone else "; ".join(map(_problem, error[:5]))
        if not isinstance(error, Mapping):
            break
        inner = next((error[name] for name in ("error", "errors", *_SAID) if error.get(name) not in (None, "", {}, [], True)), None)
        if inner is None:
            exception = next((name for name in error if name.endswith(("Exception", "Error")) and isinstance(error[name], Mapping)), None)
            about += [exception] if exception else []
            inner = error[exception] if exception else json.dumps(error)
        error = inner
    message = _one_line(error if isinstance(error, str) else json.dumps(error))
    for text in (" ".join(about), message):
        status = status or next((meant for meant, words in _WORDS if words.search(text)), None)
    refused = bool(_REFUSED_CONTENT.search(" ".join(about))) and (status is None or status in (400, 403))
    return StatedError(None if refused else status, message, refused)


def body_message(body: bytes) -> StatedError:
    """Of an error's body: JSON, HTML or text. The status is that of its words."""
    text = body.decode("utf-8", "replace").strip().removeprefix("\ufeff")
    if text.startswith(("data:", "event:")):  # an error that was sent as the event of a stream
        text = next((line[5:].strip() for line in text.splitlines() if line.startswith("data:")), "")
    if text.startswith("<"):
        return StatedError(None, _one_line(text))
    return stated_error(text)


class Wait(NamedTuple):
    """How long a server asks to wait, in seconds from now, at least 0, and in words."""

    seconds: float
    words: str


def asked_wait(headers: Mapping[bytes, bytes]) -> Wait | None:
    """From `retry-after-ms` or `retry-after` (seconds or a date), by headers in lower case; None without a readable one."""
    for name, scale in ((b"retry-after-ms", 1e-3), (b"retry-after", 1.0)):
        value = headers.get(name, b"").decode("latin-1").strip()
        if re.fullmatch(r"\d{1,9}(\.\d+)?", value):
            seconds = float(value) * scale
            return Wait(seconds, f"the server asks to wait {seconds:.4g} s")
    value = headers.get(b"retry-after", b"").decode("latin-1")
    try:
        until = parsedate_to_datetime(value)
    except ValueError:
        return None
    until = until.replace(tzinfo=timezone.utc) if until.tzinfo is None else until.astimezone(timezone.utc)
    seconds = (until - datetime.now(timezone.utc)).total_seconds()
    passed = "" if seconds > 0 else ", which has passed"
    return Wait(max(0.0, seconds), f"the server asks to wait until {until:%Y-%m-%d %H:%M:%S} UTC{passed}")


def _status(value: str | int) -> int | None:
    """The HTTP status of an error that a field holds as a number or as its digits."""
    text = str(value).strip()
    return int(text) if re.fullmatch(r"[45]\d\d", text) else None


def _whole(error: Any) -> Any:
    """A message that is itself JSON, as gateways wrap the errors of servers behind them, taken apart."""
    if isinstance(error, str) and error.lstrip().startswith(("{", "[")):
        try:
            return json.loads(error)
        except (ValueError, RecursionError):
            return error
    return error


def _problem(item: Any) -> str:
    """One entry of a list of problems with a request, with the field that it is about."""
    if not isinstance(item, Mapping):
        return str(item)
    place = item.get("loc") or item.get("param") or item.get("path") or item.get("field")
    where = ".".join(map(str, place)) if isinstance(place, list) else str(place or "")
    said = next((str(item[name]) for name in _SAID if item.get(name)), json.dumps(item))
    return f"{where}: {said}" if where else said


_MARKUP = re.compile(r"<(script|style)\b.*?</\1\s*>|<!--.*?-->|<[a-zA-Z!/][^<>]*>", re.DOTALL | re.IGNORECASE)


def _one_line(text: str) -> str:
    plain = html.unescape(_MARKUP.sub(" ", text)) if "<" in text else text
    return " ".join(plain.split())[:MESSAGE_LENGTH]
