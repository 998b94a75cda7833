"""What a client says in its own way is told in one line, and as a refusal only if it is one."""

from __future__ import annotations

import pytest

from plumbline.results.store import as_os_error, one_line, permanent_error


class Told(Exception):
    """As azure-core tells a status."""

    def __init__(self, words: str, status_code: int) -> None:
        super().__init__(words)
        self.status_code = status_code


def test_a_refusal_names_the_store_and_the_remedy() -> None:
    found = permanent_error(
        Told("Server failed\nto authenticate.\nErrorCode:AuthenticationFailed\nContent: <xml>\n</xml>", 403), "az://c/x"
    )
    assert isinstance(found, PermissionError)
    assert str(found) == (
        "az://c/x refuses access: Server failed to authenticate. ErrorCode:AuthenticationFailed; "
        "look at the store's credentials and at what they may do there"
    )


@pytest.mark.parametrize("error", [Told("busy", 503), Told("slow down", 429), OSError("connection reset"), RuntimeError("gone")])
def test_what_may_pass_is_no_refusal(error: Exception) -> None:
    assert permanent_error(error, "az://c/x") is None


@pytest.mark.parametrize("error", [FileNotFoundError("x"), PermissionError("x"), ValueError("x")])
def test_what_lasts_already_is_left_as_it_is(error: Exception) -> None:
    assert permanent_error(error, "az://c/x") is error


def test_an_error_that_is_none_of_the_systems() -> None:
    kept = OSError("x")
    assert as_os_error(kept) is kept
    assert str(as_os_error(RuntimeError(""))) == "RuntimeError: no reason given"


def test_a_login_that_failed_says_why() -> None:
    """gcsfs calls it `Invalid Credentials, 401`, whatever Google said."""
    error = Told("Invalid Credentials, 401", 401)
    error.__cause__ = RuntimeError("invalid_grant: Invalid JWT Signature.")
    assert one_line(error) == "Invalid Credentials, 401 (RuntimeError: invalid_grant: Invalid JWT Signature.)"
    error.__cause__ = error
    assert one_line(error) == "Invalid Credentials, 401"
