"""The steps of a benchmark run, without Airflow and without a harness."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.fakes.trials import CONFIG
from tests.unit.workflows.test_record import measured

from plumbline.archive import Archive
from plumbline.declarations import Provider, Trial, installation_paths
from plumbline.launch import stores
from plumbline.launch.failures import EXCEPTIONS, Interrupted
from plumbline.launch.launcher import OnProgress
from plumbline.launch.plan import PlanError, RunRequest
from plumbline.launch.stores import next_attempt
from plumbline.results import CheckLine, FailureClass, InvalidResult, LaunchRecord, Reason, ResultDocument, ResultStore, Validity
from plumbline.workflows import collect, plan_trials, record, run, sweep, validate
from plumbline.workflows.plan import TRIAL_GROUPS
from plumbline.workflows.run import stopped_by_sigterm

ASKED = RunRequest("2026-11", "a test", repeats=2)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(CONFIG))
    yield tmp_path


def store() -> ResultStore:
    return ResultStore(installation_paths().results_url)


def test_plan_stores_every_specification_and_hands_over_ids_only() -> None:
    specs = plan_trials.plan_trials("local-1core", TRIAL_GROUPS["training"], ASKED)
    assert [s["title"] for s in specs] == ["gpt-tiny-cpu 02:00 r1", "gpt-tiny-cpu 02:00 r2"]
    for spec in specs:
        assert set(spec) == {"campaign_id", "trial_id", "title"}
        assert stores.planned_trial(store(), spec).trial_id == spec["trial_id"]
        assert store().attempts(spec["campaign_id"], spec["trial_id"]) == [], "an attempt is the launcher's to begin"


def test_more_trials_than_airflow_maps_are_refused_before_anything_is_stored() -> None:
    with pytest.raises(PlanError, match=r"local-1core.*core\.max_map_length"):
        plan_trials.plan_trials("local-1core", TRIAL_GROUPS["training"], ASKED, most=1)
    assert not list((installation_paths().home / "results").rglob("planned.json"))
    assert len(plan_trials.plan_trials("local-1core", TRIAL_GROUPS["training"], ASKED, most=2)) == 2


def test_planning_again_keeps_what_was_planned() -> None:
    first = plan_trials.plan_trials("local-1core", TRIAL_GROUPS["training"], ASKED)
    before = [stores.planned_trial(store(), spec) for spec in first]
    assert plan_trials.plan_trials("local-1core", TRIAL_GROUPS["training"], RunRequest("2026-11", "another reason", repeats=2)) == first
    assert [stores.planned_trial(store(), spec) for spec in first] == before


def test_a_provider_that_was_mended_holds_from_the_next_attempt_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    (spec, _) = plan_trials.plan_trials("local-1core", TRIAL_GROUPS["training"], ASKED)
    before = stores.planned_trial(store(), spec)
    store().put_trial(before)
    config = Path(shutil.copytree(CONFIG, tmp_path / "changed"))
    file = config / "providers" / "local-1core.yaml"
    file.write_text(file.read_text().replace("timeout: 10min", "timeout: 77s"))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(config))
    plan_trials.plan_trials("local-1core", TRIAL_GROUPS["training"], ASKED)
    after = stores.planned_trial(store(), spec)
    assert (before.provider.launcher.timeout, after.provider.launcher.timeout) == (600.0, 77.0)
    assert after.planned_at == before.planned_at
    assert stores.next_attempt(after, store()).attempt == 2
    assert store().trial(store().folder(before)) == before, "what an attempt was given stays as it was"


def test_a_campaign_never_holds_two_specifications_of_one_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    plan_trials.plan_trials("local-1core", TRIAL_GROUPS["training"], ASKED)
    config = Path(shutil.copytree(CONFIG, tmp_path / "changed"))
    file = config / "workloads" / "training" / "gpt-tiny-cpu.yaml"
    file.write_text(file.read_text().replace("precision: fp32", "precision: bf16"))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(config))
    with pytest.raises(PlanError, match=r"2026-11 .*gpt-tiny-cpu"):
        plan_trials.plan_trials("local-1core", TRIAL_GROUPS["training"], ASKED)
    assert len(plan_trials.plan_trials("local-1core", TRIAL_GROUPS["training"], RunRequest("2026-12", "a test"))) == 2


def test_what_never_ran_is_recorded_as_missing() -> None:
    from plumbline.archive import open_archive

    specs = plan_trials.plan_trials("local-1core", TRIAL_GROUPS["training"], ASKED)
    for checked in validate.validate_group("local-1core", "training", specs):
        assert [v["action"] for v in checked["verdicts"]] == ["accept"]
        assert record.record_group([checked]).done[0]["recorded"] == ["inserted"]
        assert record.record_group([checked]).done[0]["recorded"] == ["unchanged"], "a task that is cleared writes nothing twice"
    with open_archive() as archive:
        assert [(t.status, t.reasons[0].code) for t in archive.trials("2026-11")] == [("missing", "never_launched")] * 2


@pytest.mark.full
def test_a_trial_whose_collect_failed_is_left_out_and_comes_home_later() -> None:
    from plumbline.archive import open_archive
    from plumbline.workflows.collect import collect_campaign

    specs = plan_trials.plan_trials("local-1core", TRIAL_GROUPS["training"], ASKED)
    trials = [stores.planned_trial(store(), spec) for spec in specs]
    store().put_trial(trials[0])  # launched, and never collected
    (checked,) = validate.validate_group("local-1core", "training", specs)
    assert checked["trial_id"] == trials[1].trial_id
    record.record_group([checked]).require_all()
    store().put_document(measured(trials[0]))
    with open_archive() as archive:
        assert [(t.trial_id, t.status) for t in archive.trials("2026-11")] == [(trials[1].trial_id, "missing")]
        first = {one.trial_id: one for one in collect_campaign(archive, "2026-11")}
        assert first[trials[0].trial_id].recorded == ("inserted",)
        again = {one.trial_id: one for one in collect_campaign(archive, "2026-11")}
        assert again[trials[0].trial_id].recorded == ("unchanged",)
        with pytest.raises(LookupError, match="2027-01"):
            collect_campaign(archive, "2027-01")


def test_a_result_replaces_the_row_that_says_missing() -> None:
    from plumbline.archive import open_archive
    from plumbline.workflows.collect import collect_campaign

    (spec, other) = plan_trials.plan_trials("local-1core", TRIAL_GROUPS["training"], ASKED)
    record.record_group(validate.validate_group("local-1core", "training", [spec, other])).require_all()
    same, later = (stores.planned_trial(store(), each) for each in (spec, other))
    store().put_trial(same)  # the attempt that was recorded as missing
    store().put_document(measured(same))
    later = later.model_copy(update={"attempt": 2})  # a launch after that
    store().put_trial(later)
    store().put_document(measured(later))
    with open_archive() as archive:
        done = {one.trial_id: one.recorded for one in collect_campaign(archive, "2026-11")}
        assert done[same.trial_id] == ("corrected",)
        assert done[later.trial_id][-1] == "corrected"
        counted = [(t.trial_id, t.attempt, t.status) for t in archive.trials("2026-11") if not t.corrected]
        assert sorted(counted) == sorted([(same.trial_id, 2, "valid"), (later.trial_id, 2, "valid")])
        before = len(archive.trials("2026-11"))
        assert not {"corrected", "inserted"} & {said for one in collect_campaign(archive, "2026-11") for said in one.recorded}
        assert len(archive.trials("2026-11")) == before
        assert archive.verify(evidence=True) == []


class LoadedMachine:
    """A launcher whose first `spoilt` attempts meet other load."""

    def __init__(self, spoilt: int) -> None:
        self.spoilt, self.attempts, self.checks = spoilt, 0, 0

    line: ClassVar = {"check": "load_client", "status": "pass", "reason": "as expected"}

    def launch(self, trial: Trial, store: ResultStore, on_progress: OnProgress | None) -> LaunchRecord:
        self.attempts += 1
        reasons = (Reason(code="contended_cpu", detail="others used 63% of core 0 in steady"),) if self.attempts <= self.spoilt else ()
        validity = Validity(status="invalid" if reasons else "valid", reasons=reasons)
        self.checks += trial.selfcheck
        found = {name: value for name, value in measured(next_attempt(trial, store)) if name not in ("checksum", "validity", "selfcheck")}
        store.put_trial(found["trial"])
        lines = (CheckLine(**self.line),) if trial.selfcheck else ()
        store.put_document(ResultDocument.sealed(**found, validity=validity, selfcheck=lines))
        return LaunchRecord(launcher="local", events=(), exit_code=0)


@pytest.mark.parametrize(("spoilt", "attempts"), [(0, 1), (1, 2), (2, 2)])
def test_a_trial_that_other_load_spoilt_is_repeated_once(monkeypatch: pytest.MonkeyPatch, spoilt: int, attempts: int) -> None:
    (spec, *_) = plan_trials.plan_trials("local-1core", TRIAL_GROUPS["training"], ASKED)
    machine = LoadedMachine(spoilt)
    monkeypatch.setattr(run, "launcher_for", lambda provider: machine)
    run.run_trial(spec)
    assert len(store().attempts(spec["campaign_id"], spec["trial_id"])) == machine.attempts == attempts


@pytest.mark.fault("Airflow's API goes away after a trial was measured", ends="the retry launches nothing", keeps="the measurement, once")
def test_a_retry_launches_nothing_once_its_trial_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that could not push its result, or whose end was not heard of, starts again from its beginning."""
    (spec, *_) = plan_trials.plan_trials("local-1core", TRIAL_GROUPS["training"], ASKED)
    machine = LoadedMachine(0)
    monkeypatch.setattr(run, "launcher_for", lambda provider: machine)
    row = run.run_trial(spec, "run-1 0")
    assert run.run_trial(spec, "run-1 0") == row and machine.attempts == 1
    run.run_trial(spec, "run-1 1")
    assert machine.attempts == 2, "a person cleared the task"
    run.run_trial(spec, "run-1 1")
    assert machine.attempts == 2, "and its retry is none of the person's"
    run.run_trial(spec, "run-2 0")
    run.run_trial(spec)
    assert machine.attempts == 4, "another run of the DAG, and a command, ask for the trial themselves"


