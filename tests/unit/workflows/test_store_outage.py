"""The result store goes away at any of its operations between a finished trial and its row in the archive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.trials import CONFIG
from tests.unit.workflows.test_record import measured

from plumbline import quality
from plumbline.archive import open_archive
from plumbline.launch import stores
from plumbline.launch.plan import RunRequest
from plumbline.quality.report import QualityReport, Verdict
from plumbline.results import ResultDocument, ResultStore
from plumbline.workflows import collect, plan_trials, record, validate
from plumbline.workflows.plan import TRIAL_GROUPS


class Away:
    """A store whose n-th operation fails, and every one after it until the store is back."""

    def __init__(self, operation: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left, self.back, self.failed = operation, False, 0
        works = ResultStore._retried

        def tried(store: ResultStore, action: Callable[[], Any]) -> Any:
            self.left -= 1
            if self.left <= 0 and not self.back:
                self.failed += 1
                raise ConnectionError("the store is away")
            return works(store, action)

        monkeypatch.setattr(ResultStore, "_retried", tried)


def accepted(documents: Sequence[ResultDocument], *_: object) -> QualityReport:
    """The quality report of results that pass: the checks themselves read nothing from the store, and take a second each time."""
    return QualityReport(True, {f"{d.trial.trial_id}#{d.trial.attempt}": Verdict() for d in documents}, (), Path())


def tried_again(step: Callable[[], Any], away: Away) -> Any:
    """A step as its task runs it: tried again when the store is back."""
    try:
        return step()
    except OSError:
        assert away.failed and not away.back
        away.back = True
        return step()


def recorded(rows: list[Any]) -> list[Any]:
    outcome = record.record_group(rows)
    outcome.require_all()
    return outcome.done


@pytest.mark.full
@pytest.mark.fault("the store goes away at any operation of collect, validate or record", ends="retried", keeps="the result, recorded once")
def test_a_store_that_is_away_at_any_operation_costs_a_retry_and_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(CONFIG))
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    monkeypatch.setattr(quality, "check", accepted)
    for operation in range(1, 100):
        campaign = f"away-{operation:02}"
        (spec,) = plan_trials.plan_trials("local-1core", TRIAL_GROUPS["training"], RunRequest(campaign, "a test", repeats=1))
        trial = stores.planned_trial(stores.home(), spec)
        stores.home().put_trial(trial)
        stores.home().put_document(measured(trial))
        with monkeypatch.context() as patch:
            away = Away(operation, patch)
            tried_again(partial(collect.collect_trial, spec), away)
            (checked,) = tried_again(partial(validate.validate_group, "local-1core", "training", [spec]), away)
            (done,) = tried_again(partial(recorded, [checked]), away)
        assert done["recorded"] in (["inserted"], ["unchanged"])
        with open_archive() as archive:
            assert [(t.attempt, t.status) for t in archive.trials(campaign)] == [(1, "valid")]
        if not away.failed:
            break
    assert operation > 8, "the store was to go away at each operation"
    with open_archive() as archive:
        assert archive.verify() == []
