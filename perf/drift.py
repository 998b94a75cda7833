"""`make perf-drift`: the detector for long series against apache-otava and bare KernelCPD, on the same series in the same run.

Each series is replayed point by point. An alarm is an index without an earlier alarm near it; it is right if it lies within the series' margin of a
change that has no alarm yet. Series come from drift_series.py, or with `--kit DIR` from an evaluation kit, whose `evaluate.py` runs with this
project's command and the kit's own `detectors:…`.
Exits with 1 and names each missed aim of our detector.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "include"))

import numpy as np
from drift_series import STABLE, Labelled, labelled

ROOT = Path(__file__).parents[1]
OTAVA = ROOT / ".perf" / "otava"
_PINNED = ("apache-otava==0.8.0", "numpy==2.2.0", "scipy", "ruptures")
_FIRST = 6
_LONG = 100_000
_NORMAL = 4000
"""Number of normal series without a change: determines the share of alarms to 0.15 percentage points."""

# Aims of our detector: lower bounds for ramps and F1, upper bounds for the others.
STABLE_ALARMING, RAMPS, NORMAL_ALARMING, LONG_SECONDS, LOOK_MS = 0.04, 0.6, 0.01, 1.0, 1.0
KIT_F1 = {"gpuinject": 0.88, "campaign": 0.78}

# Each answers one JSON line per JSON line, which is the kit's protocol.
_OTAVA = """
import json, sys
from otava.analysis import compute_change_points
for line in sys.stdin:
    print(json.dumps([int(c.index) for c in compute_change_points([float(v) for v in json.loads(line)["values"]])[0]]))
"""
_BARE = """
import json, math, sys
import numpy as np
from ruptures import KernelCPD
for line in sys.stdin:
    v = np.array(json.loads(line)["values"]); d = np.diff(v)
    s = 1.4826 * np.median(np.abs(d - np.median(d))) / math.sqrt(2) or 1.0
    fitted = KernelCPD(kernel="rbf", min_size=3).fit((v / s).reshape(-1, 1))
    print(json.dumps([int(b) for b in fitted.predict(pen=math.log(len(v)))[:-1]]))
"""


@dataclass(frozen=True)
class Detector:
    """`kit`: the detector's name in the kit, if it has one."""

    name: str
    command: list[str]
    kit: str | None = None

    def many(self, series: list[list[float]]) -> list[list[int]]:
        """The indices found in each series. Raises RuntimeError with the detector's output if it failed or answered too few series."""
        lines = "".join(json.dumps({"values": values}) + "\n" for values in series)
        done = subprocess.run(self.command, input=lines, capture_output=True, text=True, check=False, cwd=ROOT, env=_environment())
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode or len(answers) != len(series):
            raise RuntimeError(f"{self.name} ended with {done.returncode} after {len(answers)} of {len(series)}: {done.stderr[-600:]}")
        return answers


OURS = [sys.executable, "-m", "plumbline.cli", "drift", "detect", "--stdin"]


def _environment() -> dict[str, str]:
    include = str(ROOT / "include")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in (include, os.environ.get("PYTHONPATH", "")) if p)}


def detectors() -> list[Detector]:
    """Ours, apache-otava in a separate environment (installed on the first call), and bare KernelCPD."""
    python = str(OTAVA / "bin" / "python")
    if not (OTAVA / ".ready").exists():
        uv = str(Path(sys.executable).with_name("uv"))
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(OTAVA)], check=True)
        subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *_PINNED], check=True)
        (OTAVA / ".ready").touch()
    return [
        Detector("plumbline", OURS),
        Detector("apache-otava 0.8.0", [python, "-c", _OTAVA], "detectors:otava_default"),
        Detector("KernelCPD rbf, bare", [sys.executable, "-c", _BARE], "detectors:kcpd_rbf"),
    ]


def replayed(detector: Detector, series: list[Labelled]) -> dict[str, float]:
    """Precision, recall, F1, recall on ramps, median delay in points, and the share of stable series that ever alarm."""
    looks = [(i, seen) for i, s in enumerate(series) for seen in range(_FIRST, len(s.values) + 1)]
    alarms: list[list[tuple[int, int]]] = [[] for _ in series]
    for (i, seen), found in zip(looks, detector.many([series[i].values[:seen] for i, seen in looks]), strict=True):
        for index in found:
            if all(abs(index - known) > series[i].margin for known, _ in alarms[i]):
                alarms[i].append((index, seen))
    hits, delays, ramps = 0, [], 0
    for s, series_alarms in zip(series, alarms, strict=True):
        open_changes = list(s.changes)
        for index, seen in series_alarms:
            near = [c for c in open_changes if abs(c - index) <= s.margin and seen > c]
            if near:
                change = min(near, key=lambda c: abs(c - index))
                open_changes.remove(change)
                delays.append(seen - change)
        hits += len(s.changes) - len(open_changes)
        ramps += s.kind == "ramp" and not open_changes
    alarm_count, changes = sum(map(len, alarms)), sum(len(s.changes) for s in series)
    precision, recall = hits / max(1, alarm_count), hits / changes
    stable = [bool(series_alarms) for s, series_alarms in zip(series, alarms, strict=True) if s.kind in STABLE]
    return {
        "precision": precision,
        "recall": recall,
        "F1": 2 * precision * recall / max(1e-9, precision + recall),
        "ramps": ramps / sum(s.kind == "ramp" for s in series),
        "delay": float(np.median(delays)) if delays else float("nan"),
        "stable": float(np.mean(stable)),
    }


