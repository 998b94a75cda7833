"""A container's own metrics in an archive: they keep their unit, side and thresholds, and none has two of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.trials import CONFIG
from tests.unit.declarations.workloads.test_container import container

from plumbline.analysis.document_sample import sample_of
from plumbline.analysis.drift.compare import compare
from plumbline.analysis.scorecards.scorecard import scorecard
from plumbline.archive import Refused, open_archive
from plumbline.declarations import DriftRules, Trial, criteria_hash, load, series_key, spec_hash
from plumbline.declarations.trials import trial_id
from plumbline.declarations.workloads.workload import DriftLimits
from plumbline.launch.simulated.launcher import simulate
from plumbline.metrics import Metric
from plumbline.presentation.card_tables import card_tables

RULES = DriftRules.model_validate({"confidence": "95%", "false_discovery_rate": "5%", "bootstrap_trials": 2})


def usual(known: Metric) -> DriftLimits | None:
    return None if known.warn is None or known.page is None else DriftLimits.model_construct(warn=known.warn, page=known.page)


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


_READER = """
import sys
from plumbline.archive import open_archive
from plumbline.metrics import METRICS, metric_of

with open_archive(sys.argv[1]) as archive:
    (seen,) = [o for o in archive.sample(sys.argv[2], "2026-11").observations if o.metric == "lid_count"]
    document = archive.document(sys.argv[3])
    known = metric_of(seen)
    print("lid_count" in METRICS, known.unit, known.direction, known.warn, document.value("lid_count") == seen.value)
"""


def test_a_process_that_never_read_the_workload_reads_what_it_measured(tmp_path: Path) -> None:
    trial, url = simulated_trial(), f"sqlite:///{tmp_path}/archive.db"
    with open_archive(url) as archive:
        archive.record(simulate(trial), uri="file:///nowhere")
    reader = [sys.executable, "-c", _READER, url, trial.series_key, trial.trial_id]
    read = subprocess.run(reader, capture_output=True, text=True, check=True, timeout=120)
    assert read.stdout.split() == ["False", "count", "higher_is_better", "0.05", "True"]


def test_two_workloads_with_one_name_in_two_units_are_read_in_any_order(tmp_path: Path) -> None:
    """Two archives, since one refuses the second unit: documents, samples and cards are those of each workload, whichever is read first."""
    kinds = {"count": ("count", "higher"), "bytes": ("bytes", "lower")}
    for name, (unit, better) in kinds.items():
        with open_archive(f"sqlite:///{tmp_path}/{name}.db") as archive:
            archive.record(simulate(simulated_trial(unit, better)), uri="file:///nowhere")

    def read(name: str) -> tuple[Any, ...]:
        trial = simulated_trial(*kinds[name])
        with open_archive(f"sqlite:///{tmp_path}/{name}.db") as archive:
            document, sample = archive.document(trial.trial_id), archive.sample(trial.series_key, "2026-11")
        assert document is not None
        card = scorecard([sample_of(document)], acceptance=document.trial.workload.acceptance, primary=document.trial.workload.primary)
        (table,) = card_tables([card])
        compared = compare([replace(sample, campaign_id="2026-10")], sample, rules=RULES, limits=usual)
        return document, sample, card, table, compared

    first = {name: read(name) for name in ("count", "bytes")}
    second = {name: read(name) for name in ("bytes", "count")}
    assert first == second
    for name, (document, sample, card, _, compared) in first.items():
        unit, direction = kinds[name][0], f"{kinds[name][1]}_is_better"
        rows = [row for row in (*document.metrics, *sample.observations, *card.rows, *compared.rows) if row.metric == "lid_count"]
        assert {(row.unit, row.direction) for row in rows} == {(unit, direction)} and len(rows) == 4


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
