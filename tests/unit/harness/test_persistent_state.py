"""What outlives a pod: the folder on the volume, and what the pods before found."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.fakes.trials import a_trial, cluster_provider, local_provider
from tests.golden import Golden

from plumbline.harness.contention_monitor import MonitorSnapshot, ResumedContentionMonitor
from plumbline.harness.launcher_protocol import DELETIONS_VARIABLE, VOLUME_VARIABLE, Deletion, format_deletions
from plumbline.harness.measurement import TrialFailed, TrialJudgement
from plumbline.harness.persistent_state import (
    PersistentState,
    StartState,
    environment_changes,
    load_monitor,
    persistent_state_of,
    save_monitor,
)
from plumbline.results import Event, Reason, Telemetry, metric_row

FAULT = {"fault": {"inject": "pod_delete", "at_step": 50}}
BEFORE = Deletion(10.0, 11.5, late=True)


def test_only_a_trial_whose_pod_is_deleted_keeps_anything(tmp_path: Path) -> None:
    provider = cluster_provider(volume_claim="checkpoints")
    assert persistent_state_of(a_trial(provider=provider), {VOLUME_VARIABLE: str(tmp_path)}) is None
    trial = a_trial(provider=provider, declare=FAULT)
    kept = persistent_state_of(trial, {VOLUME_VARIABLE: str(tmp_path), DELETIONS_VARIABLE: format_deletions((BEFORE,))})
    assert kept is not None and kept.folder.parent == tmp_path and kept.deletions == (BEFORE,)
    again, other = (
        persistent_state_of(trial, {VOLUME_VARIABLE: str(tmp_path)}),
        persistent_state_of(trial.model_copy(update={"attempt": 2}), {VOLUME_VARIABLE: str(tmp_path)}),
    )
    assert again is not None and other is not None and again.folder == kept.folder != other.folder


def test_without_a_volume_the_trial_fails_and_says_what_is_missing() -> None:
    trial = a_trial(provider=cluster_provider(volume_claim="checkpoints"), declare=FAULT)
    for where, variables in ((trial, {}), (trial.model_copy(update={"provider": local_provider()}), {VOLUME_VARIABLE: "/kept"})):
        with pytest.raises(TrialFailed, match="volume_claim") as caught:
            persistent_state_of(where, variables)
        assert caught.value.failure_class == "bad_declaration"


def test_the_first_pod_begins_with_an_empty_folder_and_the_next_needs_one(tmp_path: Path) -> None:
    first, second = PersistentState(tmp_path / "trial-a", (), 60.0), PersistentState(tmp_path / "trial-a", (BEFORE,), 60.0)
    with pytest.raises(TrialFailed, match=r"^bad_declaration: .*launcher\.volume_claim"):
        second.open()
    first.open()
    first.put("state", {"a": 1})
    second.open()
    assert second.get("state") == {"a": 1}
    first.open()
    with pytest.raises(TrialFailed, match=r"^harness_error: .*state\.json"):
        first.get("state")
    first.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_volume_that_cannot_be_written_to_is_a_declaration_to_mend(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrialFailed, match=r"launcher\.volume_claim .*file") as caught:
        PersistentState(tmp_path / "file" / "trial-a", (), 60.0).open()
    assert caught.value.failure_class == "bad_declaration"


def seen(phase: str, n: int, mean: float) -> Telemetry:
    return Telemetry.model_validate({"phase": phase, "signal": "own_cpu", "unit": "ratio", "n": n, "mean": mean, "min": mean, "max": mean})


def test_what_the_first_pod_found_is_found_again(tmp_path: Path) -> None:
    kept = PersistentState(tmp_path / "trial-a", (), 60.0)
    kept.open()
    reason = Reason(code="contended_cpu", detail="others used 20 % of core 0 in steady")
    observed = MonitorSnapshot(
        (seen("steady", 4, 0.5),), (metric_row("gpu_power", 300.0, 4, phase="steady"),), (TrialJudgement("degraded", reason),)
    )
    probed, event = (
        metric_row("matmul_tflops", 1.5, 3, phase="environment"),
        Event.model_validate({"name": "environment_probed", "utc": "2026-11-21T03:00:00Z", "monotonic_s": 4000.0}),
    )
    StartState({"cpu.model": "one", "gpu.count": 0}, [probed], [event]).save(kept)
    save_monitor(kept, observed)
    begun, again = StartState.load(kept), load_monitor(kept)
    assert again == observed and (begun.facts, begun.probed) == ({"cpu.model": "one", "gpu.count": 0}, [probed])
    assert begun.events == [event.model_copy(update={"monotonic_s": None})], "the next machine has another clock"


def test_the_watch_of_the_last_pod_answers_for_all() -> None:
    judged = TrialJudgement("degraded", Reason(code="contended_cpu", detail="in the first pod"))
    earlier = MonitorSnapshot((seen("steady", 4, 0.5), seen("recovery", 1_000_000, 0.25)), (), (judged,))
    limits = a_trial().validity
    with ResumedContentionMonitor((0,), None, None, earlier) as watch:
        with watch.phase("recovery"):
            time.sleep(0.2)
        with watch.phase("environment"):
            time.sleep(0.2)
    found = {(each.phase, each.signal): each for each in watch.telemetry()}
    assert found["steady", "own_cpu"] == seen("steady", 4, 0.5)
    assert found["recovery", "own_cpu"].n > 1_000_000 and found["recovery", "own_cpu"].mean == pytest.approx(0.25, abs=0.01)
    assert watch.judgements(limits) == [judged], "steady state was the first pod's"
    assert all(
        each.reason.code != "contended_cpu" or "first pod" not in each.reason.detail for each in watch.judgements(limits, "environment")
    )


def test_another_environment_is_told_with_what_changed(golden: Golden) -> None:
    facts = {"cpu.model": "one", "gpu.count": 0}
    assert list(environment_changes(facts, dict(facts))) == []
    (found,) = environment_changes(facts, {"cpu.model": "two", "kernel": "6.1"})
    assert (found.level, found.reason.code) == ("degraded", "environment_changed")
    golden("harness.environment_changed", found.reason.detail)
