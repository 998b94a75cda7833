"""`plumbline alerts`: messages without any Slack."""

from __future__ import annotations

import json
import re

import pytest
from tests.fakes.slack_blocks import checked

SAME = [0.100, 0.101, 0.099, 0.1005, 0.0995]
SLOWER = [t * 1.5 for t in SAME]


@pytest.fixture
def drifted(campaigns):
    """An archive with one open finding."""
    from plumbline.workflows.review import review_campaign

    for campaign, steps in (("2026-01", SAME), ("2026-02", SLOWER)):
        campaigns(**{campaign: steps})
        review_campaign(campaign)


def test_the_example_says_everything_and_needs_nothing(plumbline, home):
    result = plumbline("alerts", "preview", "--example")
    assert result.exit_code == 0
    for part in (
        "on example-eks-p5: gpt-1b trains 7.9 % slower",
        "Because",
        "about 5,700 USD a month",
        "chart: Chart of example-eks-p5",
        "Next steps",
    ):
        assert part in result.stdout
    assert list(home.iterdir()) == []


def test_a_finding_as_lines_as_blocks_and_as_a_page_with_its_chart(drifted, plumbline, said, tmp_path):
    (found,) = said("findings")[0]["findings"]
    name = found["finding_id"]
    (made,), code = said("alerts", "preview", name, "--save", str(tmp_path / "out"))
    assert code == 0 and made["name"] == name
    checked({"text": made["text"], "blocks": made["blocks"]})
    written = json.loads((tmp_path / "out" / f"{name}.json").read_text())
    assert written == {"text": made["text"], "blocks": made["blocks"], "thread": made["thread"]}
    checked({"text": made["text"], "blocks": made["thread"]})
    assert "In the thread" in (tmp_path / "out" / f"{name}.html").read_text()
    assert (tmp_path / "out" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    shown = plumbline("alerts", "preview", "--all").stdout
    assert all(part in shown for part in (made["text"].splitlines()[0], name, "lab-2core", "February 2026"))


def test_a_place_that_is_no_folder_is_said(plumbline, tmp_path):
    (tmp_path / "taken").write_text("")
    result = plumbline("alerts", "preview", "--example", "--save", str(tmp_path / "taken"))
    assert result.exit_code == 2 and "taken" in result.stderr and "expected a folder" in result.stderr


def test_what_is_asked_for_is_said(campaigns, plumbline):
    campaigns(first=[0.1])
    for words in ((), ("--all", "--example")):
        result = plumbline("alerts", "preview", *words)
        assert result.exit_code == 2 and "one of them" in result.stderr
    unknown = plumbline("alerts", "preview", "000000000000")
    assert unknown.exit_code == 2 and "000000000000" in unknown.stderr
    assert "no open findings" in plumbline("alerts", "preview", "--all").stdout


def test_a_digest_without_slack(drifted, plumbline, said, tmp_path):
    from plumbline.archive import open_archive

    with open_archive() as archive:
        month = f"{archive.findings()[0].opened_at:%Y-%m}"
    shown = plumbline("alerts", "digest", "--month", month)
    counts = [re.findall(r"\d+", line.replace(month, "")) for line in shown.stdout.splitlines() if month in line]
    assert counts[0] == ["1"] and "1 finding opened" in shown.stdout
    (made,), _ = said("alerts", "digest", "--save", str(tmp_path))
    checked({"text": made["text"], "blocks": made["blocks"]})
    assert (tmp_path / f"{made['name']}.html").exists() and not (tmp_path / f"{made['name']}.png").exists()
    wrong = plumbline("alerts", "digest", "--month", "November")
    assert wrong.exit_code == 2 and "such as 2026-11" in wrong.stderr
