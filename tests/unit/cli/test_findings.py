"""`plumbline findings`, on an archive of its own."""

from __future__ import annotations

import getpass
from datetime import datetime, timezone
from typing import Any

import pytest

from plumbline.archive import FindingRecord, open_archive
from plumbline.results.finding import Finding
from plumbline.workflows.review import review_campaign

WHY = "the provider fixes it"
SAME = [0.100, 0.101, 0.099, 0.1005, 0.0995]
SLOWER = [t * 1.5 for t in SAME]


@pytest.fixture
def slower(campaigns, said) -> dict[str, Any]:
    """The finding of a campaign that is slower than its baseline."""
    for name, times in {"before": SAME, "after": SLOWER}.items():
        campaigns(**{name: times})
        review_campaign(name)
    (found,) = said("findings")[0]["findings"]
    return found


def test_a_finding_is_listed_shown_and_decided(slower, plumbline, said):
    assert slower["kind"] == "performance"
    name, key = slower["finding_id"], slower["series_key"]
    assert "step_time" in plumbline("findings", "show", name).stdout
    assert plumbline("findings", "acknowledge", name, "--why", "looking").exit_code == 0
    assert plumbline("findings", "accept", name, "--why", "new normal").exit_code == 0
    assert said("findings")[0]["findings"] == []
    told, _ = said("findings", "show", name)
    assert [entry["why"] for entry in told["audit"] if entry["why"] in ("looking", "new normal")] == ["looking", "new normal"]
    compared, code = said("compare", "--finding", name)
    assert (code, compared["verdict"]) == (4, "regressed")  # as the review judged it
    rows = [r for r in compared["comparisons"][0]["rows"] if r["verdict"] == "regressed"]
    assert "step_time" in {r["metric"] for r in rows}
    assert all(r["candidate"] == pytest.approx(r["baseline"] * (1 + r["effect"])) for r in rows)
    assert plumbline("compare", "--finding", name, "before").exit_code == 2
    _, code = said("compare", "before", "after")
    assert code == 4  # what was measured stays what it was
    with open_archive() as archive:
        assert archive.baseline(key) == ["after"]
    back, _ = said("findings", "reopen", name, "--why", "mended")
    assert back["baselines"] == {key: ["before"]}
    assert [f["state"] for f in said("findings")[0]["findings"]] == ["open"]


def test_an_unknown_finding_is_said(campaigns, plumbline):
    campaigns(first=[0.1])
    result = plumbline("findings", "show", "000000000000")
    assert result.exit_code == 2 and "000000000000" in result.stderr


def test_a_resolved_finding_leaves_the_baseline_where_it_was(slower, plumbline, said):
    assert plumbline("findings", "resolve", slower["finding_id"], "--why", "cable").exit_code == 0
    assert said("findings")[0]["findings"] == []
    with open_archive() as archive:
        assert archive.baseline(slower["series_key"]) == ["before"]


def test_a_rejected_change_keeps_the_baseline_and_says_who_and_why(slower, plumbline, said):
    done, code = said("findings", "reject", slower["finding_id"], "--why", WHY)
    assert (done["answer"], done["baselines"], code) == ("keep", {}, 0)
    told, _ = said("findings", "show", slower["finding_id"])
    assert told["finding"]["state"] == "acknowledged"
    kept = next(entry for entry in told["audit"] if entry["what"] == "baseline_kept")
    assert kept["why"] == WHY and kept["who"] == getpass.getuser()
    with open_archive() as archive:
        assert archive.baseline(slower["series_key"]) == ["before"]
    assert WHY in plumbline("findings", "show", slower["finding_id"]).stdout


def test_what_is_settled_cannot_be_decided_again_and_a_reason_is_asked_for(slower, plumbline, said):
    name = slower["finding_id"]
    assert plumbline("findings", "accept", name).exit_code == 2
    assert "why is empty" in plumbline("findings", "accept", name, "--why", " ").stderr
    assert plumbline("findings", "resolve", name, "--why", "cable").exit_code == 0
    result = plumbline("findings", "accept", name, "--why", "new normal")
    assert result.exit_code == 2 and "is resolved" in result.stderr


