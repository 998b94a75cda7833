"""Whose words an error has, and how long a server asks to wait."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest

from plumbline.loadclient.stated_errors import StatedError, asked_wait, body_message, stated_error, status_class


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, "server_error"),
        (408, "timeout"),
        (429, "rate_limited"),
        (500, "server_error"),
        (502, "unreachable"),
        (524, "unreachable"),
        (529, "unreachable"),
    ],
)
def test_a_status_has_its_class(status: int, expected: str) -> None:
    assert status_class(status) == expected


def test_the_code_goes_before_the_words_of_the_message() -> None:
    both = {"code": "model_not_found", "type": "invalid_request_error", "message": "rate limit of unknown models"}
    assert stated_error(both) == StatedError(404, "rate limit of unknown models")
    assert stated_error({"code": 1301, "message": "something"}) == StatedError(None, "something")
    assert stated_error({"code": 503, "type": "invalid_request_error", "message": "no"}).status == 503
    for odd in (None, 7, [], {}, [1, 2], {"message": None}):
        assert stated_error(odd).status is None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "a  b\\n<b>c</b>", "type": "x"}}', "a b c"),
        (b'[{"error": {"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED"}}]', "slow"),
        (b'{"detail": [{"loc": ["body", "n"], "msg": "too many"}]}', "body.n: too many"),
        (b"\xef\xbb\xbfplain &amp; simple", "plain &amp; simple"),
        (b"<p>A &amp; B<script>x()</script></p>", "A & B"),
        (b"a < b and c > d", "a < b and c > d"),
        (b"", ""),
        (b"x" * 1000, "x" * 300),
    ],
)
def test_a_message_is_one_line_without_markup(body: bytes, message: str) -> None:
    assert body_message(body).message == message


def test_a_wait_is_in_seconds_milliseconds_or_until_a_date() -> None:
    def asked(**headers: str) -> tuple[float, str] | None:
        return asked_wait({name.replace("_", "-").encode(): value.encode() for name, value in headers.items()})

    assert asked(retry_after="2") == (2.0, "the server asks to wait 2 s")
    assert asked(retry_after="7", retry_after_ms="1338") == (1.338, "the server asks to wait 1.338 s")
    assert asked(retry_after="Wed, 21 Oct 2015 07:28:00 GMT") == (
        0.0,
        "the server asks to wait until 2015-10-21 07:28:00 UTC, which has passed",
    )
    later = datetime.now(timezone.utc) + timedelta(hours=1)
    found = asked(retry_after=format_datetime(later, usegmt=True))
    assert found is not None and 3500 < found[0] <= 3600 and f"{later:%H:%M:%S} UTC" in found[1]
    assert asked() is None and asked(retry_after="soon") is None and asked(retry_after="-1") is None
