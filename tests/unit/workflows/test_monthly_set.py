"""An enabled provider of GPUs measures the standard set by itself: schedule, change, money, and a month in which nothing ran."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date, datetime, timezone
from pathlib import Path

import pytest
import yaml
from airflow.sdk import AssetOrTimeSchedule
from pydantic import ValidationError
from tests.fakes.simulated_campaigns import months
from tests.fakes.trials import CONFIG, planned

from plumbline.airflow.schedules import provider_changed, schedule_of
from plumbline.archive import Archive, open_archive
from plumbline.declarations import Declarations, InferenceWorkload, Provider, load
from plumbline.declarations.compatibility import GIB, scratch_needed
from plumbline.declarations.workloads.evaluation import Quality
from plumbline.launch import monthly_estimate
from plumbline.launch.monthly_estimate import estimate_month, measurement_gaps
from plumbline.launch.plan import RunRequest, plan
from plumbline.launch.simulated.launcher import simulate
from plumbline.workflows.plan import MONTHLY_REASON
from plumbline.workflows.rehearse import trials_in
from plumbline.workflows.review import check_missing_data, review_campaign

SHIPPED = load(CONFIG)
TODAY = date(2026, 11, 22)
STANDARD = {"chat-8b", "embedding-gpu", "pretrain-1b-gpu", "pretrain-8b-8gpu"}
NODES = sorted(name for name, p in SHIPPED.providers.items() if p.accelerator.kind == "nvidia" and p.launcher.kind == "kubernetes")


def enabled(name: str = "example-coreweave-h100", count: int = 8) -> tuple[Declarations, Provider]:
    shipped = SHIPPED.providers[name]
    accelerator = shipped.accelerator.model_copy(update={"count": count})
    provider = shipped.model_copy(update={"enabled": True, "accelerator": accelerator})
    return replace(SHIPPED, providers={name: provider}), provider


@pytest.mark.parametrize("name", NODES)
def test_every_example_of_eight_gpus_measures_the_set_in_at_most_4_node_hours(name: str) -> None:
    here, provider = enabled(name)
    month = estimate_month(here, provider, TODAY)
    assert {each.workload for each in month.scheduled} == STANDARD
    assert {each.kind for each in month.scheduled} == {"training", "inference"}
    decided = {
        w for team in SHIPPED.teams.values() for kind in ("training", "inference") for p in team.preferences(kind) for w in p.workloads
    }
    assert all(len(each.slots) >= 3 for each in month.scheduled), "several times of day"
    pairs = {each.workload: each.per_slot >= 2 for each in month.scheduled}
    assert all(pairs[name] for name in pairs.keys() & decided), "with pairs to learn noise from where a team decides"
    assert 2 < month.node_hours <= 4
    price = provider.price_on(TODAY)
    assert price is not None and month.use.usd == pytest.approx(month.node_hours * price.price)


def test_where_gpus_are_sold_one_by_one_a_trial_is_paid_by_the_gpus_that_it_holds() -> None:
    here, provider = enabled()
    by_gpu = provider.model_copy(update={"sold_by": "gpu"})
    whole, shared = (estimate_month(here, each, TODAY) for each in (provider, by_gpu))
    filling = {"chat-8b", "pretrain-8b-8gpu"}
    held = sum(each.node_hours * (1.0 if each.workload in filling else 0.125) for each in whole.scheduled)
    assert whole.use.usd is not None and shared.use.usd == pytest.approx(whole.use.usd * held / whole.node_hours)
    assert shared.use.share == pytest.approx(shared.use.usd) and whole.use.share == pytest.approx(shared.use.usd), (
        "the share is one for both"
    )
    assert shared.node_hours == whole.node_hours


def test_the_estimate_includes_the_loads_that_verify_the_last_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    here, provider = enabled()
    workload = here.workloads["pretrain-1b-gpu"]
    whole = monthly_estimate.estimate_trial_s(workload, provider)
    monkeypatch.setattr("plumbline.kinds.training.VERIFIED_LOADS", 0)
    loads_s = whole - monthly_estimate.estimate_trial_s(workload, provider)
    assert loads_s == pytest.approx(3 * 12 * workload.model.matmul_parameters / 2e9)  # type: ignore[union-attr]


def test_a_trial_that_its_time_limit_would_stop_is_warned_of() -> None:
    here, provider = enabled()

    def warned(timeout: float) -> list[str]:
        launcher = provider.launcher.model_copy(update={"timeout": timeout})
        limited = provider.model_copy(update={"launcher": launcher})
        warnings = measurement_gaps(replace(here, providers={limited.name: limited}))
        return [name for name in sorted(STANDARD) if any(w.startswith(f"{provider.name} stops {name} before its end") for w in warnings)]

    assert warned(14400.0) == []
    takes = monthly_estimate.estimate_trial_s(here.workloads["pretrain-8b-8gpu"], provider)
    assert warned(takes - 1) == ["pretrain-8b-8gpu"]
    assert warned(60.0) == sorted(STANDARD)


@pytest.mark.parametrize(
    ("gpus", "whole"), [(1, set()), (2, set()), (4, {"pretrain-8b-4gpu"}), (8, {"pretrain-8b-8gpu"})], ids=lambda value: str(value)
)
def test_the_job_of_all_gpus_is_the_one_of_the_node(gpus: int, whole: set[str]) -> None:
    here, provider = enabled(count=gpus)
    assert {w.name for w in here.monthly_workloads(provider)} == STANDARD - {"pretrain-8b-8gpu"} | whole


def amd(count: int = 8) -> tuple[Declarations, Provider]:
    """The CoreWeave example as if it rented AMD's GPUs."""
    _, nvidia = enabled(count=count)
    accelerator = nvidia.accelerator.model_copy(update={"kind": "amd", "product": "AMD-Instinct-MI300X"})
    launcher = nvidia.launcher.model_copy(update={"gpu_resource": "amd.com/gpu", "supplemental_groups": (44, 109)})
    provider = nvidia.model_copy(update={"accelerator": accelerator, "launcher": launcher})
    return replace(SHIPPED, providers={provider.name: provider}), provider


