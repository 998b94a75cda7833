"""Numbers of a container whose workload is declared no more keep their unit, side and thresholds."""

from __future__ import annotations

import json
from pathlib import Path

from tests.fakes.trials import CONFIG
from tests.unit.declarations.workloads.test_container import container

from plumbline.archive import open_archive
from plumbline.declarations import Trial, criteria_hash, load, series_key, spec_hash
from plumbline.declarations.trials import trial_id
from plumbline.launch.simulated.launcher import simulate
from plumbline.metrics import METRICS


def simulated_trial() -> Trial:
    shipped = load(CONFIG)
    workload = container(primary="lid_count", metrics={"lid_count": {"unit": "count", "better": "higher", "field": "box_rate"}}).of_trial()
    provider, validity = shipped.providers["simulated-2core"].of_trial(), shipped.thresholds.validity
    fields = {
        "trial_id": trial_id("2026-11", provider, workload, "02:00", 1),
        "campaign_id": "2026-11",
        "reason": "a test",
        "planned_at": "2026-11-01T02:00:00Z",
        "provider": provider.model_dump(mode="json"),
        "workload": workload.model_dump(mode="json"),
        "validity": validity.model_dump(mode="json"),
        "slot": "02:00",
        "repeat": 1,
        "series_key": series_key(workload, provider),
        "spec_hash": spec_hash(workload),
        "criteria_hash": criteria_hash(workload, validity),
    }
    return Trial.model_validate_json(json.dumps(fields))


def test_an_archive_that_is_opened_declares_what_it_holds(tmp_path: Path) -> None:
    trial, url = simulated_trial(), f"sqlite:///{tmp_path}/archive.db"
    with open_archive(url) as archive:
        archive.record(simulate(trial), uri="file:///nowhere")
        known = METRICS.pop("lid_count")
        (observed,) = [o for o in archive.sample(trial.series_key, "2026-11").observations if o.metric == "lid_count"]
    assert (observed.unit, METRICS.pop("lid_count")) == ("count", known)
    with open_archive(url):
        assert METRICS["lid_count"] == known
