"""`python -m plumbline.harness.selfcheck.torch_checks cpu|cuda ARCHITECTURE…`: the checks that need PyTorch, printed as one line of JSON."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.harness.gpu_meters import Meters, open_meters
from plumbline.harness.selfcheck import ARCHITECTURES
from plumbline.harness.training.dataset.preparation import prepare_inputs
from plumbline.harness.training.learners import build_learner
from plumbline.harness.training.plan import undisturbed_spec
from plumbline.kinds.arithmetic.flops import flops_per_step
from plumbline.results import CheckLine, CheckName

_FLOP_TOLERANCE = 0.001
_SEQUENCE, _SAMPLES = 16, 2
_TEXT: dict[str, Any] = {"layers": 2, "width": 64, "heads": 4, "vocabulary": 128, "context": 32}
_MODELS: dict[str, tuple[dict[str, Any], str]] = {
    "gpt": (_TEXT, "language_model"),
    "llama": (_TEXT | {"kv_heads": 2, "feed_forward": 96}, "language_model"),
    "bert": (_TEXT | {"feed_forward": 96}, "contrastive"),
    "vit": ({"layers": 2, "width": 64, "heads": 4, "feed_forward": 96, "image": 16, "patch": 4, "classes": 7}, "classification"),
}
"""Architecture → dimensions, and the task that trains it."""

FlopCounter = Callable[[TrainingWorkload], float | None]


def flop_lines(folder: Path, architectures: Collection[str] = ARCHITECTURES, count: FlopCounter = flops_per_step) -> list[CheckLine]:
    """A line for each architecture. `count`: floating-point operations of an optimizer step."""
    torch.set_num_threads(1)
    return [
        _flop_line(architecture, *_MODELS[architecture], folder, count) for architecture in ARCHITECTURES if architecture in architectures
    ]


def _flop_line(architecture: str, shape: dict[str, Any], task: str, folder: Path, count: FlopCounter) -> CheckLine:
    workload = _workload(architecture, shape, task)
    own = count(workload)
    if own is None:
        return CheckLine.not_applicable("counted_flops", "the harness does not count this architecture", of=architecture)
    learner = build_learner(undisturbed_spec(workload, prepare_inputs(workload, folder), folder, device="cpu"), 0, 1)
    samples = learner.prepared(learner.model, learner.batch(0))
    # torch counts a fused attention by its own rule; of the plain one it sees each product.
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        learner.loss(learner.model, samples).backward()  # type: ignore[no-untyped-call]
    outside, what = _flops_outside_model(shape, task)
    expected = float(counter.get_total_flops()) - outside
    reason = f"FLOPs of a step of a small {architecture}, expected by torch's FlopCounterMode{what}"
    return CheckLine.compared("counted_flops", own, expected, _FLOP_TOLERANCE * expected, "FLOP", reason, of=architecture)


def _flops_outside_model(shape: dict[str, Any], task: str) -> tuple[float, str]:
    """Operations that torch counts beyond the model: (FLOPs of a step, in words)."""
    if task == "language_model":
        pairs = (_SEQUENCE - 1) * _SEQUENCE
        return 3 * _SAMPLES * 2.0 * shape["layers"] * shape["width"] * pairs, " less the keys behind the causal mask"
    if task == "contrastive":
        return 3 * 2.0 * _SAMPLES * _SAMPLES * shape["width"], " less the similarity between the texts"
    return 0.0, ""


def _workload(architecture: str, shape: dict[str, Any], task: str) -> TrainingWorkload:
    images = task == "classification"
    declared = {
        "kind": "training",
        "name": "counted",
        "version": 1,
        "needs": {"accelerator": "cpu"},
        "model": {"architecture": architecture, **shape},
        "task": {"kind": task},
        "data": {"source": "images", "images": 64} if images else {"source": "synthetic", "tokens": 4096},
        "batch": {"micro": _SAMPLES} if images else {"micro": _SAMPLES, "sequence": _SEQUENCE},
        "precision": "fp32",
        "optimizer": {"name": "sgd", "learning_rate": 0.1},
        "steps": {"discard": 1, "measure": 5},
        "checkpoint": {"every": 5},
        "repeats": {"per_slot": 1, "slots": ["02:00"]},
    }
    return TrainingWorkload.model_validate_json(json.dumps(declared))


_SPIN_S = 1.0
_SPIN_TOLERANCE = 0.05
"""The clock is read every few milliseconds and may change between two readings."""
_WARM_S, _DRAWN_S = 2.0, 4.0
"""Power sensors of data-centre GPUs report a mean over the last second, which must be steady before a comparison."""
_ENERGY_TOLERANCE = 0.10
_READ_EVERY_S = 0.02
_SIDE = 4096

Spin = Callable[[int, Callable[[], None]], float]
"""Keep the device busy for so many cycles, calling the second argument meanwhile; returns the seconds by its events."""


def event_timer(spin: Spin | None = None, meters: Meters | None = None) -> CheckLine:
    """CUDA's events over a kernel of a known number of cycles, at the driver's reported clock."""
    if torch.version.hip is not None and spin is None:
        return CheckLine.not_applicable(
            "event_timer", "ROCm has no kernel whose length is counted in the multiprocessors' cycles", of="gpu"
        )
    opened = meters or open_meters()
    if opened is None:
        return CheckLine.not_applicable("event_timer", "no driver library reports the GPU's clock", of="gpu")
    try:
        return _event_timer(spin or _spin, opened)
    finally:
        opened.close()


def _event_timer(spin: Spin, meters: Meters) -> CheckLine:
    clocks: list[float] = []

    def read() -> None:
        if "sm_clock" in (reading := meters.read(0)):
            clocks.append(reading["sm_clock"] * 1e6)

    # The clock rises with the first work: the one of a short spin sizes the one that counts.
    spin(100_000_000, read)
    if not clocks:
        return CheckLine.not_applicable("event_timer", "the driver does not report the GPU's clock", of="gpu")
    cycles = int(clocks[-1] * _SPIN_S)
    clocks.clear()
    measured = spin(cycles, read)
    if not clocks:
        return CheckLine.failed("event_timer", "the GPU's clock was not readable while the kernel ran", of="gpu")
    expected = cycles / (sum(clocks) / len(clocks))
    reason = f"CUDA events over a kernel of {cycles:,} cycles, expected by the mean clock of {len(clocks)} readings"
    return CheckLine.compared("event_timer", measured, expected, _SPIN_TOLERANCE * expected, "s", reason, of="gpu")


def _spin(cycles: int, meanwhile: Callable[[], None]) -> float:
    begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    begun.record()
    torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]
    ended.record()
    while not ended.query():  # type: ignore[no-untyped-call]
        meanwhile()
        time.sleep(_READ_EVERY_S)
    return float(begun.elapsed_time(ended)) / 1e3


def energy_counter(
    load: Callable[[], None] | None = None, meters: Meters | None = None, warm_s: float = _WARM_S, s: float = _DRAWN_S
) -> CheckLine:
    """The driver's counter over seconds of steady matrix products, against the integral of its reported power."""
    opened = meters or open_meters()
    if opened is None:
        return CheckLine.not_applicable("energy_counter", "no driver library reports the GPU's power")
    try:
        if opened.joules(0) is None or "power" not in opened.read(0):
            return CheckLine.not_applicable("energy_counter", "the GPU does not report both energy and power")
        work = load or _matmul_load()
        _sample_while_busy(work, opened, warm_s)
        first = opened.joules(0)
        samples = _sample_while_busy(work, opened, s)
        last = opened.joules(0)
    finally:
        opened.close()
    if first is None or last is None or len(samples) < 2:
        return CheckLine.failed("energy_counter", "the GPU's counter of energy or its power stopped answering")
    expected = integrate_power(samples)
    reason = f"the driver's counter of energy, expected by the integral of {len(samples)} samples of its power"
    return CheckLine.compared("energy_counter", last - first, expected, _ENERGY_TOLERANCE * expected, "J", reason)