def by_kit(detector: Detector, kit: Path) -> dict[str, Any]:
    """Output of the kit's evaluate.py for its sets with injected changes. Raises RuntimeError with the output if it failed."""
    if detector.kit:
        interpreter = detector.command[0]
        command = [interpreter, "evaluate.py", "--detector", detector.kit]
    else:
        command = [sys.executable, "evaluate.py", "--cmd", " ".join(detector.command)]
    command += ["--split", "dev", "--online", "--sets", "gpuinject,campaign"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=kit, env={**_environment(), "PYTHONDONTWRITEBYTECODE": "1"}
    )
    if done.returncode:
        raise RuntimeError(f"{detector.name} in {kit}: {done.stderr[-600:]}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def speed() -> tuple[float, float]:
    """Processor time of our detector, without its start: seconds for one long series, milliseconds for an evaluation of up to 60 points."""
    from plumbline.analysis.drift.change_detection import detect_changes

    random = np.random.default_rng(0)
    long = (100 * np.exp(random.normal(0, 0.01, _LONG) + 0.05 * (np.arange(_LONG) // 500 % 2))).tolist()
    short = [(100 * np.exp(random.normal(0, 0.01, 60) + 0.05 * (np.arange(60) >= 30))).tolist() for _ in range(20)]
    detect_changes(short[0])
    began = time.process_time()
    detect_changes(long)
    middle = time.process_time()
    for values in short:
        for seen in range(12, 61):
            detect_changes(values[:seen])
    return middle - began, 1000 * (time.process_time() - middle) / (len(short) * 49)


def normal_alarms(series: int, seed: int) -> float:
    """Share of normal series without a change that alarm in one of the evaluations at 1 … 24 points."""
    from plumbline.analysis.drift.change_detection import detect_changes

    random, alarms = np.random.default_rng(seed), 0
    for _ in range(series):
        values = (100 * np.exp(random.normal(0, 0.02, 24))).tolist()
        alarms += any(detect_changes(values[:seen]) for seen in range(12, 25))
    return alarms / series


def missed(least: dict[str, tuple[float, float]], most: dict[str, tuple[float, float]]) -> list[str]:
    """Missed aims, from {name: (figure, aim)} with lower and with upper bounds. A missing figure is missed."""
    low = [f"{what}: {figure:.3g}, expected at least {aim:g}" for what, (figure, aim) in least.items() if not figure >= aim]
    high = [f"{what}: {figure:.3g}, expected at most {aim:g}" for what, (figure, aim) in most.items() if not figure <= aim]
    return low + high


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kit", type=Path, help="folder of an evaluation kit with evaluate.py and its data; without it: own series")
    parser.add_argument("--each", type=int, default=8, help="own series by length, noise and kind (default 8: 920 series)")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    rows = detectors()
    failures = (
        kit_table(rows, options.kit.resolve()) if options.kit else own_table(rows, labelled(options.each, options.seed), options.seed)
    )
    seconds, look = speed()
    print(f"{_LONG:,} points: {seconds:.2f} s; one evaluation of up to 60 points: {look:.2f} ms (processor time)")
    alarming = normal_alarms(_NORMAL, options.seed)
    print(f"{alarming:.2%} of {_NORMAL:,} normal series without a change ever alarm in 24 evaluations")
    failures += missed(
        {},
        {
            f"seconds for {_LONG:,} points": (seconds, LONG_SECONDS),
            "milliseconds a look": (look, LOOK_MS),
            "normal series alarming": (alarming, NORMAL_ALARMING),
        },
    )
    for failure in failures:
        print(f"missed: {failure}")
    return 1 if failures else 0


def kit_table(rows: list[Detector], kit: Path) -> list[str]:
    """Print the kit's figures for each detector; returns the missed aims of the first one, ours."""
    failures = []
    print(f"{'':22}{'set':12}{'precision':>10}{'recall':>9}{'F1':>8}{'stable alarming':>17}{'ramps SNR≥3':>13}")
    for detector in rows:
        for name, result in by_kit(detector, kit).items():
            if not isinstance(result, dict):
                continue
            online, ramp = result["online"], result["by"].get("ramp SNR>=3", {}).get("recall", float("nan"))
            stable = online["stable_series_with_alert"]
            print(
                f"{detector.name:22}{name:12}{online['precision']:10.3f}{online['recall']:9.3f}{online['f1']:8.3f}{stable:17.1%}{ramp:13.3f}",
                flush=True,
            )
            if detector is rows[0]:
                least = {f"{name}: F1": (online["f1"], KIT_F1[name]), f"{name}: recall on ramps": (ramp, RAMPS)}
                failures += missed(least, {f"{name}: stable series alarming": (stable, STABLE_ALARMING)})
    return failures


def own_table(rows: list[Detector], series: list[Labelled], seed: int) -> list[str]:
    """Print each detector's figures on our own series; returns the missed aims of the first one, ours."""
    failures = []
    print(f"{len(series)} series (seed {seed}), {sum(len(s.values) - _FIRST + 1 for s in series):,} evaluations")
    print(f"{'':22}{'precision':>10}{'recall':>9}{'F1':>8}{'ramps':>8}{'delay':>8}{'stable alarming':>17}")
    for detector in rows:
        r = replayed(detector, series)
        print(
            f"{detector.name:22}{r['precision']:10.3f}{r['recall']:9.3f}{r['F1']:8.3f}{r['ramps']:8.3f}{r['delay']:8.1f}{r['stable']:17.1%}",
            flush=True,
        )
        if detector is rows[0]:
            failures = missed({"recall on ramps": (r["ramps"], RAMPS)}, {"stable series alarming": (r["stable"], STABLE_ALARMING)})
    return failures


if __name__ == "__main__":
    raise SystemExit(main())
