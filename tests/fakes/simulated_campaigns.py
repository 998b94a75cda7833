"""Campaigns of a simulated provider, month after month, straight into an archive and through the review: no stores, no quality checks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import yaml
from tests.fakes.trials import CONFIG

from plumbline.archive import Archive, open_archive
from plumbline.declarations import load
from plumbline.launch.plan import RunRequest
from plumbline.launch.simulated.launcher import simulate
from plumbline.workflows.plan import MONTHLY_REASON
from plumbline.workflows.rehearse import trials_in
from plumbline.workflows.review import ReviewResult, review_campaign

WORKLOADS = ("training/gpt-tiny-cpu", "inference/chat-tiny-cpu")


def months(n: int, first: str = "2024-01") -> list[datetime]:
    """The first days of `n` months."""
    begin = int(first[:4]) * 12 + int(first[5:]) - 1
    return [datetime(i // 12, i % 12 + 1, 1, tzinfo=timezone.utc) for i in range(begin, begin + n)]


def config(home: Path, drift: Sequence[Mapping[str, Any]] = (), *, seed: int = 7, **launcher: Any) -> Path:
    """A configuration of one enabled simulated provider `sim` with these events, and of one workload of each kind, six repeats in two slots."""
    folder = home / "config"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copy(CONFIG / "thresholds.yaml", _parent(folder / "thresholds.yaml"))
    for source in (CONFIG / "teams").glob("*.yaml"):
        team = yaml.safe_load(source.read_text())
        team.pop("also", None)  # about workloads that are not here
        _parent(folder / "teams" / source.name).write_text(yaml.safe_dump(team))
    for name in WORKLOADS:
        declared = yaml.safe_load((CONFIG / "workloads" / f"{name}.yaml").read_text())
        declared |= {"repeats": {"per_slot": 3, "slots": ["02:00", "14:00"]}}
        _parent(folder / "workloads" / f"{name}.yaml").write_text(yaml.safe_dump(declared))
    provider = {
        "name": "sim",
        "cloud": "simulated",
        "region": "nowhere",
        "instance_type": "simulated-2core",
        "accelerator": {"kind": "cpu", "count": 2},
        "launcher": {"kind": "simulated", "seed": seed, "nodes": 6, "drift": [dict(event) for event in drift], **launcher},
    }
    _parent(folder / "providers" / "sim.yaml").write_text(yaml.safe_dump(provider))
    return folder


def run(folder: Path, when: Sequence[datetime]) -> dict[str, list[ReviewResult]]:
    """Measure, record and review these months; what each review said."""
    os.environ["PLUMBLINE_CONFIG"] = str(folder)
    with open_archive() as archive:
        return {f"{month:%Y-%m}": _campaign(archive, month) for month in when}


def _campaign(archive: Archive, month: datetime) -> list[ReviewResult]:
    declared = load()
    for trial in trials_in(declared, declared.providers["sim"], month, RunRequest(f"{month:%Y-%m}", MONTHLY_REASON)):
        archive.record(simulate(trial), uri="file:///nowhere")
    return review_campaign(f"{month:%Y-%m}", "sim")


def _parent(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