def test_a_cleared_task_whose_first_try_launched_nothing_measures_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    (spec, *_) = plan_trials.plan_trials("local-1core", TRIAL_GROUPS["training"], ASKED)
    machine = LoadedMachine(0)
    monkeypatch.setattr(run, "launcher_for", lambda provider: machine)
    run.run_trial(spec, "run-1 0")

    def away(provider: Provider) -> LoadedMachine:
        raise ConnectionRefusedError(111, "Connection refused")

    with monkeypatch.context() as patch, pytest.raises(ConnectionRefusedError):
        patch.setattr(run, "launcher_for", away)
        run.run_trial(spec, "run-1 1")
    run.run_trial(spec, "run-1 1")
    assert machine.attempts == 2


@pytest.mark.parametrize(("failure", "launches"), [("out_of_memory", 1), ("quota_exceeded", 2)])
def test_a_retry_of_a_failure_launches_what_time_may_mend(monkeypatch: pytest.MonkeyPatch, failure: FailureClass, launches: int) -> None:
    (spec, *_) = plan_trials.plan_trials("local-1core", TRIAL_GROUPS["training"], ASKED)

    class Fails(LoadedMachine):
        def launch(self, trial: Trial, store: ResultStore, on_progress: OnProgress | None) -> LaunchRecord:
            self.attempts += 1
            trial = next_attempt(trial, store)
            store.put_trial(trial)
            record = LaunchRecord(launcher="local", events=(), failure_class=failure, failure_detail="as declared")
            store.put_launch(trial, record)
            return record

    machine = Fails(0)
    monkeypatch.setattr(run, "launcher_for", lambda provider: machine)
    for _ in range(2):
        with pytest.raises(EXCEPTIONS[failure], match="as declared"):
            run.run_trial(spec, "run-1 0")
    assert machine.attempts == launches