def test_a_node_of_amd_gpus_trains_the_same_set_and_says_which_engines_it_lacks() -> None:
    here, provider = amd()
    assert {w.name for w in here.monthly_workloads(provider)} == {"pretrain-1b-gpu", "pretrain-8b-8gpu"}
    assert {w.name for w in amd(4)[0].monthly_workloads(amd(4)[1])} == {"pretrain-1b-gpu", "pretrain-8b-4gpu"}
    assert 0 < estimate_month(here, provider, TODAY).node_hours <= 4
    lacking = {w.name: why for w, why in here.left_out(provider)}
    assert lacking.keys() == {"chat-8b", "embedding-gpu"}
    assert "vllm" in lacking["chat-8b"] and "onnxruntime" in lacking["embedding-gpu"]
    warnings = measurement_gaps(here)
    assert all([w for w in warnings if w.startswith(f"{provider.name} does not measure {name} monthly: ")] for name in lacking)
    nvidia, other = enabled()
    assert nvidia.left_out(other) == ()


def test_an_amd_provider_requests_amd_gpus() -> None:
    _, provider = amd()
    wrong = json.loads(provider.model_dump_json())
    wrong["launcher"]["gpu_resource"] = "nvidia.com/gpu"
    with pytest.raises(ValidationError, match=r"gpu_resource .*nvidia.com/gpu.* amd.com/gpu"):
        Provider.model_validate_json(json.dumps(wrong))


@pytest.mark.fault("a node's scratch disk is too small for a workload", ends="a warning with both numbers", keeps="the rest of the month")
def test_a_workload_that_a_small_scratch_disk_leaves_out_is_named_with_both_numbers() -> None:
    here, large = enabled()
    resources = large.launcher.resources.model_copy(update={"ephemeral_storage": 100 * GIB})
    provider = large.model_copy(update={"launcher": large.launcher.model_copy(update={"resources": resources})})
    here = replace(here, providers={provider.name: provider})
    assert {w.name for w in here.monthly_workloads(provider)} == STANDARD - {"pretrain-8b-8gpu"}
    ((workload, why),) = here.left_out(provider)
    needed = scratch_needed(workload)
    assert workload.name == "pretrain-8b-8gpu" and needed is not None
    assert f"{needed.total / GIB:.0f} GiB" in why and re.search(r"ephemeral_storage.*\b100 GiB", why)
    assert [w for w in measurement_gaps(here) if provider.name in w and workload.name in w and why in w]
    assert not [w for w in measurement_gaps(replace(here, providers={large.name: large})) if "does not measure" in w]


def test_a_provider_with_two_nodes_measures_the_network_between_them_too() -> None:
    here, provider = enabled()
    two = provider.model_copy(update={"nodes": 2})
    assert {w.name for w in here.monthly_workloads(two)} == STANDARD | {"collectives-2node"}
    (network,) = [each for each in estimate_month(here, two, TODAY).scheduled if each.workload == "collectives-2node"]
    assert network.nodes == 2 and network.trials == 3 and 120 < network.trial_s <= 330
    assert two.of_trial() == provider.of_trial(), "it changes no measurement"


