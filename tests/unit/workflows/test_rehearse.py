"""Rehearsals: past months of simulated providers, by the steps that the DAGs' tasks call."""

import json
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.data.result_documents import VALIDITY, provider, training_workload

from plumbline.archive import open_archive
from plumbline.declarations import Declarations, Thresholds
from plumbline.launch import stores
from plumbline.launch.plan import PlanError, RunRequest
from plumbline.workflows.rehearse import RehearsedCampaign, months_of, rehearse_months, simulated, trials_in

NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


def declared(*, enabled: bool = False, **fields: Any) -> Declarations:
    place = provider("sim", enabled=enabled, launcher={"kind": "simulated", **fields})
    rules = {"confidence": "95%", "false_discovery_rate": "5%", "bootstrap_trials": 2}
    thresholds = Thresholds.model_validate_json(json.dumps({"validity": VALIDITY.model_dump(mode="json"), "drift": rules}))
    workload = training_workload(repeats={"per_slot": 2, "slots": ["02:00", "14:00"]})
    return Declarations({"sim": place, "lab": provider("lab")}, {workload.name: workload}, {}, thresholds)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    for name in ("PLUMBLINE_ARCHIVE_URL", "PLUMBLINE_RESULTS_URL", "PLUMBLINE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_months_are_counted_over_the_turn_of_the_year() -> None:
    assert [f"{month:%Y-%m-%d}" for month in months_of("2025-11..2026-02", NOW)] == ["2025-11-01", "2025-12-01", "2026-01-01", "2026-02-01"]
    assert [f"{month:%Y-%m}" for month in months_of("2026-11", NOW)] == ["2026-11"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("November", "range of months"), ("2026-05..", "range of months") , ("2026-13", "range of months"), ("2026-05..2026-04", "ends before it begins"), ("2026-12", "has not begun yet")],
)  # fmt: skip
def test_months_that_are_none(text: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        months_of(text, NOW)


def test_only_simulated_providers_are_rehearsed_also_disabled_ones() -> None:
    assert [p.name for p in simulated(declared(), ()).enabled_providers()] == ["sim"]
    with pytest.raises(PlanError, match=r'"lab".*: sim'):
        simulated(declared(), ["lab"])
    with pytest.raises(PlanError, match="no simulated provider"):
        simulated(replace(declared(), providers={}), ())


def test_trials_are_planned_at_their_slots_and_not_in_a_silence() -> None:
    (month,) = months_of("2026-05", NOW)
    place = simulated(declared(drift=[{"kind": "silence", "since": "2026-06"}]), ())
    trials = trials_in(place, place.providers["sim"], month, RunRequest("2026-05", "test"))
    assert [(t.slot, f"{t.planned_at:%d %H:%M}") for t in trials] == [("02:00", "01 02:00")] * 2 + [("14:00", "01 14:00")] * 2
    assert trials_in(place, place.providers["sim"], month.replace(month=6), RunRequest("2026-06", "test")) == []


def test_a_campaign_goes_all_the_way_into_the_archive_once(home: Path) -> None:
    told: list[RehearsedCampaign] = []
    place = simulated(declared(failures={"out_of_memory": "20%"}), ())
    for _ in range(2):  # the second time finds everything
        (done,) = rehearse_months(place, months_of("2026-05", NOW), told.append)
        assert done.trials == 4 and sum(done.statuses.values()) == 4
    with open_archive() as archive:
        trials = archive.trials("2026-05")
        (series,) = archive.series("sim")
        assert len(trials) == 4 and series.source == "simulated"
    assert told[0] == told[1]


@pytest.mark.fault("a rehearsal is killed before a launch ended", ends="the next one launches it", keeps="the trials that have ended")
@pytest.mark.parametrize("announced", [False, True])
def test_a_launch_that_was_killed_is_launched_by_the_next_rehearsal(home: Path, announced: bool) -> None:
    place, (month,) = simulated(declared(), ()), months_of("2026-05", NOW)
    (first, *_) = trials_in(place, place.providers["sim"], month, RunRequest("2026-05", "test"))
    store = stores.home()
    folder = Path(store.url.removeprefix("file://")) / store.folder(first)
    folder.mkdir(parents=True)
    if announced:
        store.put_trial(first)
    (done,) = rehearse_months(place, (month,), lambda one: None)
    assert done.trials == 4
    with open_archive() as archive:
        usable = [t for t in archive.trials("2026-05") if t.usable]
        assert len({t.trial_id for t in usable}) == len(usable) == 4


def test_a_failure_that_is_worth_it_is_tried_again_and_each_try_is_an_attempt(home: Path) -> None:
    place = simulated(declared(failures={"interrupted": "100%"}), ())
    (done,) = rehearse_months(place, months_of("2026-05", NOW), lambda one: None)
    assert done.statuses == {"failed": 4}
    with open_archive() as archive:
        assert sorted({trial.attempt for trial in archive.trials("2026-05")}) == [1, 2, 3]


def test_a_rehearsal_of_nothing_says_so(home: Path) -> None:
    place = simulated(declared(drift=[{"kind": "silence", "since": "2026-01"}]), ())
    with pytest.raises(PlanError, match="sim from 2026-05"):
        rehearse_months(place, months_of("2026-05", NOW), lambda one: None)
