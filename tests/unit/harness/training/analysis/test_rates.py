"""The rates of a training by hand-made records: what stands beside what, and what does not stand at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.harness.training.analysis.performance import performance_rows
from plumbline.harness.training.analysis.records import TrainingRecords
from plumbline.kinds.arithmetic.flops import flops_per_step

Tiny = Callable[..., TrainingWorkload]
IMAGES: dict[str, Any] = {
    "model": {"architecture": "vit", "layers": 1, "width": 16, "heads": 2, "feed_forward": 32, "image": 16, "patch": 8, "classes": 4},
    "task": {"kind": "classification"},
    "data": {"source": "images", "images": 64},
    "batch": {"micro": 2, "accumulation": 2},
}


def values(workload: TrainingWorkload, records: TrainingRecords) -> dict[tuple[str, str, str], float | None]:
    found = performance_rows(workload, records.undisturbed(workload.steps))
    named = {(row.phase, row.metric, row.statistic): row.value for row in found}
    assert len(named) == len(found)
    return named


def test_the_steady_rate_stands_beside_the_whole_runs(tiny: Tiny, records: TrainingRecords) -> None:
    run = records.runs["run"]
    late = [replace(step, start_s=step.start_s + 1.2, end_s=step.end_s + 1.2) for step in run.steps[8:]]
    run.steps = [*run.steps[:8], *late]  # a checkpoint held training up for 1.2 s
    value = values(tiny(), records)
    assert value["steady", "tokens_per_second", "median"] == pytest.approx(640)
    assert value["steady", "effective_tokens_per_second", "value"] == pytest.approx(320), "12 steps of 64 tokens in 2.4 s"
    assert value["warmup", "warmup_time", "value"] == pytest.approx(0.2), "two steps of 0.1 s before the first steady one"


def test_the_rate_that_is_paid_holds_checkpoints_at_their_declared_interval(tiny: Tiny, records: TrainingRecords) -> None:
    """Steps of 64 tokens in 0.1 s, 0.3 s of checkpoint after every 3 of them in a window that shows one: 64 tokens in 0.1 + 0.3 / 3 s."""
    run = records.runs["run"]
    run.saves = [replace(save, blocking_s=0.3) for save in run.saves]
    every = tiny().checkpoint.every
    value = values(tiny(), records)
    assert value["steady", "effective_tokens_per_second", "mean"] == pytest.approx(64 / (0.1 + 0.3 / every))
    run.saves = [save for save in run.saves if save.closing]
    assert ("steady", "effective_tokens_per_second", "mean") not in values(tiny(), records), "without a checkpoint its cost is not known"


def test_of_several_devices_each_has_its_share(tiny: Tiny, records: TrainingRecords) -> None:
    workload = tiny(needs={"accelerator": "cpu", "count": 2}, parallelism={"processes": 2})
    value = values(workload, records)
    assert value["steady", "tokens_per_second", "median"] == pytest.approx(1280)
    assert value["steady", "tokens_per_second_per_device", "median"] == pytest.approx(640)


def test_devices_that_share_a_layer_see_one_batch(tiny: Tiny, records: TrainingRecords) -> None:
    llama = {
        "architecture": "llama",
        "layers": 1,
        "width": 64,
        "heads": 2,
        "kv_heads": 2,
        "feed_forward": 64,
        "vocabulary": 64,
        "context": 16,
    }
    workload = tiny(model=llama, needs={"accelerator": "cpu", "count": 2}, parallelism={"processes": 2, "tensor": 2})
    value = values(workload, records)
    assert value["steady", "tokens_per_second", "median"] == pytest.approx(640)
    assert value["steady", "tokens_per_second_per_device", "median"] == pytest.approx(320)


def test_images_are_samples_and_no_tokens(tiny: Tiny, records: TrainingRecords) -> None:
    value = values(tiny(**IMAGES), records)
    assert value["steady", "samples_per_second", "median"] == pytest.approx(40)
    assert value["steady", "samples_per_second_per_device", "median"] == pytest.approx(40)
    assert value["steady", "effective_samples_per_second", "value"] == pytest.approx(40)
    assert not [name for _, name, _ in value if "tokens" in name]


def test_both_peaks_are_stated_with_the_utilization_of_each(tiny: Tiny, records: TrainingRecords) -> None:
    workload, run = tiny(precision="bf16", needs={"accelerator": "nvidia"}), records.runs["run"]
    run.matmul_flops, run.facts = 790e12, {"torch.device_name": "NVIDIA H200"}
    each, value = flops_per_step(workload) or 0.0, values(workload, records)
    assert value["cooldown", "device_matmul_peak", "value"] == 790e12
    assert value["steady", "device_published_peak", "value"] == 989.4e12
    assert value["steady", "model_flops_utilization", "median"] == pytest.approx(each / 0.1 / 790e12)
    assert value["steady", "model_flops_utilization_of_published_peak", "median"] == pytest.approx(each / 0.1 / 989.4e12)
    full = flops_per_step(workload, full_attention=True) or 0.0
    assert full > each
    assert value["steady", "model_flops_full_attention", "median"] == pytest.approx(full / 0.1)
    assert value["steady", "model_flops_utilization_full_attention", "median"] == pytest.approx(full / 0.1 / 790e12)
    assert value["steady", "model_flops_utilization_of_published_peak_full_attention", "median"] == pytest.approx(full / 0.1 / 989.4e12)


def test_peak_memory_is_a_row_where_it_is_known(tiny: Tiny, records: TrainingRecords) -> None:
    assert not {name for _, name, _ in values(tiny(), records)} & {"training_peak_memory", "training_peak_reserved_memory"}
    records.runs["run"].peak_memory = {"used": 3_000_000, "reserved": 4_000_000}
    value = values(tiny(), records)
    assert value["steady", "training_peak_memory", "max"] == 3_000_000
    assert value["steady", "training_peak_reserved_memory", "max"] == 4_000_000


def test_the_mean_rate_is_all_the_work_over_all_the_time(tiny: Tiny, records: TrainingRecords) -> None:
    run = records.runs["run"]
    run.steps[-1] = replace(run.steps[-1], end_s=run.steps[-1].end_s + 1.0)
    value = values(tiny(), records)
    assert value["steady", "tokens_per_second", "median"] == pytest.approx(640)
    assert value["steady", "tokens_per_second", "mean"] == pytest.approx(64 * 10 / 2.0)


def test_a_peak_that_nobody_knows_is_absent(tiny: Tiny, records: TrainingRecords) -> None:
    records.runs["run"].matmul_flops = None
    names = {name for _, name, _ in values(tiny(), records)}
    assert "model_flops" in names
    assert not names & {
        "model_flops_utilization",
        "model_flops_utilization_of_published_peak",
        "device_matmul_peak",
        "device_published_peak",
    }


def test_a_model_without_declared_dimensions_has_no_arithmetic(tiny: Tiny, records: TrainingRecords) -> None:
    hub = {"architecture": "hub", "id": "an-org/a-model", "revision": "a" * 40}
    names = {name for _, name, _ in values(tiny(model=hub), records)}
    assert "tokens_per_second" in names
    assert not {name for name in names if name.startswith("model_flops")}


def test_generation_has_a_share_where_there_is_one(tiny: Tiny, records: TrainingRecords) -> None:
    assert ("steady", "generation_share", "value") not in values(tiny(), records)
    run = records.runs["run"]
    run.steps = [replace(step, stages={**step.stages, "generation": 0.025}) for step in run.steps]
    assert values(tiny(), records)["steady", "generation_share", "value"] == pytest.approx(0.25)


def test_the_loss_of_answers_is_what_their_reward_lacks(tiny: Tiny, records: TrainingRecords) -> None:
    assert ("steady", "mean_reward", "value") not in values(tiny(), records)
    run = records.runs["run"]
    run.steps = [replace(step, loss=0.7) for step in run.steps]
    answers = tiny(task={"kind": "reinforcement", "prompt": 8, "generate": 8, "group": 2})
    assert values(answers, records)["steady", "mean_reward", "value"] == pytest.approx(0.3)


def test_checkpoints_have_a_bandwidth_both_ways(tiny: Tiny, records: TrainingRecords) -> None:
    value = values(tiny(), records)
    assert value["steady", "checkpoint_save_bandwidth", "median"] == pytest.approx(1000 / 0.02)
    assert value["cooldown", "checkpoint_load_bandwidth", "value"] == pytest.approx(1000 / 0.02)
    records.runs["run"].saves, records.runs["run"].verified_loads_s = [], []
    assert not [name for _, name, _ in values(tiny(), records) if name.startswith("checkpoint")]


def test_stored_weights_take_time_to_load(tiny: Tiny, records: TrainingRecords) -> None:
    assert ("cold_start", "weights_load_time", "value") not in values(tiny(), records)
    records.runs["run"].add({"event": "weights_loaded", "ns": 0, "seconds": 0.4})
    assert values(tiny(), records)["cold_start", "weights_load_time", "value"] == 0.4


def test_a_run_that_never_became_steady_still_says_how_it_began(tiny: Tiny, records: TrainingRecords) -> None:
    records.runs["run"].steps = records.runs["run"].steps[:1]
    value = values(tiny(), records)
    assert ("cold_start", "time_to_first_step", "value") in value and ("steady", "effective_tokens_per_second", "value") in value
    assert ("steady", "step_time", "median") not in value and ("warmup", "warmup_time", "value") not in value
    records.runs["run"].steps = []
    assert values(tiny(), records) == {}


def test_compiling_and_skipped_steps_and_stragglers_have_rows_where_there_are_any(tiny: Tiny, records: TrainingRecords) -> None:
    run = records.runs["run"]
    told = {name for _, name, _ in values(tiny(), records)}
    assert not told & {"compile_time", "skipped_steps", "straggler_ratio", "straggler_share"}

    run.compiled_s, run.skipped = [1.5, 0.5], [0, 1]
    slow = [replace(step, end_s=step.start_s + 2 * step.step_s) for step in run.steps]
    run.by_rank = {0: run.steps, 1: slow}
    workload = tiny(precision="fp16", needs={"accelerator": "nvidia"})
    value = {name: value for (_, name, _), value in values(workload, records).items()}
    assert (value["compile_time"], value["skipped_steps"]) == (2.0, 2)
    assert (value["straggler_ratio"], value["straggler_share"]) == (pytest.approx(2 / 1.5), 1.0)