def test_the_deleted_pod_is_measured_once_a_quarter_where_a_volume_outlives_it() -> None:
    here, provider = enabled()
    claimed = provider.model_copy(update={"launcher": provider.launcher.model_copy(update={"volume_claim": "checkpoints"})})
    here = replace(here, providers={claimed.name: claimed})
    found = {month: {w.name for w in here.monthly_workloads(claimed, month=month)} - STANDARD for month in range(1, 13)}
    assert {month for month, names in found.items() if names == {"pretrain-1b-gpu-pod-delete"}} == {1, 4, 7, 10}
    assert not set().union(*(names for month, names in found.items() if month not in (1, 4, 7, 10)))
    asked = RunRequest("2026-11", MONTHLY_REASON, slot="02:00")
    planned = {month: plan(here, claimed, asked, datetime(2026, month, 1, 2, tzinfo=timezone.utc), ("training",)) for month in (10, 11)}
    counts = {month: sum(t.workload.name == "pretrain-1b-gpu-pod-delete" for t in trials) for month, trials in planned.items()}
    assert counts == {10: 2, 11: 0}
    named = replace(asked, slot=None, workloads=("pretrain-1b-gpu-pod-delete",))
    assert len(plan(here, claimed, named, datetime(2026, 11, 5, tzinfo=timezone.utc), ("training",))) == 2, "on demand in any month"


def test_the_standard_inference_workloads_search_for_their_highest_rate() -> None:
    here, provider = enabled()
    served = here.monthly_workloads(provider, "inference")
    assert len(served) == 2
    assert all(isinstance(w, InferenceWorkload) and any(phase.name == "sweep" for phase in w.phases) for w in served)


def test_slots_or_a_change_start_the_set_with_no_further_declaration() -> None:
    here, provider = enabled()
    schedule = schedule_of(here, provider)
    assert isinstance(schedule, AssetOrTimeSchedule)
    assert schedule.asset_condition.objects == (provider_changed(provider.name),)
    crons = {each.expression for each in schedule.timetable.timetables}  # type: ignore[attr-defined]
    assert crons == {f"0 {hour} 1 * *" for hour in (2, 10, 18)}
    now = datetime(2026, 11, 22, 12, tzinfo=timezone.utc)
    changed = RunRequest("od-20261122-120000", "driver 550 → 570")
    assert {t.workload.name for t in plan(here, provider, changed, now)} == STANDARD


