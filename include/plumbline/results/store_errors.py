"""Errors of the stores' clients: which of them waiting cannot cure, and what they say in one line.

Each client has exceptions of its own. They are known by name and status here, so that no client is imported that a store does not need.
"""

from __future__ import annotations

import errno

_PERMANENT = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, ValueError, TypeError, AttributeError, ImportError)
# Of botocore, google-auth and azure-core: credentials do not appear by waiting, and a pod that waits costs money.
_CREDENTIAL_ERRORS = frozenset({"NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError", "ClientAuthenticationError"})

_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def permanent_error(error: Exception, url: str) -> Exception | None:
    """The error to raise if waiting does not help; None if it may.

    A refusal becomes PermissionError and a missing bucket FileNotFoundError, as s3fs has it; other permanent errors stay as they are."""
    if isinstance(error, _PERMANENT) or (isinstance(error, OSError) and error.errno in _DISK_FULL):
        return error
    status = _http_status(error)
    if type(error).__name__ in _CREDENTIAL_ERRORS or status in ("401", "403"):
        return PermissionError(f"{url} refuses access: {one_line(error)}; check the credentials and their permissions")
    return FileNotFoundError(f"{url}: {one_line(error)}") if status == "404" else None


def as_os_error(error: Exception) -> OSError:
    return error if isinstance(error, OSError) else OSError(f"{type(error).__name__}: {one_line(error)}")


def one_line(error: BaseException) -> str:
    """The error's words in one line, with its cause's: Azure writes a page with the answer's XML, Google hides why a login failed."""
    words, cause = _message(error), error.__cause__
    return words if cause is None or _message(cause) in words else f"{words} ({type(cause).__name__}: {_message(cause)})"


def _message(error: BaseException) -> str:
    return " ".join(str(error).partition("\nContent:")[0].split()) or "no reason given"


def _http_status(error: Exception) -> str:
    """The HTTP status: azure-core's `status_code`, gcsfs' `code`, 403 where gcsfs says it in words only; else nothing of use."""
    if isinstance(error, OSError) and str(error).startswith("Forbidden"):
        return "403"
    return str(getattr(error, "status_code", None) or getattr(error, "code", None))
