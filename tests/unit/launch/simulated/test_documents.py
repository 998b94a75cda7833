"""Simulated documents: the same each time, marked, whole by the quality checks, and moved by what is declared and by nothing else."""

import json
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from pydantic import ValidationError
from tests.data.result_documents import inference_workload, provider, trial

from plumbline.declarations import Provider, Trial, load
from plumbline.declarations.compatibility import incompatibility
from plumbline.kinds.simulation.draw import UnknownHardware
from plumbline.launch.plan import RunRequest, plan
from plumbline.launch.simulated.launcher import simulate
from plumbline.quality import check
from plumbline.results import ResultDocument

QUIET = {family: {"run": "0%"} for family in ("training", "inference", "start_up", "storage", "hardware")}
JUNE = datetime(2026, 6, 1, 2, tzinfo=timezone.utc)
STEP = {"since": "2026-06", "worse": "10%"}


def place(name: str = "sim", gpu: str | None = None, **fields: Any) -> Provider:
    has = {"kind": "nvidia", "product": gpu, "count": 8} if gpu else {"kind": "cpu", "count": 4}
    return provider(name, accelerator=has, launcher={"kind": "simulated", **fields})


def every_workload() -> list[Trial]:
    """One trial of each workload of the house that names no provider, on the first simulated place that fits."""
    eight = place("sim-gpu", "NVIDIA-H100-80GB-HBM3")
    four = eight.model_copy(update={"name": "sim-gpu-4", "accelerator": eight.accelerator.model_copy(update={"count": 4})})
    wanted = [w for w in load().workloads.values() if w.providers is None]
    fitting = {w.name: next(p for p in (place("sim-cpu"), eight, four) if incompatibility(w, p) is None) for w in wanted}
    found: list[Trial] = []
    for where in {p.name: p for p in fitting.values()}.values():
        names = tuple(name for name, p in fitting.items() if p.name == where.name)
        asked_for = RunRequest("2026-06", "test", workloads=names, slot="02:00", repeats=1)
        found += plan(load(), where, asked_for, JUNE)
    assert {t.workload.name for t in found} == {w.name for w in wanted}
    return found


def asked(where: Provider, kind: str = "training", **fields: Any) -> Trial:
    return trial(kind, where=where, planned_at=fields.pop("planned_at", JUNE), **fields)


def ratio(metric: str, *drift: dict[str, Any], kind: str = "training", phase: str = "steady", **fields: Any) -> float:
    """What an event makes of a metric: with it over without it."""
    with_it, without = (
        simulate(asked(place(noise=QUIET, drift=list(events)), kind, **fields)).value(metric, phase=phase) for events in (drift, ())
    )
    assert with_it and without
    return with_it / without


def test_the_same_trial_gives_the_same_document_and_another_seed_another() -> None:
    first = simulate(asked(place()))
    assert first.checksum == simulate(asked(place())).checksum
    assert first.value("step_time") != simulate(asked(place(seed=2))).value("step_time")
    assert first.value("step_time") != simulate(asked(place(), repeat=2)).value("step_time")


@pytest.mark.full
def test_every_workload_of_the_house_passes_the_quality_checks_as_it_is(tmp_path: Path) -> None:
    trials = every_workload()
    documents = [simulate(t) for t in trials]
    report = check(documents, trials, tmp_path, "simulated")
    assert not report.problems and {key: v.reasons for key, v in report.verdicts.items() if v.action != "accept"} == {}
    assert all(document.simulated for document in documents)
    unchecked = {d.trial.workload.name: [r.code for r in d.validity.reasons] for d in documents if d.validity.status != "valid"}
    assert {code for codes in unchecked.values() for code in codes} <= {"search_open"}


def test_a_document_of_a_simulated_provider_must_say_that_it_is_simulated() -> None:
    fields = {name: getattr(simulate(asked(place())), name) for name in ("trial", "harness_version", "environment", "validity", "metrics")}
    with pytest.raises(ValidationError, match=place().name):
        ResultDocument.sealed(**fields)
    assert ResultDocument.sealed(**fields, simulated=True).simulated


def test_a_step_moves_the_workload_and_what_follows_from_it() -> None:
    event = {"kind": "step", **STEP}
    assert ratio("step_time", event) == pytest.approx(1.1)
    assert ratio("tokens_per_second", event) == pytest.approx(1 / 1.1)
    assert ratio("inter_token_latency", event, kind="inference") == pytest.approx(1.1, rel=0.01)
    assert ratio("time_per_output_token", event, kind="inference") == pytest.approx(1.1, rel=0.01)
    assert ratio("matmul_tflops", event, phase="environment") == 1.0
    assert ratio("final_loss", event) == ratio("request_throughput", event, kind="inference") == 1.0


