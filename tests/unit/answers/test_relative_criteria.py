"""Criteria relative to the baseline or to another provider: which reference they get, and that every surface shows the limit and its origin."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import date, datetime, timezone
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.data.result_documents import document, provider, training_metrics, training_workload, trial
from tests.parsed import Parsed
from typer.testing import CliRunner

from plumbline.analysis.conclusions import conclude
from plumbline.analysis.decisions.cheapest import Requirements, cheapest
from plumbline.analysis.decisions.current_results import decide_choice
from plumbline.analysis.decisions.decision_record import Inputs, input_hashes
from plumbline.analysis.scorecards.criteria import CriterionVerdict
from plumbline.answers.current_results import current_results
from plumbline.archive import Archive, open_archive
from plumbline.cli.app import app
from plumbline.cli.output import out
from plumbline.dashboard.app import create_app
from plumbline.declarations import Preference, load
from plumbline.words.criteria import explanation_text
from plumbline.workflows.report import campaign_data, write_report

FASTER = "step_time within 10% of baseline in steady"
HIGHER = "tokens_per_second within 10% of baseline in steady"
AS_ACME = "step_time within 5% of provider acme in steady"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def archive(home: Path) -> Iterator[Archive]:
    with open_archive() as opened:
        yield opened


def measured(
    archive: Archive, month: int, step: float, name: str = "lab", *, status: str = "valid", simulated: bool = False, version: int = 1
) -> str:
    """Two repeats of a month's campaign; their series."""
    workload = training_workload(acceptance=[FASTER, HIGHER, AS_ACME], version=version)
    for repeat, times in enumerate((step, step * 1.001), start=1):
        planned = datetime(2025, month, 1, 1, tzinfo=timezone.utc)
        asked = trial(campaign=f"2025-{month:02d}", repeat=repeat, where=provider(name), workload=workload, planned_at=planned)
        rows = training_metrics(step_time=times)
        archive.record(document(asked, metrics=rows, status=status, simulated=simulated), uri="file:///store")
    return str(asked.series_key)


def verdicts(archive: Archive, month: int, name: str = "lab") -> dict[str, CriterionVerdict]:
    (card,) = (c for c in conclude(campaign_data(archive, f"2025-{month:02d}")).cards if c.provider == name)
    return {verdict.declared: verdict for verdict in card.acceptance}


def test_without_a_reference_a_criterion_is_neither_met_nor_failed(archive: Archive) -> None:
    measured(archive, 9, 0.1)
    found = verdicts(archive, 9)
    assert {(v.outcome, v.limit, v.margin, v.met, v.text == v.declared) for v in found.values()} == {("insufficient", None, None, 0, True)}
    assert found[FASTER].value == pytest.approx(0.10005)
    assert explanation_text(found[FASTER].basis).startswith("no baseline yet")
    assert explanation_text(found[AS_ACME].basis).startswith("no comparable result of acme yet")


@pytest.mark.parametrize(("step", "outcome"), [(0.109, "pass"), (0.115, "fail"), (0.05, "pass")])
def test_the_baseline_sets_the_limit_in_either_direction(archive: Archive, step: float, outcome: str) -> None:
    series = measured(archive, 9, 0.1)
    archive.accept_baseline(series, "2025-09", by="ada", why="a good month")
    measured(archive, 10, step)
    found = verdicts(archive, 10)
    assert found[FASTER].outcome == found[HIGHER].outcome == outcome
    assert found[FASTER].limit == pytest.approx(0.10005 * 1.1)
    assert found[HIGHER].limit == pytest.approx(639.7 * 0.9, rel=1e-4)
    assert found[FASTER].text == "step_time <= 110 ms in steady (within 10 % of 100 ms, the baseline 2025-09)"
    assert verdicts(archive, 9)[FASTER].outcome == "insufficient", "a baseline is not compared with itself"


def test_the_limit_moves_with_a_decision_alone(archive: Archive) -> None:
    series = measured(archive, 9, 0.1)
    archive.accept_baseline(series, "2025-09", by="ada", why="a good month")
    measured(archive, 10, 0.2)
    measured(archive, 11, 0.2)
    assert verdicts(archive, 11)[FASTER].outcome == "fail"
    archive.accept_baseline(series, "2025-10", by="ada", why="another driver")
    assert (verdicts(archive, 11)[FASTER].outcome, verdicts(archive, 10)[FASTER].outcome) == ("pass", "fail")


