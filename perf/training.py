"""The training loop against its peers, in one run: `make perf-training`, or `python perf/training.py [--quick] [--device cuda] [--out F.json]`.

loops       our step against a bare PyTorch loop's and Hugging Face's `Trainer`: same model, data, batch, optimizer, threads
telemetry   our step while the harness samples the machine, against one without
aa          ten trials of one workload: the scatter of steady step times, and false alarms of pairwise comparisons
trials      on a GPU: results of declared trials (utilization of the peak, checkpoints, restarts, probes), in bf16 and in fp8

Each loop is a separate process that waits during the other's block of steps. Blocks follow the order A B B A, so that slow changes of the machine
affect all. A block's figure is its median step time on the wall clock, from one step's end to the next. A ratio is the median over all A B B A of
the geometric mean of both ratios, with its 95 % interval. A bound is held or missed only if the whole interval is on one side of it. The
measurement ends by the clock (under 9 minutes on two cores). Exit status 1 if a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "include"))

from training_report import Figures, Ratio, markdown, written

from plumbline.declarations import Declarations, installation_paths, load
from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.harness.contention_monitor import ContentionMonitor
from plumbline.harness.environment.cpu import allotted_cores, usable_cores
from plumbline.harness.gpu_monitor import GpuPhaseMonitor
from plumbline.harness.training import plan
from plumbline.harness.training.analysis.records import median_interval
from plumbline.harness.training.dataset.preparation import prepare_inputs
from plumbline.harness.training.job.supervisor import MALLOC_SETTINGS, THREAD_BINDING
from plumbline.harness.training.worker_protocol import WorkerSpec

HERE = Path(__file__).resolve().parent
OURS, BARE, HUGGING_FACE = "plumbline", "bare", "hugging_face"
NEVER = 10**9
GPUS_EVERY_S = 0.1


@dataclass(frozen=True)
class Effort:
    """Seconds of a block; warm-up steps; maximum of A B B A; end of each part (minutes since the start)."""

    block_s: float
    warm: int
    quads: int
    loops: float
    telemetry: float
    aa: float
    trials: int


FULL, QUICK = Effort(1.0, 30, 20, 3.0, 4.5, 8.5, 10), Effort(0.3, 10, 6, 0.8, 1.2, 1.2, 0)


class Loop:
    """Context manager around a process that runs blocks of steps."""

    def __init__(self, name: str, spec: WorkerSpec, folder: Path) -> None:
        path = folder / f"{name}.json"
        replace(spec, log=str(folder / f"{name}.steps.jsonl")).write(path)
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "training_loops.py"), name, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **MALLOC_SETTINGS, **THREAD_BINDING, "HF_HUB_OFFLINE": "1"},
        )
        self.name = name

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def block(self, steps: int) -> float:
        """Median step time of a block in seconds; RuntimeError if the process ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the loop {self.name} ended with {self._process.wait()}")
        ends = json.loads(answer)
        return float(median(after - before for before, after in pairwise(ends)) / 1e9)


def quads(one: Callable[[], float], others: Sequence[Callable[[], float]], most: int, until: float) -> list[list[tuple[float, float]]]:
    """For each of `others` the pairs (one, other) of every A B B A finished in time (monotonic seconds), two after the other."""
    found: list[list[tuple[float, float]]] = [[] for _ in others]
    for _ in range(most):
        if time.monotonic() > until and found[0]:
            break
        before, forth = one(), [other() for other in others]
        back = [other() for other in reversed(others)][::-1]
        after = one()
        for pairs, first, second in zip(found, forth, back, strict=True):
            pairs += [(before, first), (after, second)]
    return found


def ratio(words: str, bound: float, pairs: Sequence[tuple[float, float]]) -> Ratio:
    """One over the other."""
    logs = [math.log(one / other) for one, other in pairs]
    each = [math.exp((first + second) / 2) for first, second in zip(logs[::2], logs[1::2], strict=True)]
    ours, theirs = (median(values) for values in zip(*pairs, strict=True))
    return Ratio(words, bound, median(each), median_interval(each), len(each), ours, theirs)


