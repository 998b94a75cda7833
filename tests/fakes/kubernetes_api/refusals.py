"""Error answers of the API server: an HTTP status and a `Status` object."""

from __future__ import annotations

from typing import Any

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "AlreadyExists",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Refused(Exception):
    """The server does not do what was asked."""

    def __init__(self, code: int, message: str, reason: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.row: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason or REASONS.get(code, "Unknown"),
            "details": details,
            "code": code,
        }


def not_found(plural: str, name: str) -> Refused:
    return Refused(404, f'{plural} "{name}" not found', name=name, kind=plural)


def invalid(kind: str, name: str, field: str, problem: str) -> Refused:
    cause = {"reason": "FieldValueInvalid", "message": problem, "field": field}
    return Refused(422, f'{kind} "{name}" is invalid: {field}: {problem}', name=name, kind=kind, causes=[cause])
