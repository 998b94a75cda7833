"""Who is missed, from when on, and how grave that is."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from tests.golden import Golden
from tests.unit.findings.conftest import written

from plumbline.declarations.purposes import is_monthly
from plumbline.findings.types.silence import is_complete, missing_series_findings

TRAINING = "training/gpt@1/h1/torch/lab/here/host"
SERVING = "inference/chat@1/h1/triton/lab/here/host"


@pytest.mark.parametrize(("name", "is_one"), [("2026-11", True), ("2026-13", False), ("2026-11-retry", False), ("replay-20261101", False)])
def test_only_campaigns_that_are_called_by_a_month_are_expected_of_everybody(name: str, is_one: bool) -> None:
    assert is_monthly(name) is is_one


def test_a_month_is_over_when_its_first_days_are() -> None:
    def at(day: int, hour: int) -> datetime:
        return datetime(2026, 11, day, hour, tzinfo=timezone.utc)

    assert not is_complete("2026-11", at(1, 0)) and not is_complete("2026-11", at(2, 11))
    assert is_complete("2026-11", at(2, 12)) and is_complete("2026-10", at(1, 0))


def test_all_that_reported_last_together_is_one_page(golden: Golden) -> None:
    (found,) = missing_series_findings("2026-11", {TRAINING: "2026-10", SERVING: "2026-10"})
    assert (found.severity, found.kind, found.campaign_id, len(found.members)) == ("page", "missing_data", "2026-10", 2)
    golden("findings.stopped_reporting", written(found))
    assert (found.concerns, found.title) == ("", "stopped reporting")


def test_one_of_two_that_reports_nothing_is_a_warning_that_names_it() -> None:
    (found,) = missing_series_findings("2026-11", {TRAINING: "2026-10", SERVING: "2026-11"})
    assert (found.severity, found.series) == ("warn", (TRAINING,))
    assert found.concerns in found.evidence
    assert (found.concerns, found.title) == ("training gpt", "stopped reporting")
    (several,) = missing_series_findings("2026-11", {TRAINING: "2026-10", SERVING: "2026-10", TRAINING.replace("gpt", "vision"): "2026-11"})
    assert several.title != found.title and "1 more" in several.title


def test_who_reports_and_who_never_did_is_not_missed() -> None:
    assert missing_series_findings("2026-11", {TRAINING: "2026-11", SERVING: None}) == ()


def test_who_never_took_part_in_any_month_is_one_warning_that_goes_on() -> None:
    never = {TRAINING: None, SERVING: None}
    (first,), (second,) = (missing_series_findings(month, never, never=frozenset({"lab"})) for month in ("2026-10", "2026-11"))
    assert first.finding_id == second.finding_id
    assert (first.severity, first.kind, first.campaign_id, first.since) == ("warn", "missing_data", None, "2026-10-01")
    assert first.standing == (SERVING, TRAINING) and first.concerns == ""


def test_months_of_one_silence_are_one_finding_and_a_later_silence_is_another() -> None:
    (first,), (second,) = (missing_series_findings(month, {TRAINING: "2026-09"}) for month in ("2026-10", "2026-11"))
    assert first.finding_id == second.finding_id
    (again,) = missing_series_findings("2026-11", {TRAINING: "2026-10"})
    assert again.finding_id != first.finding_id
