"""Scorecards, acceptance and decisions: pure functions over plain numbers, training and inference always apart."""

from plumbline.declarations.confidence import Share, wilson
from plumbline.scorecards.acceptance import Judged, judge
from plumbline.scorecards.decide import Decision, Ranked, decide
from plumbline.scorecards.inputs import Number, TrialNumbers, home_phase, priced
from plumbline.scorecards.pooling import Pooled, pool
from plumbline.scorecards.scorecard import LaunchSuccess, Row, Scorecard, last_attempts, leaders, scorecard, scorecards

__all__ = [
    "Decision",
    "Judged",
    "LaunchSuccess",
    "Number",
    "Pooled",
    "Ranked",
    "Row",
    "Scorecard",
    "Share",
    "TrialNumbers",
    "decide",
    "home_phase",
    "judge",
    "last_attempts",
    "leaders",
    "pool",
    "priced",
    "scorecard",
    "scorecards",
    "wilson",
]
