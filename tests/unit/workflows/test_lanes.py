"""Which trial runs in which lane, and on which nodes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.trials import a_trial, cluster_provider, declared

from plumbline.archive import open_archive
from plumbline.declarations import Declarations, TrainingWorkload
from plumbline.results import Environment, LaunchRecord, PodRecord, ResultDocument, Validity
from plumbline.workflows import plan_trials
from plumbline.workflows.plan import GANG, INFERENCE, TRAINING, TRIAL_GROUPS, trial_groups

SHIPPED = declared()


def gang_of(nodes: int) -> TrainingWorkload:
    data: dict[str, Any] = json.loads(SHIPPED.workloads["gpt-tiny-cpu"].model_dump_json())
    return TrainingWorkload.model_validate_json(json.dumps({**data, "name": "gang", "parallelism": {"nodes": nodes}}))


def world(*workloads: Any) -> Declarations:
    provider = cluster_provider()
    return Declarations({provider.name: provider}, {w.name: w for w in workloads}, SHIPPED.teams, SHIPPED.thresholds)


def test_gangs_have_a_lane_only_where_one_is_declared() -> None:
    assert trial_groups(world(*SHIPPED.workloads.values()), cluster_provider()) == (TRAINING, INFERENCE)
    assert trial_groups(world(gang_of(2)), cluster_provider()) == (TRAINING, INFERENCE, GANG)
    assert trial_groups(world(gang_of(2)), SHIPPED.providers["local-1core"]) == (TRAINING, INFERENCE), "a machine has no second node"


def test_every_trial_runs_in_exactly_one_lane() -> None:
    for workload in (*SHIPPED.workloads.values(), gang_of(1), gang_of(4)):
        assert len([lane for lane in TRIAL_GROUPS.values() if lane.takes(workload)]) == 1
    assert GANG.takes(gang_of(4))


def test_a_fresh_node_is_one_that_the_series_newest_campaigns_did_not_run_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    trial = a_trial(provider=cluster_provider())
    pods = (PodRecord(name="p-0", rank=0, node="node-7"), PodRecord(name="p-1", rank=1, node="node-3"), PodRecord(name="p-2", rank=2))
    measured = ResultDocument.sealed(
        trial=trial, harness_version="1", environment=Environment.of({"cpu.model": "x"}), validity=Validity(status="valid")
    ).with_launch(LaunchRecord(launcher="kubernetes", events=(), pods=pods))
    with open_archive() as archive:
        assert plan_trials.recent_nodes(archive, trial.series_key) == ()
        archive.record(measured, uri="s3://x")
        assert plan_trials.recent_nodes(archive, trial.series_key) == ("node-3", "node-7")
        assert plan_trials.recent_nodes(archive, trial.series_key.replace("cluster-a", "cluster-b")) == ()
    (fresh,) = plan_trials._on_fresh_nodes([trial])
    assert (fresh.placement, fresh.avoid_nodes) == ("fresh_node", ("node-3", "node-7"))
    assert replace(TRAINING, name="x").of([fresh]) == [fresh]