def test_what_no_campaign_showed_is_listed_with_its_day_and_accepted_as_it_is(home, plumbline, golden):
    from tests.unit.results.test_finding import NOTICED

    from plumbline.workflows.findings import finding_record

    with open_archive() as archive:
        archive.save_findings([finding_record(NOTICED)])
    (line,) = [line for line in plumbline("findings").stdout.splitlines() if NOTICED.finding_id in line]
    assert "open" in line and NOTICED.since in line
    accepted = plumbline("findings", "accept", NOTICED.finding_id, "--why", "announced")
    golden("cli.findings_accept_without_campaign", accepted.stdout, id=NOTICED.finding_id)


def test_the_findings_of_a_provider_are_its_own_and_the_causes_that_it_shares(campaigns, plumbline, said):
    campaigns(first=[0.1])
    causes = {"cause": {"providers": ["lab-2core", "sim"]}}
    with open_archive() as archive:
        for name, provider, detail in (("own", "lab-2core", {}), ("other", "sim", {}), ("shared", "fleet", causes)):
            archive.save_findings([FindingRecord(name, "", None, provider, "performance", "warn", name, detail)])
    assert sorted(f["finding_id"] for f in said("findings", "--provider", "lab-2core")[0]["findings"]) == ["own", "shared"]
    assert len(said("findings")[0]["findings"]) == 3
    refused = plumbline("findings", "--provider", "lab-2cor")
    assert refused.exit_code == 2 and 'no provider is called "lab-2cor"' in refused.stderr and "lab-2core" in refused.stderr


def test_a_snooze_is_shown_logged_and_ended(plumbline, said):
    with open_archive() as archive:
        dearer = Finding("f1", "", None, "price", "warn", "dearer", "", "lab", "", "", "price spot", since="2026-11-20")
        archive.save_findings([FindingRecord("f1", "", None, "lab", "price", "warn", "dearer", dearer.to_dict())])
    assert "2999-12-01 00:00" in plumbline("findings", "snooze", "f1", "--until", "2999-12-01", "--why", "known").stdout
    assert "2999-12-01 00:00" in plumbline("findings").stdout
    found, _ = said("findings", "snooze", "f1", "--until", "14d", "--why", "later")
    assert found["snoozed_until"] > datetime.now(timezone.utc).isoformat()
    assert plumbline("findings", "snooze", "f1", "--until", "now", "--why", "it is for now").exit_code == 0
    assert "snoozed" not in plumbline("findings").stdout
    with open_archive() as archive:
        log = [(e.who, e.what) for e in archive.audit("f1")][1:]
    assert log == [(getpass.getuser(), what) for what in ("finding_snoozed", "finding_snoozed", "finding_woken")]


@pytest.mark.parametrize(
    ("until", "expected"),
    [("soon", '"soon" is no time; expected a day'), ("2020-01-01", "is past"), ("2999-13-01", "is no time"), ("999999999d", "is no time")],
)
def test_a_snooze_until_no_time_is_refused(campaigns, plumbline, until, expected):
    campaigns(first=[0.1])
    with open_archive() as archive:
        archive.save_findings([FindingRecord("f1", "", None, "lab", "price", "warn", "dearer", {})])
    result = plumbline("findings", "snooze", "f1", "--until", until, "--why", "x")
    assert result.exit_code == 2 and expected in result.stderr


def test_an_id_may_be_shortened_to_what_only_one_begins_with(slower, plumbline, said):
    assert said("findings", "show", slower["finding_id"][:5])[0]["finding"]["finding_id"] == slower["finding_id"]
    assert said("scorecard", "bef")[0]["campaign"] == "before"
    assert "expected one such as after, before" in plumbline("scorecard", "aftre").stderr
    assert "several begin" in plumbline("replay", "before.").stderr


def test_a_second_answer_says_that_its_reason_was_not_kept(slower, plumbline, said):
    for command, kept in (("acknowledge", True), ("acknowledge", False), ("accept", True), ("accept", False)):
        done = plumbline("findings", command, slower["finding_id"], "--why", f"{command} {kept}")
        assert ("not kept" not in done.stdout) == kept
    reasons = [entry["why"] for entry in said("findings", "show", slower["finding_id"])[0]["audit"]]
    assert "accept True" in reasons and "accept False" not in reasons
