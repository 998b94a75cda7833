"""Two providers that ran the same workload, and a team that chooses between them: one is faster, the other is cheaper."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from tests.data.result_documents import (
    document,
    inference_metrics,
    inference_workload,
    provider,
    training_metrics,
    training_workload,
    trial,
)
from tests.fakes.trials import CONFIG

from plumbline.archive import Archive
from plumbline.declarations import Declarations, Provider, Team, load

FAST, CHEAP = "lab-fast", "lab-cheap"
SINCE = "2025-01-01"
_SHIPPED = cache(lambda: load(CONFIG))
GATE = "error_rate <= 1% in steady"


def lab(name: str, usd_per_hour: float = 2.0) -> Provider:
    """A local provider of two cores at an hourly price."""
    return provider(name, prices=[{"purchase": "on_demand", "price": f"{usd_per_hour} USD/h", "since": SINCE, "source": "a price list"}])


def team(**changed: Any) -> Team:
    """A team that weighs speed and cost alike."""
    declared = {
        "name": "platform",
        "training": {"workloads": ["gpt-test"], "weights": {"tokens_per_second": 0.5, "cost_per_1m_trained_tokens": 0.5}},
        "inference": {"workloads": ["chat-test"], "weights": {"time_to_first_token": 1.0}, "gates": [GATE]},
        **changed,
    }
    return Team.model_validate_json(json.dumps(declared))


def world(prices: Mapping[str, float] | None = None, teams: Sequence[Team] = ()) -> Declarations:
    """What is declared: the fast lab at 2 USD/h, the cheap one at 1 USD/h unless `prices` says otherwise."""
    usd = {FAST: 2.0, CHEAP: 1.0, **(prices or {})}
    workloads = {w.name: w for w in (training_workload(), inference_workload())}
    named = {t.name: t for t in (teams or (team(),))}
    return Declarations({name: lab(name, price) for name, price in usd.items()}, workloads, named, _SHIPPED().thresholds)


def measure(
    archive: Archive, declared: Declarations, step_times: Mapping[str, Sequence[float]], campaign: str = "2025-11", **changed: Any
) -> None:
    """Record a training trial for each step time, by provider, planned on the first of the campaign's month."""
    planned_at = datetime.fromisoformat(f"{campaign}-01T01:00:00+00:00")
    for name, times in step_times.items():
        for repeat, step_time in enumerate(times, 1):
            asked = trial(campaign=campaign, repeat=repeat, where=declared.providers[name], planned_at=planned_at)
            archive.record(document(asked, metrics=training_metrics(step_time=step_time), **changed), uri=f"file:///{asked.trial_id}")


def serve(archive: Archive, declared: Declarations, latencies: Mapping[str, Sequence[float]], campaign: str = "2025-11") -> None:
    """Record an inference trial for each latency, by provider."""
    for name, found in latencies.items():
        for repeat, latency in enumerate(found, 1):
            planned_at = datetime.fromisoformat(f"{campaign}-01T01:00:00+00:00") + timedelta(minutes=repeat)
            asked = trial("inference", campaign=campaign, repeat=repeat, where=declared.providers[name], planned_at=planned_at)
            archive.record(document(asked, metrics=inference_metrics(latency)), uri=f"file:///{asked.trial_id}")


def spread(middle: float) -> list[float]:
    """Three repeats that scatter by a percent."""
    return [middle * 0.99, middle, middle * 1.01]


def write(declared: Declarations, folder: Path) -> Path:
    """The declarations as the files of a configuration; the folder."""
    for name, own in (("providers", declared.providers), ("teams", declared.teams)):
        for key, value in own.items():
            _yaml(folder / name / f"{key}.yaml", _plain(value))
    for key, workload in declared.workloads.items():
        _yaml(folder / "workloads" / workload.kind / f"{key}.yaml", _plain(workload))
    shutil.copy(CONFIG / "thresholds.yaml", folder / "thresholds.yaml")
    return folder


def _plain(value: Any) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(value.model_dump_json(exclude_defaults=True))
    for kind in ("training", "inference"):
        for preference in [data.get(kind)] if isinstance(data.get(kind), dict) else []:
            preference["gates"] = [gate["text"] for gate in preference.get("gates", ())]
    return data


def _yaml(path: Path, data: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(dict(data)))
