"""GPU utilisation is shown beside what was achieved, and withheld where that is missing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.data.result_documents import document, inference_metrics, inference_workload, provider, training_metrics, trial
from tests.fakes.trials import PLANNED_AT

from plumbline.metrics.formatting import join_words
from plumbline.presentation.charts.trial import replica_chart
from plumbline.presentation.trials import gpu_usages, is_gpu_utilisation, phase_parts
from plumbline.results import Curve, Event, LaunchRecord, Point, ReplicaCount, ResultDocument, Telemetry, metric_row
from plumbline.results.launch_record import SCALED, STEP_DOWN, STEP_UP


def sampled(phase: str = "steady", gpus: int = 2, **means: float) -> tuple[Telemetry, ...]:
    units = {"utilization": "ratio", "power": "W", "temperature": "°C"}
    return tuple(
        Telemetry(phase=phase, signal=f"gpu{gpu}_{name}", unit=units[name], n=30, mean=mean + gpu / 100, min=mean, max=mean + 1)  # type: ignore[arg-type]
        for gpu in range(gpus)
        for name, mean in means.items()
    )


def trained(*telemetry: Telemetry, gone: tuple[str, ...] = (), **more: Any) -> ResultDocument:
    metrics = [each for each in training_metrics() if each.metric not in gone]
    return document(metrics=metrics, telemetry=telemetry, **more)


def test_beside_arithmetic_and_power() -> None:
    (found,) = gpu_usages(trained(*sampled(utilization=0.9, power=500.0)))
    assert (found.phase, found.gpus, found.why) == ("steady", 2, "")
    assert found.utilisation.value == pytest.approx(0.905)
    assert found.flops.value == 1e9 and found.flops.beside.startswith("30 % ")
    assert found.power.value == pytest.approx(1000.01)  # both GPUs together
    assert (found.bandwidth.text, found.missing) == ("not measured", ("memory bandwidth",))


def test_energy_counters_go_before_samples_of_power() -> None:
    metrics = [*training_metrics(), metric_row("gpu_power", 900.0, 30, statistic="mean")]
    (found,) = gpu_usages(document(metrics=metrics, telemetry=sampled(utilization=0.9, power=500.0)))
    assert (found.power.value, found.power.text) == (900.0, "900 W")


def test_beside_the_bandwidth_of_decoding() -> None:
    model = {
        "architecture": "llama",
        "layers": 2,
        "width": 64,
        "heads": 4,
        "kv_heads": 2,
        "feed_forward": 128,
        "vocabulary": 256,
        "context": 64,
    }
    place = provider(accelerator={"kind": "nvidia", "count": 2}, launcher={"kind": "local", "cpus": [0, 1]})
    workload = inference_workload(model=model, server={"backend": "vllm"}, needs={"accelerator": "nvidia", "count": 2})
    metrics = [*inference_metrics(), metric_row("model_bandwidth_utilization", 0.4, 30)]
    (found,) = gpu_usages(
        document(trial("inference", where=place, workload=workload), metrics=metrics, telemetry=sampled(utilization=0.97, power=600.0))
    )
    # Two GPUs of a probed 10 GB/s each, 40 % of them.
    assert found.bandwidth.value == pytest.approx(8e9)
    assert found.bandwidth.text.startswith("8.00 GB/s ") and found.bandwidth.beside.startswith("40 % ")
    assert found.utilisation.text == "98 %" and found.missing == ("achieved FLOP/s",)


@pytest.mark.parametrize(
    ("means", "gone", "missing", "named"),
    [
        ({"utilization": 0.9}, (), ("memory bandwidth", "power"), True),
        ({"utilization": 0.9, "power": 500.0}, ("model_flops",), ("achieved FLOP/s", "memory bandwidth"), True),
        ({"utilization": 0.9}, ("model_flops",), ("achieved FLOP/s", "memory bandwidth", "power"), True),
        ({"power": 500.0}, (), ("memory bandwidth",), False),
    ],
)
def test_alone_it_is_withheld(means: dict[str, float], gone: tuple[str, ...], missing: tuple[str, ...], named: bool) -> None:
    (found,) = gpu_usages(trained(*sampled(**means), gone=gone))
    assert found.utilisation.value is None and found.utilisation.text == "–"
    assert found.missing == missing and found.why
    assert (join_words(missing) in found.why) is named


def test_power_of_one_gpu_is_not_the_power_of_two() -> None:
    telemetry = (*sampled(gpus=2, utilization=0.9), *sampled(gpus=1, power=500.0))
    (found,) = gpu_usages(trained(*telemetry))
    assert found.power.value is None and "power" in found.missing


def test_what_the_server_tells_of_the_same_gpus_is_not_counted_twice() -> None:
    told = Telemetry(phase="steady", signal="server_gpu0_utilization", unit="ratio", n=30, mean=0.1, min=0.0, max=0.2)
    (both,) = gpu_usages(trained(*sampled(gpus=1, utilization=0.9, power=500.0), told))
    (alone,) = gpu_usages(trained(*sampled(gpus=1, power=500.0), told))
    assert (both.utilisation.value, alone.utilisation.value) == (0.9, 0.1)


def test_what_the_phase_did_not_measure_is_not_borrowed_from_another() -> None:
    warm, steady = gpu_usages(trained(*sampled("warmup", utilization=0.9, power=500.0), *sampled(utilization=0.9, power=500.0)))
    assert (warm.phase, steady.phase) == ("warmup", "steady")
    assert warm.utilisation.value is None and steady.utilisation.value is not None


def test_without_a_gpu_there_is_no_row() -> None:
    assert gpu_usages(document()) == ()
    overhead = Telemetry(phase="steady", signal="gpu_watch_overhead", unit="ratio", n=3, mean=0.01, min=0.0, max=0.02)
    assert gpu_usages(trained(overhead)) == ()


def test_what_counts_as_utilisation() -> None:
    assert (
        is_gpu_utilisation("gpu0_utilization") and is_gpu_utilisation("gpu15_utilization") and is_gpu_utilisation("server_gpu0_utilization")
    )
    assert not is_gpu_utilisation("gpu0_power") and not is_gpu_utilisation("server_host_cpu_utilization")


def test_steps_of_the_load_are_a_table_with_the_replicas_that_the_launcher_saw() -> None:
    points = (Point(at=0.5, value=0, n=80), Point(at=1000, value=None, n=80))
    curve = Curve(phase="scale_out", along="offered_rate", metric="time_to_scale_out", statistic="max", unit="s", points=points)
    moments = {STEP_UP: 10.0, STEP_DOWN: 100.0, SCALED: 200.0}
    timeline = tuple(Event(name=name, utc=PLANNED_AT + timedelta(seconds=at), monotonic_s=at) for name, at in moments.items())
    found = document(
        trial("inference"), metrics=[metric_row("time_to_scale_out", 0, 1, phase="scale_out")], curves=(curve,), timeline=timeline
    )
    counts = tuple(ReplicaCount(at=PLANNED_AT.timestamp() + at, ready=n, wanted=n) for at, n in ((0, 1), (40, 3), (160, 1)))
    launched = found.with_launch(LaunchRecord(launcher="kubernetes", events=(), replicas=counts))
    drawn = replica_chart(launched)
    assert drawn is not None and replica_chart(found) is None
    assert [(trace["name"], trace["x"], trace["y"]) for trace in drawn.data] == [
        (of, [-10, 30, 150], [1, 3, 1]) for of in ("ready", "wanted")
    ]
    (part,) = phase_parts(launched)
    assert part.curves is not None and part.curves.heads == ("offered rate", "0.5", "1,000")
    assert part.curves.lines == (("time to scale out", "max", ("0 s", "–")),)
    assert [(line.name, line.value) for line in part.metrics][1:] == [("time to scale in", "60.0 s"), ("idle replica time", "2.00 min")]
