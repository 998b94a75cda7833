"""`plumbline campaigns`, `scorecard` and `report`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.data.result_documents import document, failed, training_metrics, training_workload, trial

from plumbline.archive import open_archive


def test_the_newest_campaigns_are_listed(campaigns, plumbline):
    campaigns(**{f"c{n:02d}": [0.1] for n in range(14)})
    listed = [word for word in plumbline("campaigns").stdout.split() if word[0] == "c" and word[1:].isdigit()]
    every = [word for word in plumbline("campaigns", "--all").stdout.split() if word[0] == "c" and word[1:].isdigit()]
    assert (len(listed), len(every)) == (12, 14)


@pytest.mark.fault("a campaign's reason reads as Rich markup, such as [/ops/123]", ends="shown as text", keeps="every row")
def test_other_peoples_text_is_no_markup(campaigns, plumbline):
    campaigns(first=[0.1])
    with open_archive() as archive:
        asked = trial(campaign="second").model_copy(update={"reason": "[/ops/123] [red]now[/] :warning:"})
        archive.record(document(asked, metrics=training_metrics(step_time=0.1)), uri="file:///second")
    result = plumbline("campaigns")
    assert result.exit_code == 0 and "[/ops/123] [red]now[/] :warning:" in result.stdout


def test_the_newest_campaign_is_shown(campaigns, plumbline, said):
    campaigns(first=[0.1, 0.1])
    found, code = said("scorecard")
    assert code == 0 and found["campaign"] == "first"
    assert found["scorecards"][0]["counts"]["valid"] == 2
    assert "step time" in plumbline("scorecard", "first").stdout
    text = plumbline("scorecard", "first", "-v").stdout
    assert found["beside"][0]["primary"]["name"] in text and "launch success" in text and "manual_steps" in text
    assert found["beside"][0]["friction"][0]["name"] == "launch success"


def test_columns_that_cannot_be_compared_say_so(campaigns, plumbline):
    campaigns(first=[0.1, 0.1])
    with open_archive() as archive:
        asked = trial(campaign="first", repeat=9, workload=training_workload().model_copy(update={"version": 2}))
        archive.record(document(asked, metrics=training_metrics(step_time=0.1)), uri="file:///other")
    assert "not comparable: version" in plumbline("scorecard", "first").stdout


def test_what_is_not_valid_says_why(campaigns, plumbline):
    campaigns(first=[0.1, 0.1])
    assert "not valid" not in plumbline("scorecard", "first").stdout
    with open_archive() as archive:
        archive.record(failed(trial(campaign="second", repeat=1)), uri="file:///second")
    said = plumbline("scorecard", "second").stdout
    assert "not valid" in said
    (reason,) = failed(trial(campaign="second", repeat=1)).validity.reasons
    assert ".r1: failed\n" in said and reason.detail in said


def test_a_workload_without_a_usable_trial_says_why_on_every_surface(campaigns, plumbline, said):
    campaigns(first=[0.1, 0.1])
    with open_archive() as archive:
        for repeat in (1, 2, 3):
            asked = trial(campaign="first", repeat=repeat, workload=training_workload(name="nowhere"))
            archive.record(document(asked, metrics=(), status="invalid"), uri=f"file:///nowhere/{repeat}")
    why = "no usable trial: step_time_unsteady: neighbours"
    found, _ = said("scorecard", "first")
    card = next(c for c in found["scorecards"] if c["workload"] == "nowhere")
    assert (card["planned"], card["unusable"]) == (3, why)
    assert [c["unusable"] for c in found["scorecards"] if c["workload"] != "nowhere"] == [""]
    assert f"lab-2core: {why}" in plumbline("scorecard", "first").stdout
    full = plumbline("scorecard", "first", "-v").stdout
    assert full.count("no usable trial") == 2, "in the verdict's place of bars or below the card"
    report, _ = said("report", "first")
    page = Path(report["report"]).read_text()
    assert page.lower().count(why) >= 2, "beside the primary metric and in the card"


def test_a_report_is_written_where_it_says(campaigns, said):
    campaigns(first=[0.1, 0.1])
    found, code = said("report", "first")
    assert code == 0 and Path(found["report"]).read_text().startswith("<!doctype html>")


def test_a_report_s_tables_are_written_if_asked_for(campaigns, plumbline, said):
    campaigns(first=[0.1, 0.1])
    found, _ = said("report", "first")
    assert found["tables"] is None and not (Path(found["report"]).parent / "tables").exists()
    found, code = said("report", "first", "--tables", "csv")
    folder = Path(found["tables"])
    assert code == 0 and folder == Path(found["report"]).parent / "tables"
    assert (folder / "trials.csv").read_text().count("\n") == 3
    assert plumbline("report", "first", "--tables", "xlsx").exit_code == 2


def test_a_criterion_that_cannot_be_judged_says_why():
    from plumbline.cli.scorecard import _outcome
    from plumbline.presentation.scorecard_rows import CriterionCell

    insufficient = CriterionCell("insufficient", "–", "", "p99 needs 100 requests")
    assert _outcome(insufficient).plain.endswith(insufficient.explanation)
    passed = CriterionCell("pass", "0.4 s", "50 % margin", "")
    assert _outcome(passed).markup == f"[green]pass[/green] {passed.value} ({passed.margin})"


def test_a_declaration_that_does_not_hold_is_told_in_its_line(campaigns, plumbline, home, monkeypatch):
    campaigns(first=[0.1, 0.1])
    (home / "config").mkdir()
    (home / "config" / "thresholds.yaml").write_text("validity: 7\n")
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(home / "config"))
    for command in ("report", "scorecard"):
        told = plumbline(command, "first")
        assert told.exit_code == 2 and "thresholds.yaml" in told.stderr


def test_attempts_with_like_reasons_are_one_line(campaigns, plumbline):
    with open_archive() as archive:
        for repeat in range(1, 18):
            archive.record(failed(trial(campaign="second", repeat=repeat)), uri=f"file:///second/{repeat}")
    lines = plumbline("scorecard", "second").stdout.splitlines()
    assert sum(line.startswith("  17 failed: ") for line in lines) == 1
    assert not any(".r1: failed" in line for line in lines)
    assert sum(": failed" in line for line in plumbline("scorecard", "second", "-v").stdout.splitlines()) == 17