@pytest.mark.parametrize("noted", [b"", b"[]", b'{"request": "run-1 0"}', b'{"request": "run-1 0", "after": 7}', b"\xff\x00"])
def test_a_damaged_note_of_a_request_costs_another_launch_at_most(monkeypatch: pytest.MonkeyPatch, noted: bytes) -> None:
    (spec, *_) = plan_trials.plan_trials("local-1core", TRIAL_GROUPS["training"], ASKED)
    machine = LoadedMachine(0)
    monkeypatch.setattr(run, "launcher_for", lambda provider: machine)
    run.run_trial(spec, "run-1 0")
    store().put(f"{spec['campaign_id']}/{spec['trial_id']}/request.json", noted)
    run.run_trial(spec, "run-1 0")
    run.run_trial(spec, "run-1 0")
    assert machine.attempts == 2


@pytest.mark.parametrize(("status", "checks"), [("pass", 1), ("fail", 4)])
def test_the_instrument_is_checked_once_on_this_machine_unless_a_line_failed(
    monkeypatch: pytest.MonkeyPatch, status: str, checks: int
) -> None:
    machine = LoadedMachine(0)
    machine.line = {**machine.line, "status": status}
    monkeypatch.setattr(run, "launcher_for", lambda provider: machine)
    lanes = [(provider, lane) for provider in ("local-1core", "local-2core") for lane in ("training", "inference")]
    for spec in [spec for provider, lane in lanes for spec in plan_trials.plan_trials(provider, TRIAL_GROUPS[lane], ASKED)]:
        run.run_trial(spec)
    assert (machine.attempts, machine.checks) == (8, checks)


