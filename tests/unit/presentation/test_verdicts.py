"""The shortest form of a campaign: winners, drift, criteria, costs."""

from __future__ import annotations

import pytest
from tests.fakes.labs import CHEAP, FAST, measure, spread, world, write

from plumbline.analysis.conclusions import Conclusions, conclude
from plumbline.archive import open_archive
from plumbline.presentation.verdicts import campaign_verdict
from plumbline.workflows.report import campaign_data


@pytest.fixture
def concluded(tmp_path, monkeypatch) -> Conclusions:
    declared = world()
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(write(declared, tmp_path / "config")))
    for name in ("PLUMBLINE_ARCHIVE_URL", "PLUMBLINE_RESULTS_URL"):
        monkeypatch.delenv(name, raising=False)
    with open_archive() as archive:
        measure(archive, declared, {FAST: spread(0.090), CHEAP: spread(0.1)})
        return conclude(campaign_data(archive, "2025-11"))


def test_the_best_provider_comes_first(concluded):
    (workload,) = campaign_verdict(concluded).workloads
    assert [bar.provider for bar in workload.bars] == [FAST, CHEAP]
    assert [bar.best for bar in workload.bars] == [True, False]
    assert max(bar.share for bar in workload.bars) == 1.0
    assert workload.without == {} and workload.leader == FAST


def test_trials_and_series_are_counted(concluded):
    verdict = campaign_verdict(concluded)
    assert set(verdict.trials) == {"valid"} and verdict.providers == tuple(sorted((FAST, CHEAP)))
    assert verdict.series == {"without an earlier baseline": 2}
    assert [tile.name for tile in verdict.tiles] == ["Spent", "Lost a month", "Could be saved", "Certainty"]
