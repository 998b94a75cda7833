"""Scorecards, acceptance and decisions: pure functions over plain numbers, training and inference always apart."""

from plumbline.declarations.confidence import Share, wilson
from plumbline.scorecards.acceptance import Judged, judge
from plumbline.scorecards.capacity import Capacity, ScaleTime, Shortage, capacity
from plumbline.scorecards.comparability import Incomparable, incomparable
from plumbline.scorecards.decide import Decision, Ranked, decide
from plumbline.scorecards.friction import Friction, LeadTime, friction
from plumbline.scorecards.inputs import Conditions, Number, TrialNumbers, home_phase, priced
from plumbline.scorecards.launches import LaunchSuccess
from plumbline.scorecards.pooling import Measured, Pooled, pool
from plumbline.scorecards.primary import primary_of
from plumbline.scorecards.references import ReferenceShare, shares
from plumbline.scorecards.scorecard import Row, Scorecard, last_attempts, leaders, scorecard, scorecards

__all__ = [
    "Capacity",
    "Conditions",
    "Decision",
    "Friction",
    "Incomparable",
    "Judged",
    "LaunchSuccess",
    "LeadTime",
    "Measured",
    "Number",
    "Pooled",
    "Ranked",
    "ReferenceShare",
    "Row",
    "ScaleTime",
    "Scorecard",
    "Share",
    "Shortage",
    "TrialNumbers",
    "capacity",
    "decide",
    "friction",
    "home_phase",
    "incomparable",
    "judge",
    "last_attempts",
    "leaders",
    "pool",
    "priced",
    "primary_of",
    "scorecard",
    "scorecards",
    "shares",
    "wilson",
]