def integrate_power(samples: Sequence[tuple[float, float]]) -> float:
    """Joules under (seconds, watts), by trapezoids."""
    return sum((t2 - t1) * (w1 + w2) / 2 for (t1, w1), (t2, w2) in pairwise(samples))


def _sample_while_busy(work: Callable[[], None], meters: Meters, seconds: float) -> list[tuple[float, float]]:
    samples, until = list[tuple[float, float]](), time.monotonic() + seconds
    while True:
        now, watts = time.monotonic(), meters.read(0).get("power")
        if watts is not None:  # a single reading may be none
            samples.append((now, watts))
        if now >= until:
            return samples
        work()


def _matmul_load() -> Callable[[], None]:
    one = torch.randn(_SIDE, _SIDE, device="cuda", dtype=torch.bfloat16)

    def work() -> None:
        for _ in range(8):
            torch.mm(one, one)
        torch.cuda.synchronize()

    return work


def main(device: str, *architectures: str) -> int:
    with tempfile.TemporaryDirectory(prefix="plumbline-selfcheck-") as folder:
        lines = _or_failed("counted_flops", lambda: flop_lines(Path(folder), architectures))
    if device == "cuda":
        lines += _or_failed("event_timer", lambda: [event_timer()]) + _or_failed("energy_counter", lambda: [energy_counter()])
    else:
        lines.append(CheckLine.not_applicable("energy_counter", "the harness counts no energy on a CPU"))
    sys.stdout.write(json.dumps([line.model_dump(mode="json") for line in lines]) + "\n")
    return 0


def _or_failed(check: CheckName, lines: Callable[[], list[CheckLine]]) -> list[CheckLine]:
    try:
        return lines()
    except Exception as error:  # noqa: BLE001 - whatever it is, the line says so and the others go on
        return [CheckLine.failed(check, f"{type(error).__name__}: {error}")]


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
