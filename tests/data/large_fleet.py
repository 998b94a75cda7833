"""An archive with results of more providers than a page waits for, and their declarations."""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml
from tests.data.result_documents import document, provider, training_metrics, training_workload, trial

from plumbline.archive import DecisionRecord, open_archive
from plumbline.dashboard.rendering import IMMEDIATE_PROVIDERS
from plumbline.declarations.installation import installation_paths

PROVIDERS = IMMEDIATE_PROVIDERS + 1
WORKLOAD = "gpt-tiny-cpu"
TEAM = {
    "name": "lab",
    "training": {"workloads": [WORKLOAD], "weights": {"step_time": 0.6, "tokens_per_second": 0.4}},
}

PRICES = [{"purchase": "on_demand", "price": "2 USD/h", "since": "2024-01-01", "source": "test"}]


def large_fleet(folder: Path, providers: int = PROVIDERS) -> tuple[Path, Path]:
    """Home and declarations of so many providers, two repeats of one workload each and one stored decision; lab-00 is the fastest."""
    home, config = folder / "home", folder / "config"
    for kind in ("providers", "teams", "workloads/training"):
        (config / kind).mkdir(parents=True)
    shutil.copy(installation_paths().config / "thresholds.yaml", config)
    workload, places = training_workload(name=WORKLOAD), [provider(f"lab-{n:02d}") for n in range(providers)]
    for kind, name, text in (
        ("teams", "lab", TEAM),
        ("workloads/training", WORKLOAD, workload.model_dump(mode="json", exclude_defaults=True) | {"kind": "training"}),
        *(("providers", p.name, p.model_dump(mode="json", exclude_defaults=True) | {"prices": PRICES}) for p in places),
    ):
        (config / kind / f"{name}.yaml").write_text(yaml.safe_dump(text))
    home.mkdir()
    with open_archive(f"sqlite:///{home / 'archive.db'}") as archive:
        for n, place in enumerate(places):
            for repeat in (1, 2):
                metrics = training_metrics(0.1 + 0.0005 * n + 0.001 * repeat)
                archive.record(document(trial(where=place, repeat=repeat, workload=workload), metrics=metrics), uri="file:///store")
        archive.save_decision(DecisionRecord("d1", "lab", "training", "lab-07", 0.9, {"workloads": [WORKLOAD]}))
    return home, config
