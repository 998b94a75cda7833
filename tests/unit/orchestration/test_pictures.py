"""Which history a finding's chart shows, from campaigns that an archive holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.data.result_documents import PLANNED, document, training_metrics, trial
from tests.fakes.trials import CONFIG

from plumbline.archive import Archive, open_archive
from plumbline.drift import Finding
from plumbline.orchestration import review
from plumbline.orchestration.pictures import CAMPAIGNS, history_of, picture_of


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
        review.review(campaign)
    (one,) = review.review("2026-03")
    return next(f for f in one.findings if f.kind == "performance")


def test_a_performance_finding_shows_its_leading_metric(archive: Archive) -> None:
    found = slower(archive)
    history = history_of(archive, found)
    assert history is not None
    assert [p.label for p in history.points] == ["2026-01", "2026-02", "2026-03"] and history.begin == "2026-03"
    assert [p.middle for p in history.points] == pytest.approx([100.3, 100.3, 200.6]) and history.unit == "ms"
    assert [p.label for p in history.points if p.baseline] == list(found.baseline_campaigns)
    assert history.level == pytest.approx(100.3) and found.ci_low is not None
    assert history.band is not None and history.band[0] == pytest.approx(100.3 * (1 + found.ci_low))
    assert history.change.startswith("+100 % (95 %: +") and history.title.endswith(" · step time")
    made = picture_of(archive, found)
    assert made is not None and made.name == f"plumbline-{found.finding_id}.png" and made.data.startswith(b"\x89PNG")


def test_facts_and_failures_have_no_curve(archive: Archive) -> None:
    found = slower(archive)
    assert picture_of(archive, replace(found, kind="environment")) is None
    assert picture_of(archive, replace(found, kind="reliability", members=())) is None


def test_what_was_not_measured_before_is_not_drawn(archive: Archive) -> None:
    found = slower(archive)
    assert history_of(archive, replace(found, campaign_id="2026-01")) is None
    assert history_of(archive, replace(found, campaign_id="2025-12")) is None
    assert history_of(archive, replace(found, series_key="training/other@1/h1/torch/p/r/i")) is None


def test_a_long_series_shows_its_newest_campaigns_and_long_names_as_days(archive: Archive) -> None:
    found = slower(archive)
    measured(archive, [*((f"m{i:03d}", 0.1) for i in range(CAMPAIGNS + 5)), ("od-20280101-020000", 0.2)], repeats=1)
    history = history_of(archive, replace(found, campaign_id="od-20280101-020000"))
    assert history is not None and len(history.points) == CAMPAIGNS
    assert len(history.begin) == len("2028-01-01") and history.points[0].label.startswith("m0")