def of_loops(spec: WorkerSpec, folder: Path, effort: Effort, until: float) -> list[Ratio]:
    """Ours against both peers."""
    with Loop(OURS, spec, folder) as ours, Loop(BARE, spec, folder) as bare, Loop(HUGGING_FACE, spec, folder) as trainer:
        steps = warmed([ours, bare, trainer], effort)
        against_bare, against_trainer = quads(
            lambda: ours.block(steps), [lambda: bare.block(steps), lambda: trainer.block(steps)], effort.quads, until
        )
    return [
        ratio("our step over a bare PyTorch loop's", 1.01, against_bare),
        ratio("our step over Hugging Face Trainer's", 1.0, against_trainer),
    ]


def of_telemetry(spec: WorkerSpec, folder: Path, effort: Effort, until: float) -> Ratio:
    """Ours with telemetry against ours without."""
    cpus = usable_cores()

    def watched() -> float:
        with ContentionMonitor(cpus, allotted_cores(), gpus=GpuPhaseMonitor(GPUS_EVERY_S)) as watch, watch.phase("steady"):
            return ours.block(steps)

    with Loop(OURS, spec, folder) as ours:
        steps = warmed([ours], effort)
        (pairs,) = quads(watched, [lambda: ours.block(steps)], 2 * effort.quads, until)
    return ratio("our step with telemetry over one without", 1.005, pairs)


def warmed(loops: Sequence[Loop], effort: Effort) -> int:
    """Warm all up; returns the slowest one's number of steps in a block."""
    slowest = max([loop.block(effort.warm) for loop in loops])
    return max(5, min(round(effort.block_s / slowest), 400))


def orders(workload: TrainingWorkload, folder: Path, device: str) -> WorkerSpec:
    """Specification for all three loops: the workload with endless steps and without checkpoints."""
    spec = plan.undisturbed_spec(workload, prepare_inputs(workload, installation_paths().cache), folder, device=device)
    return replace(spec, threads=len(usable_cores()), until=NEVER, checkpoint_every=NEVER, checkpoint_mode="sync", closing=False)


def checked(declared: Declarations, name: str) -> TrainingWorkload:
    """The workload, if all three loops support it. Raises SystemExit otherwise."""
    workload = declared.workloads.get(name)
    if not isinstance(workload, TrainingWorkload):
        raise SystemExit(f"{name} is not a training workload; expected one of include/config/workloads/training")
    plain = workload.task.kind == "language_model" and workload.optimizer.name == "adamw" and workload.precision in ("fp32", "bf16")
    if not plain or workload.parallelism.world > 1 or workload.activation_checkpointing or workload.deterministic:
        raise SystemExit(f"{name}: the peers support only language models on one device, adamw, fp32 and bf16")
    return workload


def main() -> int:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a rough figure in about a minute; no trials")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--workload", help="what the loops train; default: gpt-tiny-cpu or pretrain-1b-gpu")
    parser.add_argument("--parts", help="comma-separated: loops, telemetry, aa, trials; default: all of the device")
    parser.add_argument("--out", type=Path, help="write the figures to this .json and the page beside it as .md")
    options = parser.parse_args()
    cuda, effort, began = options.device == "cuda", QUICK if options.quick else FULL, time.monotonic()
    parts = (options.parts or ("loops,telemetry,trials" if cuda else "loops,telemetry,aa")).split(",")
    if unknown := set(parts) - {"loops", "telemetry", "aa", "trials"}:
        parser.error(f"--parts {', '.join(sorted(unknown))}; expected any of loops, telemetry, aa, trials")
    declared = load()
    workload = checked(declared, options.workload or ("pretrain-1b-gpu" if cuda else "gpt-tiny-cpu"))
    figures = Figures(f"python perf/training.py {' '.join(sys.argv[1:])}".strip(), options.device, workload.name)
    with tempfile.TemporaryDirectory() as name:
        spec = orders(workload, Path(name), options.device)
        if "loops" in parts:
            print("loops: ours, bare, Hugging Face's", flush=True)
            figures.ratios += of_loops(spec, Path(name), effort, began + 60 * effort.loops)
        if "telemetry" in parts:
            print("telemetry: on and off", flush=True)
            figures.ratios.append(of_telemetry(spec, Path(name), effort, began + 60 * effort.telemetry))
    if "trials" in parts:
        from training_trials import on_this_gpu

        figures.trials = on_this_gpu(declared)
    if "aa" in parts and effort.trials:
        from training_trials import no_change

        figures.aa = no_change(declared, workload.name, effort.trials, began + 60 * effort.aa)
    figures.minutes = (time.monotonic() - began) / 60
    print(markdown(figures))
    if options.out is not None:
        written(figures, options.out)
    return 1 if figures.missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
