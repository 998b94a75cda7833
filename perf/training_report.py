"""The training loops' figures as data and as a page."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

from plumbline.metrics import METRICS
from plumbline.metrics.formatting import format_quantity


@dataclass(frozen=True)
class Ratio:
    """`value` over `n` A B B A, with its 95 % interval (None: too few) and upper bound `bound`. Median step times in seconds."""

    words: str
    bound: float
    value: float
    interval: tuple[float, float] | None
    n: int
    ours_s: float
    theirs_s: float

    @property
    def verdict(self) -> str:
        """Held or missed if the whole interval is on one side of the bound, else undecided."""
        if self.interval is None or self.interval[0] <= self.bound < self.interval[1]:
            return "undecided"
        return "held" if self.interval[1] <= self.bound else "missed"


@dataclass
class Figures:
    """Results of one run. `aa` and `trials`: None if not measured."""

    command: str
    device: str
    workload: str
    ratios: list[Ratio] = field(default_factory=list)
    aa: dict[str, Any] | None = None
    trials: list[dict[str, Any]] | None = None
    minutes: float = 0.0

    @property
    def missed(self) -> list[str]:
        """Bounds that do not hold, and trials that failed."""
        missed = [ratio.words for ratio in self.ratios if ratio.verdict == "missed"]
        missed += [f"{trial['workload']}, {trial['precision']}" for trial in self.trials or [] if trial["status"].startswith("failed")]
        if self.aa is not None and self.aa["alarms"]:
            missed.append("no change seen where there is none")
        if self.aa is not None and set(self.aa["verdicts"]) <= {"not comparable"}:
            missed.append("two trials that can be compared: the machine was not at rest")
        return missed


def environment() -> dict[str, str]:
    """The machine and versions of the measurement."""
    from plumbline.harness import environment as probed

    facts = {
        name: str(value) for name, value in probed.collect_facts().items() if name.startswith(("cpu.model", "gpu.0.", "driver", "cuda"))
    }
    packages = {name: version(name) for name in ("torch", "transformers", "accelerate")}
    return {"cores": str(len(os.sched_getaffinity(0))), "system": platform.platform(), **facts, **packages}


def written(figures: Figures, path: Path) -> None:
    """Write the figures to `path` (.json) and the page beside it (.md)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {
        "measured": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        **asdict(figures),
        "ratios": [{**asdict(ratio), "verdict": ratio.verdict} for ratio in figures.ratios],
        "environment": environment(),
    }
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(markdown(figures), encoding="utf-8")


def markdown(figures: Figures) -> str:
    lines = [f"# The training loop and its peers ({figures.device})", "", f"`{figures.command}`, {figures.minutes:.1f} minutes."]
    if figures.ratios:
        lines += [
            "",
            f"Workload {figures.workload}, median step times, A B B A in blocks of steps.",
            "",
            "| | ours | other | ratio (95 % interval) | aim | |",
            "|---|---:|---:|---:|---:|---|",
            *(_row(ratio) for ratio in figures.ratios),
        ]
    if figures.aa is not None:
        lines += ["", "**No change.** " + figures.aa["said"], "", "| metric | statistic | median | CV |", "|---|---|---:|---:|"]
        lines += [
            f"| {row['metric']} | {row['statistic']} | {format_quantity(row['median'], row['unit'])} | {row['cv']:.1%} |"
            for row in figures.aa["scatter"]
        ]
    for trial in figures.trials or []:
        lines += [
            "",
            f"**{trial['workload']}, {trial['precision']}.** {trial['status']}",
            "",
            "| metric | phase | value |",
            "|---|---|---:|",
        ]
        lines += [
            f"| {row['metric']} | {row['phase']} | {format_quantity(row['value'], METRICS[row['metric']].unit)} |"
            for row in trial["metrics"]
        ]
    return "\n".join(lines) + "\n"


def _row(ratio: Ratio) -> str:
    interval = "" if ratio.interval is None else f" ({ratio.interval[0]:.3f} … {ratio.interval[1]:.3f})"
    times = f"{format_quantity(ratio.ours_s, 's')} | {format_quantity(ratio.theirs_s, 's')}"
    return f"| {ratio.words} | {times} | {ratio.value:.3f}{interval} | ≤ {ratio.bound:g} | {ratio.verdict} |"
