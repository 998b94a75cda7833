"""A container's own metrics in an archive: they keep their unit, side and thresholds, and none has two of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from sqlalchemy import event
from tests.fakes.trials import CONFIG
from tests.unit.declarations.workloads.test_container import container

from plumbline.archive import Refused, open_archive
from plumbline.declarations import Trial, criteria_hash, load, series_key, spec_hash
from plumbline.declarations.trials import trial_id
from plumbline.launch.simulated.launcher import simulate
from plumbline.metrics import METRICS


def simulated_trial(unit: str = "count", better: str = "higher", name: str = "box") -> Trial:
    shipped = load(CONFIG)
    metrics = {"lid_count": {"unit": unit, "better": better, "field": "box_rate"}}
    workload = container(primary="lid_count", metrics=metrics).of_trial().model_copy(update={"name": name})
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


def test_an_archive_s_metrics_are_read_again_when_a_trial_was_recorded(tmp_path: Path) -> None:
    url, statements = f"sqlite:///{tmp_path}/archive.db", list[str]()
    with open_archive(url) as archive:
        event.listen(archive.engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
        for recorded, reads in (("box", 1), (None, 0), ("crate", 1)):
            if recorded is not None:
                archive.record(simulate(simulated_trial(name=recorded)), uri="file:///nowhere")
            statements.clear()
            archive.declare_metrics()
            assert sum("FROM metrics" in each for each in statements) == reads


@pytest.mark.fault("a container's metric has another unit than in the archive", ends="refused", keeps="nothing is recorded")
@pytest.mark.parametrize(("unit", "better", "named"), [("bytes", "higher", "bytes, higher_is_better"), ("count", "lower", "count, lower")])
def test_a_metric_with_another_unit_or_side_is_refused(tmp_path: Path, unit: str, better: str, named: str) -> None:
    url, bundle = f"sqlite:///{tmp_path}/archive.db", tmp_path / "bundle"
    with open_archive(f"sqlite:///{tmp_path}/other.db") as other:
        other.record(simulate(simulated_trial(unit, better, "crate")), uri="file:///nowhere")
        other.export(bundle)
        refused = other.document(simulated_trial(unit, better, "crate").trial_id)
    assert refused is not None
    with open_archive(url) as archive:
        archive.record(simulate(simulated_trial()), uri="file:///nowhere")
        expected = (
            f"lid_count is in {named}.*; expected count, higher_is_better, as the archive holds it of training/box@1/.*, or another name"
        )
        with pytest.raises(Refused, match=expected):
            archive.record(refused, uri="file:///nowhere")
        assert [each.refused is not None and re.search(expected, each.refused) is not None for each in archive.import_(bundle)] == [True]
        assert {trial.trial_id for trial in archive.trials("2026-11")} == {simulated_trial().trial_id}
        archive.record(refused, action="reject", uri="file:///nowhere")  # what does not count contradicts nothing


def test_the_same_metric_of_another_workload_is_recorded(tmp_path: Path) -> None:
    with open_archive(f"sqlite:///{tmp_path}/archive.db") as archive:
        for name in ("box", "crate"):
            assert archive.record(simulate(simulated_trial(name=name)), uri="file:///nowhere") == "inserted"
