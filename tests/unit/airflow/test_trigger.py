from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.trials import EXTERNAL, a_trial, cluster_provider, local_provider, serving

from plumbline.airflow.triggers import LaunchTrigger
from plumbline.launch import stores
from plumbline.launch.cluster import names
from plumbline.launch.cluster.observe.observation import LaunchObservation, Row
from plumbline.launch.cluster.observe.pod_watch import PodWatch, WatchLimits
from plumbline.launch.cluster.operate.attempts import Attempt
from plumbline.launch.cluster.operate.launch_watch import LaunchWatch
from plumbline.launch.failures import BadDeclaration
from plumbline.results.document import ReplicaCount

REQUESTED = datetime(2026, 11, 21, 3, 0, tzinfo=timezone.utc)


def made_for(trial: Any, **changed: Any) -> LaunchTrigger:
    attempt = Attempt(trial, stores.home(), REQUESTED, LaunchObservation(expected=trial.workload.nodes))
    return LaunchTrigger.of(replace(attempt, **changed))


def test_a_trials_trigger_looks_for_what_its_launch_created() -> None:
    trial = a_trial(provider=cluster_provider(schedule_timeout="10min", timeout="1h", poll="5s"))
    made = made_for(trial)
    assert made.selector == names.selector(trial)
    assert made.known == (names.pod_name(trial, 0),)
    assert (made.expected, made.owner, made.started, made.poll_s) == (1, None, False, 5)
    assert made.requested_at == REQUESTED.timestamp()
    assert made.deadline > REQUESTED.timestamp() + 600 + 3600, "the pods' own deadline comes first"
    assert made_for(trial, started_at=REQUESTED).started


def test_the_owner_of_a_gang_is_carried_by_its_name_alone() -> None:
    trial = a_trial(provider=cluster_provider(), declare={"parallelism": {"strategy": "ddp", "nodes": 2, "processes": 1}})
    assert made_for(trial).owner == {"apiVersion": "v1", "kind": "Service", "name": names.launch_name(trial)}


def test_a_process_on_this_machine_has_no_pods_to_watch() -> None:
    with pytest.raises(BadDeclaration, match="expected kubernetes"):
        made_for(a_trial(provider=local_provider()))


def test_a_trigger_is_made_anew_from_its_row() -> None:
    path, row = made_for(a_trial(provider=cluster_provider()), started_at=REQUESTED).serialize()
    assert path == "plumbline.airflow.triggers.LaunchTrigger"
    assert LaunchTrigger(**row).serialize() == (path, row)


def test_an_operators_trigger_gives_the_scheduler_time_to_note_the_deferral() -> None:
    assert made_for(a_trial(provider=cluster_provider())).earliest_s >= 20


class OneServerCrashes:
    """A cluster whose only server crashes and is not ready."""

    async def deployment(self, name: str) -> Row:
        return {"spec": {"replicas": 1}, "status": {}}

    async def pods(self, selector: str, *, cached: bool) -> tuple[list[Row], float]:
        status = {"name": "harness", "restartCount": 3, "lastState": {"terminated": {"exitCode": 1, "message": "out of order"}}}
        row = {"metadata": {"name": "pl-server-x1"}, "spec": {"nodeName": "n"}, "status": {"containerStatuses": [status]}}
        return [row], REQUESTED.timestamp()

    async def events(self, pod: str) -> list[Row]:
        return []


@pytest.mark.parametrize("served_before", [False, True])
def test_servers_that_were_ready_once_are_not_judged_by_the_next_triggerer(
    served_before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    trial = a_trial("inference", cluster_provider(serving=serving()), EXTERNAL)
    home = stores.home()
    home.put_trial(trial)
    if served_before:
        home.put_replicas(trial, (ReplicaCount(at=REQUESTED.timestamp(), ready=1, wanted=1),))
    limits = WatchLimits(1, REQUESTED.timestamp(), 600, 600, REQUESTED.timestamp() + 5000, 160, 60)
    decision = asyncio.run(LaunchWatch(made_for(trial), logging.getLogger())._watch_servers(OneServerCrashes(), PodWatch(limits)))  # type: ignore[arg-type]
    if served_before:
        assert decision is None
    else:
        assert decision is not None and decision.stop is not None
        assert (decision.stop.reason, decision.stop.judged) == ("no_servers", "server_error")
        assert "pl-server-x1" in decision.stop.detail and "out of order" in decision.stop.detail
