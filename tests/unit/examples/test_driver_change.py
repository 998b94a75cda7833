"""What the demo of the watch stages, and when it has shown what it should; that it does is tests/integration/test_airflow_watch.py."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
from examples.driver_change import AFTER, BEFORE, PROVIDER, WORKLOAD, DemoResult, attributed, change_driver, stage

from plumbline.airflow.schedules import schedule_of
from plumbline.declarations import load
from plumbline.declarations.installation import installation_paths, override_home
from plumbline.embedded.client import DagRun
from plumbline.launch.simulated.launcher import simulated_facts
from plumbline.results.finding import Finding
from plumbline.workflows.pending_changes import monitored_providers

NOW = datetime(2026, 11, 21, 5, 41, tzinfo=timezone.utc)
SLOWER = Finding(
    finding_id="f" * 12,
    series_key="s",
    campaign_id="od-20261121-054200",
    kind="performance",
    severity="page",
    evidence="slower",
    explanation="",
    provider=PROVIDER,
    workload_kind="training",
    workload=WORKLOAD,
    subject="step_time",
    title="slower",
    attributed_to=("driver.version",),
)


def test_one_watched_provider_with_one_workload_and_nothing_that_drifts(tmp_path: Path) -> None:
    declared = load(stage(tmp_path))
    assert [v.provider for v in declared.alerts.volumes] == [PROVIDER]
    (provider,) = monitored_providers(declared)
    assert (provider.name, provider.simulated, [w.name for w in declared.workloads_for(provider)]) == (PROVIDER, True, [WORKLOAD])
    assert schedule_of(declared, provider) is not None
    facts = simulated_facts(provider, NOW)
    assert {name: facts[name] for name in BEFORE} == BEFORE


def test_from_the_day_on_it_has_another_driver(tmp_path: Path) -> None:
    folder = stage(tmp_path)
    change_driver(folder, NOW)
    facts = simulated_facts(load(folder).providers[PROVIDER], NOW)
    assert {name: facts[name] for name in AFTER} == AFTER
    stage(tmp_path)
    assert load(folder).providers[PROVIDER].launcher.drift == ()  # type: ignore[union-attr]


def test_it_meets_nothing_of_the_installation(tmp_path: Path) -> None:
    before = installation_paths()
    with override_home(tmp_path, tmp_path / "config"):
        assert (installation_paths().home, installation_paths().config) == (tmp_path, tmp_path / "config")
        assert str(tmp_path) in installation_paths().archive_url and str(tmp_path) in installation_paths().results_url
    assert installation_paths() == before


def run(state: str = "success") -> DagRun:
    return DagRun(dag_id="a_dag", run_id="a-run", state=state, run_type="manual", conf={})


@pytest.mark.parametrize(
    ("changes", "is_shown"),
    [
        ({}, True),
        ({"findings": ()}, False),
        ({"findings": (replace(SLOWER, attributed_to=()),)}, False),
        ({"findings": (replace(SLOWER, kind="environment"),)}, False),
        ({"watch": run("failed")}, False),
        ({"review": run("failed")}, False),
    ],
)
def test_it_is_shown_if_the_slowdown_is_explained_by_the_driver_and_all_went_well(changes: dict[str, object], is_shown: bool) -> None:
    shown = DemoResult(run(), run(), run(), run(), "od-20261121-054200", "driver.version", (SLOWER,))
    assert attributed(replace(shown, **changes)) is is_shown  # type: ignore[arg-type]