def test_a_step_of_named_metrics_moves_those_alone_and_probes_only_if_they_are_named() -> None:
    event = {"kind": "step", **STEP, "metrics": ["checkpoint_save_time"], "probes": ["disk_write_bandwidth"]}
    assert ratio("checkpoint_save_time", event) == pytest.approx(1.1)
    assert ratio("disk_write_bandwidth", event, phase="environment") == pytest.approx(1 / 1.1)
    assert ratio("step_time", event) == ratio("memory_bandwidth", event, phase="environment") == 1.0


def test_better_is_the_other_way_round_and_before_its_day_nothing_moves() -> None:
    assert ratio("step_time", {"kind": "step", "since": "2026-06", "better": "10%"}) == pytest.approx(1 / 1.1)
    assert ratio("step_time", {"kind": "step", "since": "2026-07", "worse": "10%"}) == 1.0
    assert ratio("step_time", {"kind": "spike", "since": "2026-05", "until": "2026-06", "worse": "10%"}) == 1.0


def test_a_driver_change_shows_in_the_environment_with_and_without_an_effect() -> None:
    event = {"kind": "driver_change", "since": "2026-06", "facts": {"driver.version": "570"}}
    before, after = (simulate(asked(place(environment={"driver.version": "550"}, drift=d))) for d in ([], [event]))
    assert before.environment and after.environment
    assert (before.environment.facts["driver.version"], after.environment.facts["driver.version"]) == ("550", "570")
    assert ratio("step_time", event) == 1.0
    assert ratio("step_time", {**event, "worse": "10%"}) == pytest.approx(1.1)


def test_a_bad_node_makes_two_kinds_of_trials() -> None:
    where = place(noise=QUIET, nodes=4, drift=[{"kind": "bimodal_node", **STEP}])
    seen = {round(simulate(asked(where, repeat=repeat)).value("step_time") or 0, 6) for repeat in range(1, 30)}
    assert len(seen) == 2 and max(seen) / min(seen) == pytest.approx(1.1, rel=1e-3)


def test_the_noise_is_about_what_is_declared() -> None:
    where = place(noise={**QUIET, "training": {"run": "2%"}})
    times = [simulate(asked(where, repeat=repeat)).value("step_time") or 0 for repeat in range(1, 201)]
    spread = median(abs(time - median(times)) for time in times) * 1.4826 / median(times)
    assert spread == pytest.approx(0.0209, rel=0.25)  # 2 % in common and 0.3 of it of its own


def test_an_evening_is_slower_than_a_morning() -> None:
    where = place(noise={**QUIET, "training": {"run": "0%", "time_of_day": "1%"}})
    morning, evening = (simulate(asked(where, slot=slot)).value("step_time") or 0 for slot in ("06:00", "18:00"))
    assert evening / morning == pytest.approx(1.0202, abs=1e-3)


def test_a_fresh_node_is_none_of_those_to_be_avoided() -> None:
    where = place("sim", nodes=3)
    chosen = asked(where).model_copy(update={"placement": "fresh_node", "avoid_nodes": ("sim-node-0", "sim-node-2")})
    environment = simulate(chosen).environment
    assert environment and environment.facts["host.node"] == "sim-node-1"


def test_an_unknown_accelerator_needs_declared_levels() -> None:
    with pytest.raises(UnknownHardware, match=r"XPU-9.*launcher\.levels.*matmul_tflops"):
        simulate(asked(place(gpu="XPU-9")))
    known = place(gpu="XPU-9", levels={"matmul_tflops": "400TFLOP/s", "memory_bandwidth": "2TB/s"}, noise=QUIET)
    assert simulate(asked(known)).value("matmul_tflops", phase="environment") == pytest.approx(400e12)


def test_a_measured_provider_is_not_simulated() -> None:
    with pytest.raises(ValueError, match=f"{trial().provider.name}.*simulated"):
        simulate(trial())


def test_requests_that_a_killed_server_lost_are_counted() -> None:
    phases = [
        {"name": "steady", "arrivals": {"poisson": {"rate": "6/s"}}, "duration": "10s"},
        {"name": "fault", "inject": "server_kill", "at": "5s", "arrivals": {"poisson": {"rate": "8/s"}}, "duration": "20s"},
    ]
    seen = simulate(asked(place(), "inference", workload=inference_workload(phases=json.loads(json.dumps(phases)))))
    assert (seen.value("requests_lost", phase="fault") or 0) > 0 and (seen.value("error_rate", phase="fault") or 0) > 0
    assert seen.value("error_rate") == 0.0 and (seen.value("time_to_recover", phase="fault") or 0) > 1


