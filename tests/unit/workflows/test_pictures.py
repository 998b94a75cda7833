"""Which history a finding's chart shows, from campaigns that an archive holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.data.result_documents import PLANNED, document, training_metrics, trial
from tests.fakes.trials import CONFIG

from plumbline.analysis.prices.check import check_price
from plumbline.archive import Archive, open_archive
from plumbline.findings.price import CORE_HOUR, GPU_HOUR, price_finding
from plumbline.presentation.metric_history import HISTORY_CAMPAIGNS, HISTORY_DAYS, finding_history
from plumbline.results.finding import Finding
from plumbline.results.price_reading import Reading
from plumbline.workflows import review
from plumbline.workflows.alert import finding_chart


@pytest.fixture(autouse=True)
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(CONFIG))
    with open_archive() as opened:
        yield opened


def measured(archive: Archive, campaigns: Sequence[tuple[str, float]], repeats: int = 5) -> None:
    for month, (campaign, step_time) in enumerate(campaigns):
        for repeat in range(1, repeats + 1):
            asked = trial(campaign=campaign, repeat=repeat, planned_at=PLANNED + timedelta(days=30 * month))
            archive.record(document(asked, metrics=training_metrics(step_time * (1 + 0.001 * repeat))), uri="file:///nowhere")


def slower(archive: Archive) -> Finding:
    measured(archive, [("2026-01", 0.1), ("2026-02", 0.1), ("2026-03", 0.2)])
    for campaign in ("2026-01", "2026-02"):
        review.review_campaign(campaign)
    (one,) = review.review_campaign("2026-03")
    return next(f for f in one.findings if f.kind == "performance")


def test_a_performance_finding_shows_its_leading_metric(archive: Archive) -> None:
    found = slower(archive)
    history = finding_history(archive, found)
    assert history is not None
    assert [p.label for p in history.points] == ["2026-01", "2026-02", "2026-03"] and history.begin == "2026-03"
    assert [p.middle for p in history.points] == pytest.approx([100.3, 100.3, 200.6]) and history.unit == "ms"
    assert [p.label for p in history.points if p.baseline] == list(found.baseline_campaigns)
    assert history.level == pytest.approx(100.3) and found.ci_low is not None
    assert history.band is not None and history.band[0] == pytest.approx(100.3 * (1 + found.ci_low))
    assert history.change.startswith("+100 %") and "95 %" in history.change and history.title.endswith(" · step time")
    made = finding_chart(archive, found)
    assert made is not None and made.name == f"plumbline-{found.finding_id}.png" and made.data.startswith(b"\x89PNG")


def test_facts_and_failures_have_no_curve(archive: Archive) -> None:
    found = slower(archive)
    assert finding_chart(archive, replace(found, kind="environment")) is None
    assert finding_chart(archive, replace(found, kind="reliability", members=())) is None


def test_what_was_not_measured_before_is_not_drawn(archive: Archive) -> None:
    found = slower(archive)
    assert finding_history(archive, replace(found, campaign_id="2026-01")) is None
    assert finding_history(archive, replace(found, campaign_id="2025-12")) is None
    assert finding_history(archive, replace(found, series_key="training/other@1/h1/torch/p/r/i")) is None


def test_a_long_series_shows_its_newest_campaigns_and_long_names_as_days(archive: Archive) -> None:
    found = slower(archive)
    measured(archive, [*((f"m{i:03d}", 0.1) for i in range(HISTORY_CAMPAIGNS + 5)), ("od-20280101-020000", 0.2)], repeats=1)
    history = finding_history(archive, replace(found, campaign_id="od-20280101-020000"))
    assert history is not None and len(history.points) == HISTORY_CAMPAIGNS
    assert len(history.begin) == len("2028-01-01") and history.points[0].label.startswith("m0")


def test_a_baseline_further_back_than_is_shown_is_the_level_all_the_same(archive: Archive) -> None:
    found = slower(archive)
    measured(archive, [("old", 0.05), *((f"m{i:03d}", 0.1) for i in range(HISTORY_CAMPAIGNS)), ("m999", 0.2)], repeats=1)
    history = finding_history(archive, replace(found, campaign_id="m999", baseline_campaigns=("old",)))
    assert history is not None and "old" not in [p.label for p in history.points]
    assert history.level == pytest.approx(50.05) and history.band is not None


def read(archive: Archive, prices: Sequence[float], **more: Any) -> list[Reading]:
    """A price as it was read on so many days, stored."""
    begin = datetime(2026, 6, 1, 6, tzinfo=timezone.utc)
    readings = [
        Reading(**{"provider": "aws", "purchase": "on_demand", "term": None, "source": "csv", "source_version": "v1", "currency": "USD",
                   "per": "gpu_hour", "gpus": 8, "observed_at": begin + timedelta(days=day), "amount": price, **more})
        for day, price in enumerate(prices)
    ]  # fmt: skip
    archive.record_readings(readings)
    return readings


def priced(archive: Archive, prices: Sequence[float], accepted: float, unit: str = GPU_HOUR, **more: Any) -> Finding:
    """The finding of a price that was read daily."""
    found = price_finding(check_price(read(archive, prices, **more), accepted), unit=unit)
    assert found is not None
    return found


def test_a_price_finding_shows_its_days(archive: Archive) -> None:
    found = priced(archive, [12.29] * 5 + [6.88] * 2, 12.29)
    history = finding_history(archive, found)
    assert history is not None and history.steps
    assert [p.middle for p in history.points] == [12.29] * 5 + [6.88] * 2 and history.begin == "2026-06-06"
    assert (history.level, history.level_name, history.change) == (12.29, "before", "−44 %")
    assert (history.title, history.unit) == ("aws · on-demand", "USD per GPU-hour")


def test_a_price_that_was_never_read_otherwise_begins_with_what_was_accepted(archive: Archive) -> None:
    history = finding_history(archive, priced(archive, [6.88, 6.88], 12.29))
    assert history is not None
    assert [(p.label, round(p.middle, 2)) for p in history.points] == [("accepted", 12.29), ("2026-06-01", 6.88), ("2026-06-02", 6.88)]


def test_a_price_holds_on_the_days_on_which_nobody_read_it(archive: Archive) -> None:
    found = priced(archive, [12.29] * 3 + [6.88] * 2, 12.29)
    read(archive, [6.88], observed_at=datetime(2026, 7, 1, tzinfo=timezone.utc))
    history = finding_history(archive, found)
    assert history is not None and len(history.points) == 31 and history.points[-1].label == "2026-07-01"
    assert [p.middle for p in history.points] == [12.29] * 3 + [6.88] * 28


def test_where_there_is_no_gpu_a_price_is_one_of_a_core(archive: Archive) -> None:
    history = finding_history(archive, priced(archive, [0.1, 0.1, 0.2, 0.2], 0.1, unit=CORE_HOUR))
    assert history is not None and history.unit == "USD per core-hour"


def test_a_held_price_says_so_and_nothing_is_held_against_nothing(archive: Archive) -> None:
    history = finding_history(archive, priced(archive, [10.0, 10.0, 0.0], 10.0))
    assert history is not None and (history.change, history.level) == ("−100 %, held", 10.0)
    assert finding_history(archive, priced(archive, [0.0], 10.0, provider="gcp")) is None
    no_price = priced(archive, [0.0], 10.0, provider="other")
    assert finding_history(archive, replace(no_price, effect=None)) is None


def test_a_reserved_price_of_one_term_and_one_source_and_not_longer_than_a_season(archive: Archive) -> None:
    priced(archive, [9.0] * 3, 5.0, purchase="reserved", term="3y")
    priced(archive, [8.0] * 3, 5.0, source="contract", purchase="reserved", term="1y")
    found = priced(archive, [5.0] * (HISTORY_DAYS + 10) + [4.0] * 2, 5.0, purchase="reserved", term="1y")
    history = finding_history(archive, found)
    assert history is not None and len(history.points) == HISTORY_DAYS and history.title.endswith("reserved 1y")
    assert {p.middle for p in history.points} == {5.0, 4.0}


def test_a_spot_price_is_drawn_without_a_level(archive: Archive) -> None:
    history = finding_history(archive, priced(archive, [2.0] * 4 + [2.6, 2.7, 2.8], 2.0, purchase="spot"))
    assert history is not None and history.level is None and history.change.startswith("+") and history.begin == "2026-06-05"
