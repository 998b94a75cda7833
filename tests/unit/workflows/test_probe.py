"""Probes of a provider from end to end: archive, findings, what a benchmark waits for, and when the next one is due."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.data.result_documents import FACTS, document, provider, trial
from tests.fakes.trials import CONFIG, H100, cluster_provider

from plumbline.airflow.tasks import upkeep
from plumbline.archive import Archive
from plumbline.archive.engine import utc_now
from plumbline.declarations import Declarations, Provider, load
from plumbline.launch.launcher import ProviderFacts
from plumbline.presentation.metric_history import finding_history
from plumbline.results import Environment, metric_row
from plumbline.results.finding import Finding
from plumbline.results.probe_document import ProbeDocument
from plumbline.workflows import check_provider, pending_changes, probe
from plumbline.workflows.probe import ProbeReport

START = datetime(2026, 11, 1, 6, tzinfo=timezone.utc)
LAB = provider(watch={"probe": "7d"})
TIMED_OUT = "the limit of 120 s was over"
USUAL = {"os.kernel": "6.1.0", "driver.version": "570.1", "limits.nofile": 1024}


@pytest.fixture(scope="module")
def known() -> Declarations:
    return load(CONFIG)


def probed(
    archive: Archive,
    known: Declarations,
    week: float,
    matmul: float | None,
    facts: dict[str, Any] | None = None,
    *,
    where: Provider = LAB,
    foreign_cpu: float | None = None,
) -> ProbeReport:
    """Hold a probe of that week, in TFLOP/s (None: left out)."""
    seen = ProbeDocument(
        harness_version="1",
        taken_at=START + timedelta(days=7 * week),
        seconds=20.0,
        environment=Environment.of({**USUAL, **(facts or {})}),
        metrics=() if matmul is None else (metric_row("matmul_tflops", matmul * 1e12, 30, phase="environment"),),
        left_out={"matmul": TIMED_OUT} if matmul is None else {},
        foreign_cpu=foreign_cpu,
    )
    return probe.compare_with_history(archive, known, where, seen)


def news(found: ProbeReport) -> list[tuple[str, str, str]]:
    return [(change["fact"], change["old"], change["new"]) for change in found.news]


def open_findings(archive: Archive) -> list[Finding]:
    return [Finding.of(f.detail).with_state(f.state) for f in archive.findings_of("lab-2core", unsettled=True)]


def due(archive: Archive, known: Declarations, week: float, where: Provider = LAB) -> bool:
    return probe.skip_reason(archive, known, where, START + timedelta(days=7 * week)) is None


def test_slower_twice_is_a_finding_and_a_benchmark_waits_for_it(archive: Archive, known: Declarations) -> None:
    for week, matmul in enumerate((800, 802, 799)):
        assert probed(archive, known, week, matmul).findings == ()
    once = probed(archive, known, 3, 700)
    assert open_findings(archive) == [] and pending_changes.pending_event(archive, LAB.name) is None
    assert once.figures[0].slow == 1 and "probes again" in once.notes[0]
    twice = probed(archive, known, 3.2, 702)
    (found,) = open_findings(archive)
    assert twice.findings == (found.finding_id,) and found.since == "2026-11-22"
    assert LAB.dag_id in found.explanation
    event = pending_changes.pending_event(archive, LAB.name)
    assert event is not None and event["findings"] == [found.finding_id]
    assert event["diff"] == [{"fact": "matmul_tflops", "old": "800 TFLOP/s", "new": "702 TFLOP/s"}]
    assert probed(archive, known, 5, 701).news == (), "what stands is no news"


@pytest.mark.parametrize("measured", [True, False])
def test_as_usual_again_it_resolves_and_what_was_measured_is_measured_again(archive: Archive, known: Declarations, measured: bool) -> None:
    for week, matmul in enumerate((800, 700, 700)):
        probed(archive, known, week, matmul)
    if measured:
        event = pending_changes.pending_event(archive, LAB.name)
        assert event is not None
        detail = {"run_id": "r1", "up_to": event["at"]}
        archive.add_audit(
            who=pending_changes.AUTHOR, what=pending_changes.CHANGE_MEASURED, subject=LAB.name, why="it changed", detail=detail
        )
    back = probed(archive, known, 3, 799)
    assert news(back) == [("matmul_tflops", "700 TFLOP/s", "800 TFLOP/s")]
    assert [f.state for f in archive.findings_of(LAB.name)] == ["resolved"]
    assert (pending_changes.pending_event(archive, LAB.name) is not None) == measured, "what no benchmark began after is taken back"


def test_its_chart_shows_the_probes(archive: Archive, known: Declarations) -> None:
    for week, matmul in enumerate((800, 802, None, 799, 700, 701)):
        probed(archive, known, week, matmul)
    (found,) = open_findings(archive)
    history = finding_history(archive, found)
    assert history is not None and (history.change, history.begin) == ("−12 %", "2026-11-29")
    assert LAB.name in history.title and "matmul" in history.title
    assert [p.middle for p in history.points] == [800, 802, 799, 700, 701] and (history.level, history.unit) == (800, "TFLOP/s")
    assert finding_history(archive, replace(found, since="2026-10-01")) is None, "a chart without a before shows no change"


def test_accepted_it_is_what_later_probes_are_held_against(archive: Archive, known: Declarations) -> None:
    for week, matmul in enumerate((800, 700, 701)):
        probed(archive, known, week, matmul)
    (found,) = open_findings(archive)
    archive.set_finding_state(found.finding_id, "accepted", by="anna", why="the cap is meant")
    assert probed(archive, known, 3, 700).figures[0].slow == 0 and open_findings(archive) == []
    for week in (4, 5):
        probed(archive, known, week, 600)
    (again,) = open_findings(archive)
    assert again.finding_id != found.finding_id and again.effect == pytest.approx(600 / 700 - 1, abs=1e-3)


def test_a_driver_seen_from_inside_is_the_finding_that_a_look_would_open(archive: Archive, known: Declarations) -> None:
    probed(archive, known, 0, 800)
    changed = probed(archive, known, 1, 800, {"driver.version": "575.2", "limits.nofile": 4096})
    (found,) = open_findings(archive)
    assert (found.kind, found.subject, found.campaign_id) == ("environment", "environment", None)
    assert [m.name for m in found.members] == ["driver.version"], "limits are of the process that looked"
    assert news(changed) == [("driver.version", "570.1", "575.2")] and pending_changes.pending_event(archive, LAB.name)
    # What a look sees of it then is known, and what it does not see it does not take back.
    looked = check_provider.compare_with_accepted(
        archive, known, LAB, ProviderFacts(({"driver.version": "575.2"},), {}), START + timedelta(days=8)
    )
    assert looked.news == () and len(open_findings(archive)) == 1
    assert (
        check_provider.compare_with_accepted(
            archive, known, LAB, ProviderFacts(({"os.kernel": "6.1.0"},), {}), START + timedelta(days=9)
        ).news
        == ()
    )
    archive.set_finding_state(found.finding_id, "accepted", by="anna", why="rolled out")
    assert probed(archive, known, 2, 800, {"driver.version": "575.2"}).changes == ()


def test_a_look_knows_what_a_campaign_measured_before_any_probe(archive: Archive, known: Declarations) -> None:
    asked = trial(campaign="2026-10", planned_at=START - timedelta(days=5), where=LAB)
    archive.record(document(asked, environment=Environment.of({**FACTS, "driver.version": "560.0"})), uri="file:///nowhere")
    assert news(probed(archive, known, 0, 800)) == [("driver.version", "560.0", "570.1")]


def test_a_cluster_says_some_facts_of_its_nodes_in_other_words(archive: Archive, known: Declarations) -> None:
    where = cluster_provider(accelerator=H100)
    nodes = {"os.kernel": "6.1.0", "gpu.count": 8, "driver.version": "570.1"}
    check_provider.compare_with_accepted(archive, known, where, ProviderFacts((nodes,), {}), START - timedelta(days=1))
    first = probed(archive, known, 0, 800, {"gpu.count": 1}, where=where)
    assert first.changes == ()
    changed = probed(archive, known, 1, 800, {"gpu.count": 1, "driver.version": "575.2"}, where=where)
    assert [c["fact"] for c in changed.changes] == ["driver.version"]


def test_what_neighbours_slow_down_does_not_count(archive: Archive, known: Declarations) -> None:
    probed(archive, known, 0, 800)
    for week in (1, 2, 3):
        seen = probed(archive, known, week, 500, foreign_cpu=0.3)
    assert seen.figures == () and "30%" in seen.notes[0] and open_findings(archive) == []
    assert due(archive, known, 3.5), "it is made again soon"
    assert probed(archive, known, 4, 800, foreign_cpu=0.1).figures[0].usual == 800e12


def test_what_was_left_out_is_said_and_nothing_is_concluded(archive: Archive, known: Declarations) -> None:
    for week, matmul in enumerate((800, 700, 700)):
        probed(archive, known, week, matmul)
    blind = probed(archive, known, 3, None)
    (note,) = blind.notes
    assert note.startswith("matmul") and TIMED_OUT in note and len(open_findings(archive)) == 1


def test_it_is_due_when_its_time_has_passed_or_the_last_one_was_slow_for_once(archive: Archive, known: Declarations) -> None:
    assert due(archive, known, 0)
    probed(archive, known, 0, 800)
    assert not due(archive, known, 0.9) and due(archive, known, 0.99), "a daily run does not miss its day by minutes"
    probed(archive, known, 1, 700)
    assert not due(archive, known, 1.01) and due(archive, known, 1.15)
    probed(archive, known, 1.15, 700)
    assert not due(archive, known, 1.3), "a finding stands: the next one comes in its time"
    assert not due(archive, known, 9, provider()), "nobody asked for it"


@pytest.fixture
def config(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Declarations of one simulated provider whose arithmetic becomes slower on 2026-11-10."""
    folder = tmp_path / "config"
    shutil.copytree(CONFIG, folder)
    declared = yaml.safe_load((folder / "providers" / "simulated-h100.yaml").read_text())
    slower = {"kind": "step", "since": "2026-11-10", "worse": "10%", "probes": ["matmul_tflops"]}
    declared |= {"name": "sim", "watch": {"probe": "3d"}}
    declared["launcher"]["drift"] = [slower]
    (folder / "providers" / "sim.yaml").write_text(yaml.safe_dump(declared))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(folder))
    return folder


