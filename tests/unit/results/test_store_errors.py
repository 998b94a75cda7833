"""What a client says in its own way is told in one line, and as a refusal only if it is one."""

from __future__ import annotations

import pytest
from tests.golden import Golden

from plumbline.results.store_errors import as_os_error, one_line, permanent_error


class Told(Exception):
    """As azure-core tells a status."""

    def __init__(self, words: str, status_code: int) -> None:
        super().__init__(words)
        self.status_code = status_code


def test_a_refusal_names_the_store_and_the_remedy(golden: Golden) -> None:
    found = permanent_error(
        Told("Server failed\nto authenticate.\nErrorCode:AuthenticationFailed\nContent: <xml>\n</xml>", 403), "az://c/x"
    )
    assert isinstance(found, PermissionError)
    golden("results.access_refused", str(found))


@pytest.mark.parametrize("error", [Told("busy", 503), Told("slow down", 429), OSError("connection reset"), RuntimeError("gone")])
def test_what_may_pass_is_no_refusal(error: Exception) -> None:
    assert permanent_error(error, "az://c/x") is None


@pytest.mark.parametrize("error", [FileNotFoundError("x"), PermissionError("x"), ValueError("x")])
def test_what_lasts_already_is_left_as_it_is(error: Exception) -> None:
    assert permanent_error(error, "az://c/x") is error


def test_an_error_that_is_none_of_the_systems() -> None:
    kept = OSError("x")
    assert as_os_error(kept) is kept
    assert str(as_os_error(RuntimeError(""))).startswith("RuntimeError: ")


def test_a_login_that_failed_says_why() -> None:
    """gcsfs calls it `Invalid Credentials, 401`, whatever Google said."""
    error, cause = Told("Invalid Credentials, 401", 401), RuntimeError("invalid_grant: Invalid JWT Signature.")
    error.__cause__ = cause
    assert one_line(error) == f"{error} (RuntimeError: {cause})"
    error.__cause__ = error
    assert one_line(error) == "Invalid Credentials, 401"
