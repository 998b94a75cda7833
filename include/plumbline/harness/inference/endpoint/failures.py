"""The failure class of a trial in which an endpoint answered nothing rightly: whose turn it is to change something."""

from __future__ import annotations

import re
from collections import Counter

from plumbline.harness.inference.requestlog import ERROR_CLASSES, RequestLog
from plumbline.results import FailureClass

_STATUS = re.compile(r"^HTTP (\d{3})\b|^([A-Z_]+): ")
_GRPC = {
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "INVALID_ARGUMENT": 400,
    "UNIMPLEMENTED": 404,
    "FAILED_PRECONDITION": 400,
    "RESOURCE_EXHAUSTED": 429,
}
# An error within a gRPC stream has no status: these are Triton's words for a request that can never succeed.
_NEVER = re.compile(r"unknown model|unexpected inference input|unexpected shape for input|expected \d+ inputs but got", re.IGNORECASE)
_BY_ERROR: dict[str, FailureClass] = {
    "timeout": "timeout",
    "cancelled": "server_error",
    "server_error": "server_error",
    "unreachable": "unreachable",
    "wrong_output": "bad_declaration",
    "not_sent": "unreachable",
}

_REMEDIES = {
    "not_sent": "expected launcher.url to lead to a server that this machine reaches",
    "unreachable": "expected launcher.url to lead to a server that this machine reaches and that keeps its connections",
    "timeout": "expected lower rates, shorter answers or a longer request_timeout",
}


def failure_of(log: RequestLog) -> tuple[FailureClass, str]:
    """Class and reason, by the most frequent kind of failure; ValueError if no request failed.

    bad_declaration  it refuses the key, does not know the model or the path, rejects the request, redirects, or answers with another
                     number of tokens than was asked for: trying again would end alike
    quota_exceeded   it says that there were too many requests
    """
    errors = log.errors()
    if not errors:
        raise ValueError(f"no request of {log.load.name} failed")
    error = max(errors, key=lambda name: errors[name])
    status, detail = _commonest(log, error)
    if status is None:
        hint = "; declare exact_output: false if it cannot" if error == "wrong_output" and "tokens; expected" in detail else ""
        hint = f"; {_REMEDIES[error]}" if error in _REMEDIES else hint
        return _BY_ERROR[error], f"{error}: {detail}{hint}"
    if status in (401, 403):
        return (
            "bad_declaration",
            f"the endpoint refuses the key ({detail}); expected launcher.connection to name a connection whose key is valid there",
        )
    if status == 429:
        return (
            "quota_exceeded",
            f"the endpoint says that there were too many requests ({detail}); expected lower rates in phases, or a higher quota there",
        )
    if 300 <= status < 400:
        return "bad_declaration", f"the endpoint redirects ({detail}); expected launcher.url to be where it answers"
    if 400 <= status < 500:
        return "bad_declaration", f"the endpoint rejects the request ({detail}); expected url, protocol, model and lengths that it knows"
    return _BY_ERROR[error], detail


def _commonest(log: RequestLog, error: str) -> tuple[int | None, str]:
    """The status that most details of this class begin with, and the first such detail; (None, first detail) if they tell none."""
    found: Counter[int | None] = Counter()
    first: dict[int | None, str] = {}
    for number, detail in sorted(log.details.items()):
        if ERROR_CLASSES[log.error[number] - 1] != error:
            continue
        status = _status(detail)
        found[status] += 1
        first.setdefault(status, detail)
    if not found:
        return None, log.first_error()
    status = found.most_common(1)[0][0]
    return status, first[status]


def _status(detail: str) -> int | None:
    """What a detail says in HTTP's terms; None if it says nothing of the kind."""
    match = _STATUS.match(detail)
    if match is None:
        return 400 if _NEVER.search(detail) else None
    return int(match[1]) if match[1] else _GRPC.get(match[2])
