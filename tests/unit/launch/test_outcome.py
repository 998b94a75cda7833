"""The last words of a trial. How each way to end is classified is shown with real processes in the integration tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.trials import a_trial

from plumbline.launch.failures import last_lines, trial_outcome
from plumbline.launch.local.process import ProcessEnd
from plumbline.results import Environment, ResultDocument, ResultStore, Validity


def test_last_lines_of_a_tail() -> None:
    assert last_lines("one\n\n two\n") == "one | two"
    assert last_lines("\n".join("abcdefgh")) == " | ".join("defgh")
    assert last_lines("\n") == "no output"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("s3://b/r: the result document could not be stored: NotDelivered: away", "unreachable"),
        ("s3://b/r: nothing was measured: StoreAway: no route", "unreachable"),
        ("KeyError: 'no such tensor'", "harness_error"),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "provider_fault"),
    ],
)
def test_exit_status_1_is_the_stores_only_where_the_harness_says_so(tmp_path: Path, said: str, expected: str) -> None:
    store = ResultStore(tmp_path.as_uri())
    assert trial_outcome(ProcessEnd(1, None, ""), store, "c/t/attempt-1", f"plumbline-result 1/1 UEs=\n{said}")[0] == expected


def test_a_result_that_was_brought_home_is_the_outcome(tmp_path: Path) -> None:
    store, trial = ResultStore(tmp_path.as_uri()), a_trial()
    store.put_document(
        ResultDocument.sealed(
            trial=trial, harness_version="1", environment=Environment.of({"cpu.model": "x"}), validity=Validity(status="valid")
        )
    )
    printed = "the result document could not be stored"
    assert trial_outcome(ProcessEnd(1, None, ""), store, store.folder(trial), printed) == (None, None)


def test_a_printed_result_is_not_among_the_last_lines() -> None:
    assert last_lines(f"{'A' * 900}==\nplumbline-result 2/2 {'B' * 100}\naway") == "away"