def test_the_provider_is_read_from_its_newest_usable_and_comparable_result(archive: Archive) -> None:
    measured(archive, 11, 0.1)
    measured(archive, 8, 0.3, "acme")
    measured(archive, 9, 0.1, "acme")
    measured(archive, 10, 0.3, "acme", status="invalid")
    measured(archive, 10, 0.3, "acme", version=2)
    measured(archive, 10, 0.3, "other")
    found = verdicts(archive, 11)[AS_ACME]
    assert found.outcome == "pass"
    assert found.limit == pytest.approx(0.10005 * 1.05)
    assert found.text == "step_time <= 105 ms in steady (within 5 % of 100 ms, acme in 2025-09)"
    assert set(verdicts(archive, 9, "acme")) == {FASTER, HIGHER}, "a provider is not compared with itself"


@pytest.mark.parametrize(("lab", "acme", "outcome"), [(True, True, "pass"), (True, False, "insufficient"), (False, True, "insufficient")])
def test_simulated_and_measured_results_never_mix(archive: Archive, lab: bool, acme: bool, outcome: str) -> None:
    measured(archive, 9, 0.1, "acme", simulated=acme)
    measured(archive, 10, 0.1, simulated=lab)
    assert verdicts(archive, 10)[AS_ACME].outcome == outcome


def test_the_cheapest_that_meets_the_requirements_is_judged_by_the_same_limits(archive: Archive) -> None:
    for name, step in (("lab", 0.1), ("slow", 0.2), ("acme", 0.1)):
        measured(archive, 9, step, name)
    needs = Requirements("training", "gpt-test", (), training_workload(acceptance=[AS_ACME]).acceptance)
    results = current_results(archive, load(), date(2025, 11, 1))
    missed = {s.provider: s.missed for s in cheapest(needs, "cost_per_run", results.trials).setups}
    assert missed["lab"] == missed["acme"] == ()
    (slow,) = missed["slow"]
    assert slow.text == "step_time <= 105 ms in steady (within 5 % of 100 ms, acme in 2025-09)"
    assert slow.limit == pytest.approx(0.10005 * 1.05)


def test_every_surface_shows_the_limit_and_where_it_comes_from(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(out, "_width", 400)
    series = measured(archive, 9, 0.1)
    archive.accept_baseline(series, "2025-09", by="ada", why="a good month")
    measured(archive, 10, 0.12)
    measured(archive, 10, 0.1, "fresh")
    limit = "step_time <= 110 ms in steady (within 10 % of 100 ms, the baseline 2025-09)"
    report = Path(write_report("2025-10", ("csv",)))
    for html in (Parsed(report.read_text()), *map(Parsed, pages("/workloads/gpt-test"))):
        (row,) = (row for row in html.all("table.criteria tbody tr") if FASTER in row.text)
        cells = {head: cell.text for head, cell in zip(html.texts("table.criteria thead th")[1:], row.all("td"), strict=True)}
        assert limit in cells["lab"] and "no baseline yet" in cells["fresh"] and "within 10 %" not in cells["fresh"]
    assert limit.replace("<", "&lt;") in report.with_suffix(".md").read_text(), "among the limits of the comparison"
    (line,) = (
        row
        for row in csv.DictReader((report.parent / "tables" / "acceptance.csv").open())
        if (row["provider"], row["criterion"]) == ("lab", FASTER)
    )
    assert (line["judged_as"], line["outcome"]) == (limit, "fail")
    (page,) = pages("/trials/2025-10.lab.training.gpt-test.0200.r1")
    assert limit in Parsed(page).part("acceptance").text
    printed = CliRunner().invoke(app, ["scorecard", "2025-10", "-v"]).stdout
    assert limit in printed and "no baseline yet" in printed


def pages(*paths: str) -> list[str]:
    with TestClient(create_app()) as client:
        return [client.get(path).text for path in paths]


def test_a_decision_has_other_inputs_once_a_limit_moved(archive: Archive) -> None:
    series = measured(archive, 9, 0.1)
    measured(archive, 10, 0.1)
    cost = Preference.model_validate({"workloads": ["gpt-test"], "weights": {"step_time": 1.0}}, strict=False)

    def inputs() -> Inputs:
        return input_hashes(decide_choice("team", "training", cost, current_results(archive, load(), date(2025, 11, 1))))

    before = inputs()
    assert inputs() == before
    archive.accept_baseline(series, "2025-09", by="ada", why="a good month")
    assert inputs().trials != before.trials
