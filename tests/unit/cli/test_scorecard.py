"""`plumbline campaigns`, `scorecard` and `report`."""

from __future__ import annotations

from pathlib import Path


def test_an_empty_archive_is_said(plumbline):
    assert "no campaign yet" in plumbline("campaigns").stdout
    result = plumbline("scorecard")
    assert result.exit_code == 2 and "plumbline run" in result.stderr


def test_the_newest_campaign_is_shown(campaigns, plumbline, said):
    campaigns(first=[0.1, 0.1])
    found, code = said("scorecard")
    assert code == 0 and found["campaign"] == "first"
    assert found["scorecards"][0]["counts"]["valid"] == 2
    assert "step time" in plumbline("scorecard", "first").stdout


def test_a_report_is_written_where_it_says(campaigns, said):
    campaigns(first=[0.1, 0.1])
    found, code = said("report", "first")
    assert code == 0 and Path(found["report"]).read_text().startswith("<!doctype html>")
