"""Every rule fires for the attempt that breaks it, for no other, and stays silent at its edge."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.data.result_documents import document, failed, trial
from tests.unit.quality.conftest import Case, all_cases

from plumbline.quality import QualityReport, check

Checked = tuple[dict[str, Case], QualityReport, Path]


@pytest.mark.parametrize("name", list(all_cases()))
def test_each_case_gets_exactly_its_verdict(checked: Checked, name: str) -> None:
    cases, report, _ = checked
    case = cases[name]
    for measured in case.documents:
        verdict = report.verdicts[f"{measured.trial.trial_id}#{measured.trial.attempt}"]
        assert {r.code for r in verdict.reasons} == case.codes, verdict
        assert verdict.action == case.action
        assert case.says in " | ".join(r.detail for r in verdict.reasons)


def test_the_cases_cover_every_rule(checked: Checked) -> None:
    from plumbline.quality import suites

    cases, _, _ = checked
    rules = [*suites.attempts_suite([trial()]).expectations]
    for kind in ("training", "inference"):
        rules += [*suites.facts_suite(kind).expectations, *suites.numbers_suite(kind).expectations]  # type: ignore[arg-type]
    codes = {rule.meta["code"] for rule in rules}
    assert codes - {"trial_missing"} == set().union(*(case.codes for case in cases.values()))


def test_a_failed_expectation_rejects_its_attempts(checked: Checked) -> None:
    cases, report, _ = checked
    (key,) = [key for key, verdict in report.verdicts.items() if any(reason.code == "steps_missing" for reason in verdict.reasons)]
    assert key == f"{cases['steps missing'].documents[0].trial.trial_id}#1"
    assert report.verdicts[key].action == "reject"
    assert not report.success
    assert report.problems == (), "everything planned is there"


def test_a_missing_trial_is_a_problem_of_the_table_and_of_no_trial(tmp_path: Path) -> None:
    planned = [trial(repeat=n) for n in (1, 2, 3)]
    report = check([document(planned[0])], planned, tmp_path, "incomplete")
    assert not report.success
    (problem,) = report.problems
    assert problem.code == "trial_missing"
    assert [each.trial_id in problem.detail for each in planned] == [False, True, True]
    assert [v.action for v in report.verdicts.values()] == ["accept"]


def test_a_complete_campaign_passes_quietly_even_if_a_trial_failed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    documents = [document(trial("training")), document(trial("inference")), failed(trial(repeat=2))]
    report = check(documents, [d.trial for d in documents], tmp_path, "complete")
    assert report.success and report.problems == ()
    assert {v.action for v in report.verdicts.values()} == {"accept"}
    assert capfd.readouterr() == ("", ""), "no progress bars, no log lines of the library"


def test_no_document_at_all_is_a_missing_campaign(tmp_path: Path) -> None:
    report = check([], [trial()], tmp_path, "nothing")
    assert (report.success, report.verdicts) == (False, {})
    assert [p.code for p in report.problems] == ["trial_missing"]
