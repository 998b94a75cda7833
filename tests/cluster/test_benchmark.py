"""Two providers' benchmark DAGs from the trigger to the scorecard: real pods, results by S3, deferred all the way, nothing left."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.declared import CHAT, ONE, PRODUCTS, TRAIN, TWO
from tests.cluster.world import World

from plumbline.analysis.conclusions import conclude
from plumbline.archive import open_archive
from plumbline.embedded.client import DagRun
from plumbline.results import signing
from plumbline.workflows.report import campaign_data, write_report

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

CAMPAIGN = "e2e"


@pytest.fixture(scope="module")
def runs(e2e: World) -> dict[str, DagRun]:
    """Both providers' runs of one campaign, one after the other because one node is of one GPU product at a time."""
    found = {}
    for provider in (ONE, TWO):
        e2e.shown_as(provider)
        found[provider] = e2e.ended(e2e.start(provider, [TRAIN, CHAT], CAMPAIGN))
    e2e.shown_as(ONE)
    return found


def test_both_runs_end_well(e2e: World, runs: dict[str, DagRun]) -> None:
    for run in runs.values():
        assert run.state == "success", e2e.explain(run)


def test_every_trial_is_recorded_with_what_only_the_outside_saw(e2e: World, runs: dict[str, DagRun]) -> None:
    with open_archive() as archive:
        trials = archive.trials(CAMPAIGN)
        documents = [archive.document(t.trial_id, t.attempt) for t in trials]
        keys = {t.trial_id: archive.signing_keys(CAMPAIGN, t.trial_id) for t in trials}
    assert {(t.provider, t.kind) for t in trials} == {(p, k) for p in (ONE, TWO) for k in ("training", "inference")}
    for document in documents:
        assert document is not None
        assert document.validity.status in ("valid", "degraded"), document.validity
        assert signing.verify(document, keys[document.trial.trial_id]).status == "verified"
        assert document.environment is not None
        assert document.environment.facts["container.image"] == e2e.image
        assert document.launch is not None
        (pod,) = document.launch.pods
        for events, wanted in ((document.launch.events, {"requested", "deleted"}), (pod.events, {"requested"})):
            assert wanted | {"scheduled", "started", "finished"} <= {event.name for event in events}
            seconds = [event.utc.replace(microsecond=0) for event in events]  # the cluster's own times are whole seconds
            assert seconds == sorted(seconds)
        assert PRODUCTS[document.trial.provider.name] in map(str, pod.facts.values()), pod.facts


def test_lead_times_stand_in_the_archive_beside_what_was_measured(runs: dict[str, DagRun]) -> None:
    with open_archive() as archive:
        for trial in archive.trials(CAMPAIGN):
            for metric in ("provisioning_lead_time", "pod_scheduling_time"):
                (point,) = archive.metric_history(trial.series_key, metric, "value", "cold_start")
                assert 0 <= point.value < 300, (trial.trial_id, metric)


def test_results_came_by_the_bucket(e2e: World, runs: dict[str, DagRun]) -> None:
    assert sum(key.endswith("/result.json") and f"/{CAMPAIGN}/" in key for key in e2e.store.objects()) == 4


def test_the_tasks_were_deferred_while_their_pods_ran(e2e: World, runs: dict[str, DagRun]) -> None:
    for run in runs.values():
        log = e2e.client.task_log(run.dag_id, run.run_id, e2e.task(run, "training.trial.run"))
        assert "DEFERRED" in log, "no worker is kept while a pod runs"
        assert "steady" in log, "progress of the harness stands in the task's log"


def test_two_providers_stand_in_one_scorecard(runs: dict[str, DagRun]) -> None:
    with open_archive() as archive:
        data = campaign_data(archive, CAMPAIGN)
    concluded = conclude(data)
    for kind in ("training", "inference"):
        assert {card.provider for card in concluded.cards if card.kind == kind} == {ONE, TWO}
    assert Path(write_report(CAMPAIGN)).read_text().startswith("<!")


def test_nothing_is_left_on_the_cluster(e2e: World, runs: dict[str, DagRun]) -> None:
    assert [left for provider in (ONE, TWO) for left in e2e.cluster.leftovers(e2e.namespace(provider))] == []


def test_planted_secrets_are_nowhere(e2e: World, runs: dict[str, DagRun]) -> None:
    """In no log, no XCom, no trigger's row, no result document, no report: everything that this installation wrote."""
    looked = 0
    for file in e2e.home.rglob("*"):
        if file.is_file():
            looked += 1
            content = file.read_bytes()
            assert [s[:12] for s in e2e.secrets if s.encode() in content] == [], file
    for key in e2e.store.objects():
        looked += 1
        assert [s[:12] for s in e2e.secrets if s.encode() in e2e.store.read(key)] == [], key
    assert looked > 20
    assert [row for row in _rows(e2e.airflow.database) if any(s in row for s in e2e.secrets)] == []


def _rows(database: Path) -> Iterator[str]:
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall():
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                yield f"{table} {row}"
