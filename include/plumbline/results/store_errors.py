"""Errors of the stores' clients: which of them waiting cannot cure, and what they say in one line.

Each client has exceptions of its own. They are known by name and status here, so that no client is imported that a store does not need.
"""

from __future__ import annotations

import errno

_LASTING = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, ValueError, TypeError, AttributeError, ImportError)
# Of botocore, google-auth and azure-core: credentials do not appear by waiting, and a pod that waits costs money.
_UNKNOWN_CALLER = frozenset({"NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError", "ClientAuthenticationError"})

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def lasting(error: Exception, url: str) -> Exception | None:
    """The error to raise if waiting does not help, None if it may.

    What says so already is raised as it is. Of the store at `url`, a refusal becomes PermissionError and a missing bucket
    FileNotFoundError, as s3fs has it.
    """
    if isinstance(error, _LASTING) or (isinstance(error, OSError) and error.errno in _FULL):
        return error
    status = _status(error)
    if type(error).__name__ in _UNKNOWN_CALLER or status in ("401", "403"):
        return PermissionError(f"{url} refuses access: {line(error)}; look at the store's credentials and at what they may do there")
    return FileNotFoundError(f"{url}: {line(error)}") if status == "404" else None


def as_os_error(error: Exception) -> OSError:
    """The error itself if it is an OSError, else one with its type and words."""
    return error if isinstance(error, OSError) else OSError(f"{type(error).__name__}: {line(error)}")


def line(error: BaseException) -> str:
    """The error's words in one line, with its cause's: Azure writes a page with the answer's XML, Google hides why a login failed."""
    words, cause = _words(error), error.__cause__
    return words if cause is None or _words(cause) in words else f"{words} ({type(cause).__name__}: {_words(cause)})"


def _words(error: BaseException) -> str:
    return " ".join(str(error).partition("\nContent:")[0].split()) or "no reason given"


def _status(error: Exception) -> str:
    """The HTTP status: azure-core's `status_code`, gcsfs' `code`, 403 where gcsfs says it in words only; else nothing of use."""
    if isinstance(error, OSError) and str(error).startswith("Forbidden"):
        return "403"
    return str(getattr(error, "status_code", None) or getattr(error, "code", None))