def test_sigterm_lets_a_task_clean_up() -> None:
    cleaned = []
    with pytest.raises(Interrupted), stopped_by_sigterm():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            cleaned.append(True)
    assert cleaned == [True]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_sigterm_in_a_callback_of_an_event_loop_is_not_lost() -> None:
    async def waiting() -> None:
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGTERM)
        await asyncio.sleep(60)

    with pytest.raises(Interrupted), stopped_by_sigterm():
        asyncio.run(waiting())


def test_only_clusters_are_swept() -> None:
    assert sweep.cluster_providers() == []
    assert sweep.sweep_cluster("local-1core") == []


@pytest.mark.fault("one trial of a lane cannot be collected", ends="failed, the others go on", keeps="the results of the others")
def test_a_lane_is_collected_although_one_of_its_trials_cannot_be(caplog: pytest.LogCaptureFixture) -> None:
    never_launched, good = plan_trials.plan_trials("local-1core", TRIAL_GROUPS["training"], ASKED)
    trial = stores.planned_trial(store(), good)
    store().put_trial(trial)
    with pytest.raises(InvalidResult, match="has no attempt"):
        collect.collect_group([never_launched, good])
    assert never_launched["trial_id"] in caplog.text and good["trial_id"] not in caplog.text
    assert store().collected(store().folder(trial)).validity.status == "failed"
    store().put_document(measured(trial))
    collect.collect_group([good])
    assert store().collected(store().folder(trial)).validity.status == "valid", "a failed trial is looked at again: its result came late"
    store().remove(f"{store().folder(trial)}/result.json")
    collect.collect_group([good])
    assert store().collected(store().folder(trial)).validity.status == "valid", "what is home is not collected again"


@pytest.mark.fault("the store is away when a trial's task ends", ends="collected by the lane", keeps="the result, measured once")
def test_a_trial_that_its_task_cannot_collect_is_left_to_its_lane(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (spec,) = plan_trials.plan_trials("local-1core", TRIAL_GROUPS["training"], RunRequest("2026-11", "a test", repeats=1))
    trial = stores.planned_trial(store(), spec)
    store().put_trial(trial)
    store().put_document(measured(trial))
    with monkeypatch.context() as patch:
        patch.setattr(ResultStore, "put_collected", lambda *_: (_ for _ in ()).throw(ConnectionError("the store is away")))
        collect.collect_or_leave(spec)
        assert "is not collected yet: the store is away" in caplog.text
        patch.setattr(ResultStore, "put_collected", lambda *_: (_ for _ in ()).throw(Interrupted("the task was stopped")))
        with pytest.raises(Interrupted):
            collect.collect_or_leave(spec)
    collect.collect_group([spec])
    assert store().collected(store().folder(trial)).validity.status == "valid"


@pytest.mark.fault("one trial of a lane cannot be recorded", ends="failed, the others go on", keeps="each result, recorded once")
def test_a_lane_is_recorded_although_one_of_its_trials_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    specs = plan_trials.plan_trials("local-1core", TRIAL_GROUPS["training"], RunRequest("2026-11", "a test", repeats=3))
    checked = validate.validate_group("local-1core", "training", specs)
    away = {specs[0]["trial_id"]: LookupError("a fault"), specs[1]["trial_id"]: ConnectionError("the store is away")}
    works = record.record_attempt

    def record_attempt(archive: Archive, home: ResultStore, folder: str, *given: Any) -> Any:
        if (error := away.get(folder.split("/")[1])) is not None:
            raise error
        return works(archive, home, folder, *given)

    monkeypatch.setattr(record, "record_attempt", record_attempt)
    outcome = record.record_group(checked)
    assert [row["trial_id"] for row in outcome.done] == [specs[2]["trial_id"]]
    with pytest.raises(ConnectionError):  # not the other: a retry mends this one
        outcome.require_all()
    away.clear()
    again = record.record_group(checked)
    again.require_all()
    assert [row["recorded"] for row in again.done] == [["inserted"], ["inserted"], ["unchanged"]]
