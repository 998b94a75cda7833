"""Planning is pure, ordered, hashed, and refuses what cannot be run in one clear sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.trials import PLANNED_AT, cluster_provider, declared, planned
from tests.golden import Golden

from plumbline.declarations import Declarations, InferenceWorkload, Provider, TrainingWorkload, criteria_hash, series_key, spec_hash
from plumbline.declarations.workloads.workload import Primary
from plumbline.harness.inference.load.schedule import schedule_of
from plumbline.launch.plan import PlanError, RunRequest, declared_slots, fitting_workload, plan, planned_trials
from plumbline.launch.registry import launcher_for
from plumbline.results import ResultStore

SHIPPED = declared()


def changed(model: Any, **values: Any) -> Any:
    """A declaration with other values, checked anew."""
    return type(model).model_validate_json(json.dumps({**json.loads(model.model_dump_json()), **values}))


def world(providers: list[Provider] | None = None, workloads: list[Any] | None = None) -> Declarations:
    return Declarations(
        {p.name: p for p in providers} if providers is not None else SHIPPED.providers,
        {w.name: w for w in workloads} if workloads is not None else SHIPPED.workloads,
        SHIPPED.teams,
        SHIPPED.thresholds,
    )


def ask(**values: Any) -> RunRequest:
    return RunRequest(**{"campaign_id": "2026-11", "reason": "monthly", **values})


def brief(declarations: Declarations, *providers: str, **values: Any) -> list[tuple[str, int, str, str]]:
    return [(t.slot, t.repeat, t.provider.name, t.workload.name) for t in planned(declarations, ask(**values), *providers)]


def test_everything_that_is_declared_and_enabled() -> None:
    assert brief(SHIPPED) == [
        ("02:00", repeat, provider, workload)
        for provider in ("local-1core", "local-2core")
        for workload in ("gpt-tiny-cpu", "chat-tiny-cpu")
        for repeat in (1, 2)
    ]


def test_the_same_arguments_give_the_same_trials() -> None:
    assert planned(SHIPPED, ask()) == planned(declared(), ask())


def test_ids_are_distinct_and_hashes_are_fixed() -> None:
    trials = planned(SHIPPED, ask())
    assert len({t.trial_id for t in trials}) == len(trials) == 8
    for trial in trials:
        assert trial.spec_hash == spec_hash(trial.workload)
        assert trial.criteria_hash == criteria_hash(trial.workload, SHIPPED.thresholds.validity)
        assert trial.series_key == series_key(trial.workload, trial.provider)
        assert type(trial).model_validate_json(trial.model_dump_json()) == trial
        if isinstance(trial.workload, InferenceWorkload):
            assert trial.schedule_hash == schedule_of(trial.workload).sha256
        else:
            assert trial.schedule_hash is None


def test_the_schedule_survives_the_way_to_the_harness() -> None:
    """A rate of 1/min is no round number of seconds; the harness reads it back from JSON and must draw the same arrivals."""
    chat = SHIPPED.workloads["chat-tiny-cpu"]
    phases = [{"name": "steady", "arrivals": {"poisson": {"rate": "7/min"}}, "duration": "20h"}]
    trial = planned(world(workloads=[changed(chat, phases=phases)]), ask())[0]
    received = type(trial).model_validate_json(trial.model_dump_json()).workload
    assert isinstance(received, InferenceWorkload)
    assert schedule_of(received).sha256 == trial.schedule_hash


def test_a_trial_does_not_carry_what_changes_nothing_that_is_measured() -> None:
    (chat,) = (w for w in SHIPPED.workloads.values() if w.name == "chat-tiny-cpu")
    told = chat.model_copy(update={"primary": Primary.model_validate("goodput")})
    place = SHIPPED.providers["local-2core"].model_copy(update={"manual_steps": ("unlock the door",)})
    asked = planned(world([place], [told]), ask())
    assert asked and asked == planned(world([SHIPPED.providers["local-2core"]], [chat]), ask())


def test_slots_the_request_the_provider_the_workload() -> None:
    gpt = SHIPPED.workloads["gpt-tiny-cpu"]
    one = SHIPPED.providers["local-1core"]
    often = changed(gpt, repeats={"per_slot": 1, "slots": ["18:00", "02:00"]})
    early = changed(one, slots=["04:00"])
    assert [t[0] for t in brief(world([one], [often]))] == ["02:00", "18:00"]
    assert [t[0] for t in brief(world([early], [often]))] == ["04:00"]
    assert [t[0] for t in brief(world([one], [often]), slot="18:00")] == ["18:00"]
    assert plan(world([early], [often]), early, ask(slot="11:30"), PLANNED_AT) == []
    assert declared_slots(early, often) == ("04:00",)
    assert declared_slots(one, often) == ("18:00", "02:00")


def test_repeats_of_the_request_replace_the_declared_ones() -> None:
    assert {t[1] for t in brief(SHIPPED, repeats=3)} == {1, 2, 3}
    gpt = changed(SHIPPED.workloads["gpt-tiny-cpu"], repeats={"per_slot": 1, "slots": ["02:00"]})
    both = world(workloads=[gpt, SHIPPED.workloads["chat-tiny-cpu"]])
    assert [t[3] for t in brief(both, "local-1core")] == ["gpt-tiny-cpu", "chat-tiny-cpu", "chat-tiny-cpu"]


def test_a_workload_on_demand_runs_only_when_named() -> None:
    rare = changed(SHIPPED.workloads["gpt-tiny-cpu"], name="rare", on_demand_only=True)
    both = world(workloads=[rare, SHIPPED.workloads["chat-tiny-cpu"]])
    assert {t[3] for t in brief(both)} == {"chat-tiny-cpu"}
    assert {t[3] for t in brief(both, workloads=("rare",))} == {"rare"}
    assert "nothing to run" in refusal(world(workloads=[rare]))


def test_a_named_workload_runs_where_it_fits() -> None:
    wide = changed(SHIPPED.workloads["gpt-tiny-cpu"], needs={"accelerator": "cpu", "count": 2})
    only = world(workloads=[wide])
    assert {t[2] for t in brief(only, workloads=("gpt-tiny-cpu",))} == {"local-2core"}
    with pytest.raises(PlanError, match=r'"gpt-tiny-cpu" .*"local-1core"'):
        plan(only, only.providers["local-1core"], ask(workloads=("gpt-tiny-cpu",)), PLANNED_AT)


def refusal(declarations: Declarations, *providers: str, **values: Any) -> str:
    with pytest.raises(PlanError) as raised:
        planned(declarations, ask(**values), *providers)
    return str(raised.value)


def test_a_request_that_cannot_be_run_names_the_value_and_what_was_expected(golden: Golden) -> None:
    requests: list[dict[str, Any]] = [
        {"workloads": ("gpt-huge",)},
        {"kinds": ("tuning",)},
        {"workloads": ("chat-tiny-cpu",), "kinds": ("training",)},
        {"slot": "now"},
        {"slot": "24:00"},
        {"repeats": 0},
        {"repeats": 51},
        {"campaign_id": "2026/11"},
        {"reason": "  "},
    ]
    refused = [refusal(SHIPPED, "mars"), refusal(SHIPPED, "example-eks-p5"), *(refusal(SHIPPED, **request) for request in requests)]
    golden("launch.refused_requests", "\n".join(refused))


def test_a_hosted_model_is_planned_for_workloads_whose_server_is_external() -> None:
    endpoint = {"kind": "endpoint", "url": "https://x/v1", "protocol": "openai", "model": "chat"}
    hosted = changed(SHIPPED.providers["local-1core"], name="hosted", launcher=endpoint)
    chat = SHIPPED.workloads["chat-tiny-cpu"]
    outside = changed(chat, name="chat-outside", server={"backend": "external", "client_placement": "other_region"})
    trials = planned(world([hosted], [chat, outside]), ask())
    assert {t.workload.name for t in trials} == {"chat-outside"}
    assert "/external/" in trials[0].series_key
    assert type(launcher_for(hosted)).__name__ == "EndpointClientLauncher"
    with pytest.raises(PlanError, match=r'"hosted".*server\.backend'):
        fitting_workload(world([hosted], [chat]), hosted, "chat-tiny-cpu")


def test_a_cluster_is_planned_for_and_left_to_airflow(tmp_path: Path) -> None:
    cluster = cluster_provider()
    trials = planned(world([cluster]), ask())
    assert {t.provider.name for t in trials} == {"cluster-a"}
    with pytest.raises(PlanError, match=cluster.dag_id):
        launcher_for(cluster).launch(trials[0], ResultStore(tmp_path.as_uri()))


def test_several_nodes_and_images_are_a_clusters_matter() -> None:
    gpt = SHIPPED.workloads["gpt-tiny-cpu"]
    gang = changed(gpt, parallelism={"nodes": 2})
    with pytest.raises(PlanError, match="2 nodes"):
        fitting_workload(world(workloads=[gang]), SHIPPED.providers["local-1core"], "gpt-tiny-cpu")
    two = cluster_provider().model_copy(update={"nodes": 2})
    assert planned(world([two], [gang]), ask())
    assert "nothing to run" in refusal(world([cluster_provider()], [gang]))
    only_inference = cluster_provider(images={"inference": "localhost/plumbline/cpu:test"})
    with pytest.raises(PlanError, match=r"launcher\.images\.training"):
        fitting_workload(world([only_inference], [gpt]), only_inference, "gpt-tiny-cpu")


def test_a_workload_that_fits_no_provider(golden: Golden) -> None:
    gpt = SHIPPED.workloads["gpt-tiny-cpu"]
    assert isinstance(gpt, TrainingWorkload)
    gpus = changed(gpt, needs={"accelerator": "nvidia", "count": 8})
    elsewhere = changed(gpt, providers=["local-2core"])
    misfits = [
        refusal(world(workloads=[gpus]), workloads=("gpt-tiny-cpu",)),
        refusal(world(workloads=[elsewhere]), "local-1core", workloads=("gpt-tiny-cpu",)),
    ]
    golden("launch.misfits", "\n".join(misfits))


def test_a_time_without_a_zone() -> None:
    with pytest.raises(PlanError, match="no time zone"):
        planned_trials(SHIPPED, ask(), planned_at=datetime(2026, 11, 1))  # noqa: DTZ001 - the mistake is the point


def test_a_seed_that_draws_no_arrival() -> None:
    phases = [{"name": "steady", "arrivals": {"poisson": {"rate": "1/s"}}, "duration": "1s"}]
    chat = SHIPPED.workloads["chat-tiny-cpu"]
    assert isinstance(chat, InferenceWorkload)
    requests = json.loads(chat.model_dump_json())["requests"]
    for seed in range(50):
        silent = changed(chat, phases=phases, requests={**requests, "seed": seed})
        try:
            schedule_of(silent)
        except ValueError:
            assert '"chat-tiny-cpu"' in refusal(world(workloads=[silent]))
            return
    pytest.fail("one seed in three draws nothing in a second at 1/s; none of fifty did")


def test_planning_is_light_enough_for_the_parse_of_a_dag() -> None:
    heavy = ["numpy", "torch", "pandas", "tritonclient", "airflow", "sqlalchemy", "great_expectations"]
    code = f"import sys, plumbline.launch.registry, plumbline.launch.failures; print([m for m in {heavy} if m in sys.modules])"
    include = Path(__file__).resolve().parents[3] / "include"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(include)})
    assert done.stdout.strip() == "[]"


def test_the_first_trial_on_each_measured_provider_checks_the_instrument() -> None:
    trials = planned(SHIPPED, ask())
    checked = [trial for trial in trials if trial.selfcheck]
    first = {(trial.provider.name, trial.workload.kind): trial for trial in reversed(trials)}
    assert checked and {trial.trial_id for trial in checked} == {t.trial_id for t in first.values() if not t.provider.simulated}
