"""The shortest form of a campaign: winners, drift, criteria, costs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.labs import CHEAP, FAST, measure, spread, world, write

from plumbline.analysis.conclusions import Conclusions, conclude
from plumbline.archive import open_archive
from plumbline.presentation.decisions import name_first
from plumbline.presentation.verdicts import campaign_verdict, choice_sentence
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
    assert workload.without == () and workload.weighed


def test_trials_and_series_are_counted(concluded):
    verdict = campaign_verdict(concluded)
    assert set(verdict.trials) == {"valid"} and verdict.providers == tuple(sorted((FAST, CHEAP)))
    assert verdict.series == {"without an earlier baseline": 2}
    assert len(verdict.costs) == 1


@pytest.mark.parametrize(("chance", "clear"), [(0.49, False), (0.5, True), (0.999, True)])
def test_below_one_half_there_is_no_clear_winner(concluded, chance, clear):
    decision = concluded.decisions[0]
    first, *others = decision.ranking
    rest = [replace(other, probability_first=min(0.45, 1 - chance)) for other in others]
    sentence = choice_sentence(replace(decision, ranking=(replace(first, probability_first=chance), *rest)))
    shared = name_first([(FAST, 0.1), (CHEAP, 0.1)])
    assert (shared in sentence) is not clear
    assert first.provider in sentence


def test_a_single_eligible_provider_is_no_winner(concluded):
    decision = concluded.decisions[0]
    first, *others = decision.ranking
    alone = replace(decision, ranking=(first, *(replace(r, eligible=False, why_not=("too slow",)) for r in others)))
    assert choice_sentence(alone) == f"only {first.provider} is eligible"
