from __future__ import annotations

from typing import Any

import pytest

from plumbline.harness.selfcheck import load_client
from plumbline.loadclient.load_generator import drive

pytestmark = pytest.mark.exclusive


def statuses(drive: Any = drive) -> dict[str, str]:
    return {line.of: line.status for line in load_client.load_client_lines(drive)}


def test_the_client_agrees_with_the_golden_server() -> None:
    assert statuses() == {"tritonclient": "pass", "first token": "pass", "gap": "pass"}


def late(log: Any) -> None:
    log.token_at += 0.02


def stretched(log: Any) -> None:
    log.token_at *= 1.5


def early(log: Any) -> None:
    log.token_at -= 0.02


def from_dispatch(log: Any) -> None:
    log.scheduled -= 0.02


def losing(log: Any) -> None:
    log.error[3] = 1


@pytest.mark.parametrize(
    ("fault", "red"),
    [
        (late, {"tritonclient": "pass", "first token": "fail", "gap": "pass"}),
        pytest.param(stretched, {"tritonclient": "pass", "first token": "fail", "gap": "fail"}, marks=pytest.mark.full),
        pytest.param(early, {"tritonclient": "pass", "first token": "fail"}, marks=pytest.mark.full),
        pytest.param(from_dispatch, {"tritonclient": "pass", "first token": "fail", "gap": "pass"}, marks=pytest.mark.full),
        (losing, {"tritonclient": "pass", "": "fail"}),
    ],
)
def test_a_wrong_client_fails(fault: Any, red: dict[str, str]) -> None:
    def wrong(*arguments: Any, **given: Any) -> Any:
        log = drive(*arguments, **given)
        fault(log)
        return log

    assert statuses(wrong) == red


def test_a_server_that_does_not_start_is_a_failed_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plumbline.harness.selfcheck.load_client.sys.executable", "/bin/false")
    assert statuses() == {"": "fail"}
