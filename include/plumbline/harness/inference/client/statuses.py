"""What a failed answer's codes mean: gRPC's statuses, HTTP/2's stream errors and HTTP's statuses as an error class and in words."""

from __future__ import annotations

from plumbline.harness.inference.client import http2
from plumbline.harness.inference.requestlog import ErrorClass

_STATUSES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED"),
    *("RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"),
    "UNAUTHENTICATED",
)
_CLASSES: dict[str, ErrorClass] = {
    "CANCELLED": "cancelled",
    "DEADLINE_EXCEEDED": "timeout",
    "UNAVAILABLE": "unreachable",
    "CANCEL": "cancelled",
    "REFUSED_STREAM": "unreachable",
    "502": "unreachable",
    "503": "unreachable",
    "504": "unreachable",
}


def of_status(code: int, message: str) -> tuple[ErrorClass, str]:
    """A gRPC status that is not OK."""
    name = _STATUSES[code] if code < len(_STATUSES) else f"status {code}"
    return _CLASSES.get(name, "server_error"), f"{name}: {message}"


def of_reset(code: int) -> tuple[ErrorClass, str]:
    """A stream that the server reset."""
    name = http2.name_of(code)
    return _CLASSES.get(name, "server_error"), f"the server reset the stream: {name}"


def of_http(status: str) -> tuple[ErrorClass, str]:
    """An HTTP status that is not 200: what answered does not speak gRPC here."""
    return _CLASSES.get(status, "server_error"), f"HTTP status {status} where gRPC was expected"
