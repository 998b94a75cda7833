"""Short trials between campaigns: when one is due, and what exactly is started."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.data.result_documents import document, provider, training_workload, trial
from tests.fakes.trials import declared

from plumbline.archive import Archive, open_archive
from plumbline.declarations import Declarations
from plumbline.orchestration.probing import due

NOW = datetime(2026, 11, 21, 5, 41, tzinfo=timezone.utc)
GPT = training_workload()


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as opened:
        yield opened


def world(**watch: Any) -> Declarations:
    place = provider(watch=watch)
    return replace(declared(), providers={place.name: place}, workloads={GPT.name: GPT})


def measured(archive: Archive, ago: timedelta) -> None:
    archive.record(document(trial(campaign="before", planned_at=NOW - ago)), uri="file:///nowhere")


def test_what_was_never_measured_is_due_with_its_workload_alone(archive: Archive) -> None:
    (start,) = due(archive, world(probe={"workload": GPT.name}), NOW)
    assert (start["trigger_dag_id"], start["trigger_run_id"]) == ("benchmark_lab_2core", "probe_lab-2core_2026-11-21")
    assert start["conf"]["campaign"] == "probe-2026-11-21" and start["conf"]["workloads"] == [GPT.name]
    assert start["conf"]["reason"] == "short trial to look from inside; the first one"


def test_it_is_due_again_when_its_time_has_passed_whoever_measured_it_last(archive: Archive) -> None:
    weekly = world(probe={"workload": GPT.name})
    measured(archive, timedelta(days=6))
    assert due(archive, weekly, NOW) == []
    assert due(archive, world(probe={"workload": GPT.name, "every": "3d"}), NOW)
    (start,) = due(archive, weekly, NOW + timedelta(hours=23))
    assert start["conf"]["reason"].endswith("the last one was on 2026-11-15"), "a daily run does not miss its day by minutes"


@pytest.mark.parametrize("watch", [{}, {"enabled": False, "probe": {"workload": GPT.name}}])
def test_nothing_is_started_unless_it_is_declared_and_watched(archive: Archive, watch: dict[str, Any]) -> None:
    assert due(archive, world(**watch), NOW) == []
