from __future__ import annotations

from datetime import datetime, timezone

import pytest
from tests.fakes.trials import a_trial, cluster_provider, local_provider

from plumbline.airflow.triggers import LaunchTrigger
from plumbline.launch.cluster import names
from plumbline.launch.failures import BadDeclaration

REQUESTED = datetime(2026, 11, 21, 3, 0, tzinfo=timezone.utc)


def test_a_trials_trigger_looks_for_what_its_launch_created() -> None:
    trial = a_trial(provider=cluster_provider(schedule_timeout="10min", timeout="1h", poll="5s"))
    made = LaunchTrigger.of(trial, REQUESTED, known=[names.pod_name(trial, 0)])
    assert made.selector == names.selector(trial)
    assert made.known == [names.pod_name(trial, 0)]
    assert (made.expected, made.owner, made.started, made.poll_s) == (1, None, False, 5)
    assert made.requested_at == REQUESTED.timestamp()
    assert made.deadline > REQUESTED.timestamp() + 600 + 3600, "the pods' own deadline comes first"


def test_the_owner_of_a_gang_is_carried_by_its_name_alone() -> None:
    trial = a_trial(provider=cluster_provider())
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "pl-x", "annotations": {"a": "b"}},
        "spec": {"clusterIP": "None"},
    }
    assert LaunchTrigger.of(trial, REQUESTED, owner=service).owner == {"apiVersion": "v1", "kind": "Service", "name": "pl-x"}


def test_a_process_on_this_machine_has_no_pods_to_watch() -> None:
    with pytest.raises(BadDeclaration, match="expected kubernetes"):
        LaunchTrigger.of(a_trial(provider=local_provider()), REQUESTED)


def test_a_trigger_is_made_anew_from_its_row() -> None:
    made = LaunchTrigger.of(a_trial(provider=cluster_provider()), REQUESTED, known=("a",), started=True)
    path, row = made.serialize()
    assert path == "plumbline.airflow.triggers.LaunchTrigger"
    assert LaunchTrigger(**row).serialize() == (path, row)


def test_an_operators_trigger_gives_the_scheduler_time_to_note_the_deferral() -> None:
    assert LaunchTrigger.of(a_trial(provider=cluster_provider()), REQUESTED).earliest_s >= 20
