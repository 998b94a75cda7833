"""A finding by itself: what it says of its beginning, and that it survives being stored."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plumbline.results.finding import Finding, Member, finding_id

NOTICED = Finding(
    finding_id=finding_id("lab", "2026-11-21", "environment", "environment"),
    series_key="",
    campaign_id=None,
    kind="environment",
    severity="warn",
    evidence="WARN  lab · environment changed: driver 550 → 570, since 2026-11-21",
    explanation="",
    provider="lab",
    workload_kind="",
    workload="",
    subject="environment",
    members=(Member("driver.version", "driver and firmware: driver 550 → 570"),),
    since="2026-11-21",
)


def test_what_no_campaign_showed_has_the_day_and_no_series() -> None:
    assert (NOTICED.began, NOTICED.campaigns, NOTICED.concerns) == ("2026-11-21", (), "")
    assert Finding.of(NOTICED.to_dict()) == NOTICED
    seen = replace(NOTICED, seen_in=("od-1",))
    assert (seen.began, seen.campaigns) == ("2026-11-21", ("od-1",))


def test_what_a_campaign_showed_has_its_name() -> None:
    key = "training/gpt@1/h1/torch/lab/here/host"
    measured = replace(
        NOTICED, campaign_id="2026-11", since=None, series_key=key, workload_kind="training", workload="gpt", seen_in=("2026-12",)
    )
    assert (measured.began, measured.campaigns, measured.concerns) == ("campaign 2026-11", ("2026-11", "2026-12"), "training gpt")
    old = {name: value for name, value in measured.to_dict().items() if name not in ("series", "standing", "since")}
    assert (Finding.of(old).series, Finding.of(old).standing) == ((key,), (key,)), "as an archive wrote it that knew no groups"


@pytest.mark.parametrize("began", [{"since": None}, {"campaign_id": "2026-11"}])
def test_it_has_a_campaign_or_a_day_and_never_both(began: dict[str, str | None]) -> None:
    with pytest.raises(ValueError, match=r"campaign_id .* since "):
        replace(NOTICED, **began)