def test_what_a_provider_names_is_its_month_whether_on_demand_or_not() -> None:
    here, provider = enabled()
    own = provider.model_copy(update={"workloads": ("pretrain-1b-gpu", "chat-1b-gpu")})
    here = replace(here, providers={own.name: own})
    assert {w.name for w in here.monthly_workloads(own)} == {"pretrain-1b-gpu", "chat-1b-gpu"}
    trials = planned(here, RunRequest("2026-12", "monthly"), at=datetime(2026, 12, 1, tzinfo=timezone.utc))
    assert {t.workload.name for t in trials} == {"pretrain-1b-gpu", "chat-1b-gpu"}
    assert all(t.provider.workloads is None and not t.workload.needs.whole_node for t in trials), "an older harness knows neither"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation whose one enabled provider is a simulated node of eight H100."""
    config = tmp_path / "config"
    for folder in ("workloads/training", "workloads/inference", "providers"):
        (config / folder).mkdir(parents=True)
    (config / "thresholds.yaml").write_text((CONFIG / "thresholds.yaml").read_text())
    for file in (CONFIG / "workloads").glob("*/*.yaml"):
        if file.stem in STANDARD:
            (config / "workloads" / file.parent.name / file.name).write_text(file.read_text())
    node = yaml.safe_load((CONFIG / "providers" / "simulated-h100.yaml").read_text())
    node |= {"name": "sim", "enabled": True, "launcher": {"kind": "simulated", "seed": 7, "nodes": 6}}
    (config / "providers" / "sim.yaml").write_text(yaml.safe_dump(node))
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "var"))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(config))
    return tmp_path


def measure(archive: Archive, month: datetime) -> None:
    here = load()
    for trial in trials_in(here, here.providers["sim"], month, RunRequest(f"{month:%Y-%m}", MONTHLY_REASON)):
        archive.record(simulate(trial), uri="file:///nowhere")
    review_campaign(f"{month:%Y-%m}", "sim")


def test_a_month_in_which_nothing_ran_is_a_finding_until_the_next_that_has_results(home: Path) -> None:
    first, second, third = months(3)
    with open_archive() as archive:
        measure(archive, first)
        assert {t.workload for t in archive.trials("2024-01")} == STANDARD and len(archive.trials("2024-01")) == 21
        assert check_missing_data(first.replace(day=3)) == []
        assert check_missing_data(second.replace(day=1, hour=12)) == [], "the slots of the month are not over"
        (missing,) = check_missing_data(second.replace(day=3))
        assert check_missing_data(second.replace(day=4)) == [missing]
        (found,) = archive.findings_of("sim", "missing_data")
        assert (found.finding_id, found.state, found.severity, found.campaign_id) == (missing, "open", "page", "2024-01")
        assert found.detail["seen_in"] == ["2024-02"] and len(found.detail["series"]) == 4
        measure(archive, third)
        assert check_missing_data(third.replace(day=3)) == []
        (found,) = archive.findings_of("sim", "missing_data")
        assert found.state == "resolved"


def test_an_enabled_provider_that_was_never_measured_is_missed_once_until_it_is(home: Path) -> None:
    first, second, third = months(3)
    with open_archive() as archive:
        assert check_missing_data(first.replace(hour=20)) == []
        (missing,) = check_missing_data(first.replace(day=3))
        assert check_missing_data(second.replace(day=3)) == [missing]
        (found,) = archive.findings_of("sim", "missing_data")
        assert (found.state, found.severity, found.campaign_id, found.detail["since"]) == ("open", "warn", None, "2024-01-01")
        assert found.detail["seen_in"] == ["2024-01", "2024-02"]
        measure(archive, third)
        (found,) = archive.findings_of("sim", "missing_data")
        assert found.state == "resolved" and check_missing_data(third.replace(day=3)) == []


def test_a_provider_that_is_new_this_month_is_not_missed_and_a_new_version_hides_no_silence(home: Path) -> None:
    first, second, third = months(3)
    with open_archive() as archive:
        here = load()
        (one, *_) = trials_in(here, here.providers["sim"], first.replace(day=20), RunRequest("od-20240120-020000", "first measurement"))
        archive.record(simulate(one), uri="file:///nowhere")
        assert check_missing_data(first.replace(day=21)) == [], "enabled after the slots"
        measure(archive, second)
        for file in (home / "config" / "workloads").glob("*/*.yaml"):
            file.write_text(file.read_text().replace("\nversion: ", "\nversion: 9"))
        assert check_missing_data(second.replace(day=20)) == [], "measured this month, as it was declared then"
        check_missing_data(third.replace(day=3))
        (found,) = archive.findings_of("sim", "missing_data")
        assert (found.severity, found.campaign_id) == ("page", "2024-02")


def test_a_series_that_reported_and_is_left_out_now_is_missed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, _ = months(3)
    with open_archive() as archive:
        measure(archive, first)
        here = load()
        gone = here.workloads["chat-8b"]
        trials = [
            t
            for t in trials_in(here, here.providers["sim"], second, RunRequest(f"{second:%Y-%m}", MONTHLY_REASON))
            if t.workload.name != gone.name
        ]
        for trial in trials:
            archive.record(simulate(trial), uri="file:///nowhere")
        # A simulated provider lacks nothing: only what the declarations say of it is changed here.
        monthly, left_out = Declarations.monthly_workloads, Declarations.left_out
        monkeypatch.setattr(Declarations, "monthly_workloads", lambda *a, **k: tuple(w for w in monthly(*a, **k) if w.name != gone.name))
        assert check_missing_data(second.replace(day=3)) == [], "no longer expected, and nothing says why"
        monkeypatch.setattr(Declarations, "left_out", lambda self, p: ((gone, "no scratch disk"), *left_out(self, p)))
        (missing,) = check_missing_data(second.replace(day=3))
        (found,) = archive.findings_of("sim", "missing_data")
        assert (found.finding_id, found.severity) == (missing, "warn") and found.detail["workload"] == "chat-8b"


def test_a_quality_of_random_weights_is_named() -> None:
    here = load()
    assert not [w for w in measurement_gaps(here) if "random weights" in w]
    chat = here.workloads["chat-1b-gpu"]
    declared = chat.model_copy(update={"quality": Quality.model_validate({"agreement": "90%"})})
    (warning,) = [w for w in measurement_gaps(replace(here, workloads={**here.workloads, chat.name: declared})) if "random weights" in w]
    assert warning.startswith("chat-1b-gpu ")