STEADY = {"name": "steady", "arrivals": {"poisson": {"rate": "6/s"}}, "duration": "10s"}


def stepped(*rates: str, **launcher: Any) -> ResultDocument:
    """A server of about 370/s; each rate lasts a minute, the first one comes back for two."""
    scaling = {"name": "scale_out", "rates": rates, "hold": "1min", "down": "2min"}
    workload = inference_workload(phases=json.loads(json.dumps([STEADY, scaling])))
    return simulate(asked(place(noise=QUIET, **launcher), "inference", workload=workload))


def test_a_server_that_scales_is_back_after_its_declared_delay() -> None:
    seen = stepped("10/s", "400/s", "1000/s", scaling={"delay": "45s", "idle": "30s"})
    assert (seen.validity.status, seen.value("time_to_scale_out", phase="scale_out")) == ("valid", 45)
    assert seen.value("slo_miss_ratio", phase="scale_out") == pytest.approx(45 / 60)
    assert seen.value("goodput_ratio", phase="scale_out") == pytest.approx(1 - 1400 * 45 / (1410 * 60 + 10 * 120))
    assert [(curve.metric, [point.at for point in curve.points]) for curve in seen.curves] == [
        (metric, [400, 1000]) for metric in ("time_to_scale_out", "slo_miss_ratio", "error_rate")
    ]


def test_a_server_that_scales_too_late_or_never_misses_every_request_above_its_capacity() -> None:
    for launcher in ({}, {"scaling": {"delay": "61s", "idle": "30s"}}):
        seen = stepped("10/s", "400/s", **launcher)
        assert [reason.code for reason in seen.validity.reasons] == ["no_scale_out"]
        assert (seen.value("time_to_scale_out", phase="scale_out"), seen.value("slo_miss_ratio", phase="scale_out")) == (None, 1)


def test_steps_within_the_capacity_take_no_time() -> None:
    assert stepped("10/s", "20/s").value("time_to_scale_out", phase="scale_out") == 0


@pytest.mark.parametrize(("gpu", "servers"), [("NVIDIA-H100-80GB-HBM3", 8.0), (None, 1.0)], ids=["8 GPUs", "4 cores"])
def test_servers_on_gpus_add_up_and_servers_on_cores_share_them(gpu: str | None, servers: float) -> None:
    where = place(gpu=gpu, noise=QUIET)
    crowd = {"users": 2000, "requests": 100_000}
    phases = [{"name": "steady", "arrivals": {"closed": crowd}, "duration": "60s"}]
    # Large enough that its weights, and not the overhead of a step, take the time.
    model = {"architecture": "gpt", "layers": 48, "width": 4096, "heads": 32, "vocabulary": 2048, "context": 64}

    def rate(**fields: Any) -> float:
        workload = inference_workload(needs={"accelerator": where.accelerator.kind}, phases=phases, model=model, **fields)
        found = simulate(asked(where, "inference", workload=workload)).value("request_throughput", "value")
        assert found
        return found

    assert rate(replicas="fill") / rate() == pytest.approx(servers, rel=0.2)


@pytest.mark.parametrize(
    ("changed", "said"),
    [({}, "none of worse, facts and counters"), ({"worse": "5%", "on_nodes": [8]}, "on_nodes 8 does not exist"), ({"worse": "5%", "on_nodes": []}, "on_nodes")],
)  # fmt: skip
def test_a_node_s_fault_names_nodes_that_exist_and_what_differs(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        place(drift=[{"kind": "node_fault", "since": "2026-01", "on_nodes": [1], **changed}])


def test_a_node_s_fault_is_seen_on_that_node_only() -> None:
    where = place(gpu="NVIDIA-H100-80GB-HBM3", noise=QUIET, drift=[
        {"kind": "node_fault", "since": "2026-01", "on_nodes": [1], "worse": "5%", "facts": {"gpu.0.pcie_width": 8}, "counters": {"row_remap_pending": 2}},
    ])  # fmt: skip
    good, bad = (simulate(asked(where).model_copy(update={"placement": "each_node", "on_nodes": (f"sim-node-{i}",)})) for i in (0, 1))
    assert (bad.value("step_time") or 0) / (good.value("step_time") or 1) == pytest.approx(1.05)
    assert [d.environment.facts.get("gpu.0.pcie_width") for d in (good, bad) if d.environment] == [None, 8]
    assert [{c.counter: c.after for c in d.gpu_health}["row_remap_pending"] for d in (good, bad)] == [0, 2]
    assert len(bad.gpu_serials) == 8 and not set(bad.gpu_serials) & set(good.gpu_serials)