def test_a_simulated_provider_is_probed_day_by_day(config: Path, archive: Archive) -> None:
    told = [probe.probe_provider("sim", START + timedelta(days=day)).findings for day in (0, 3, 6, 9, 12, 15)]
    assert [len(found) for found in told] == [0, 0, 0, 0, 1, 0]
    (found,) = archive.findings_of("sim", unsettled=True)
    detail = Finding.of(found.detail)
    assert (detail.simulated, detail.subject, detail.metric, detail.since) == (True, "probe", "matmul_tflops", "2026-11-10")


def test_the_daily_task_probes_what_is_due_and_ends_well_without(config: Path, archive: Archive) -> None:
    first, second = (upkeep.probe.function("sim") for _ in range(2))
    assert first == {"news": [], "findings": []} and len(archive.snapshots("sim", "probe")) == 1
    assert "was probed on" in second["put_off"] and len(archive.snapshots("sim", "probe")) == 1
    undeclared = upkeep.probe.function("local-2core")
    assert set(undeclared) == {"put_off"} and "watch.probe" in undeclared["put_off"]


def test_a_budget_that_does_not_carry_it_puts_it_off(config: Path, archive: Archive) -> None:
    file = config / "providers" / "sim.yaml"
    file.write_text(file.read_text() + "budget: {gpu_hours_per_month: 0.01}\n")
    seen = probe.probe_provider("sim", START)
    assert seen.put_off is not None and "budget" in seen.put_off and "2026-11" in seen.put_off
    assert archive.latest_snapshot("sim", "probe", utc_now()) is None


def test_an_unknown_provider_is_named(config: Path) -> None:
    with pytest.raises(LookupError, match='"nobody"'):
        probe.probe_provider("nobody")
