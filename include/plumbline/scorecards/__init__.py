"""Scorecards, acceptance and decisions: pure functions over plain numbers, training and inference always apart."""

from plumbline.declarations.confidence import Share, wilson
from plumbline.scorecards.acceptance import Judged, judge
from plumbline.scorecards.capacity import Capacity, ScaleTime, Shortage, capacity
from plumbline.scorecards.cheapest import Cheapest, Requirements, Setup, cheapest, fitting_cost
from plumbline.scorecards.comparability import Incomparable, incomparable
from plumbline.scorecards.decide import decide
from plumbline.scorecards.decision import Column, Decision, Gate, Ranked
from plumbline.scorecards.friction import Friction, LeadTime, friction
from plumbline.scorecards.inputs import Conditions, Number, TrialNumbers, home_phase, priced
from plumbline.scorecards.launches import LaunchSuccess
from plumbline.scorecards.pooling import Measured, Pooled, pool
from plumbline.scorecards.price_sensitivity import PriceFlip, PriceSwing, price_sensitivity
from plumbline.scorecards.primary import primary_of
from plumbline.scorecards.references import ReferenceShare, shares
from plumbline.scorecards.scorecard import Row, Scorecard, last_attempts, leaders, scorecard, scorecards
from plumbline.scorecards.weights import WeightFlip, WeightSwing, weight_sensitivity

__all__ = [
    "Capacity",
    "Cheapest",
    "Column",
    "Conditions",
    "Decision",
    "Friction",
    "Gate",
    "Incomparable",
    "Judged",
    "LaunchSuccess",
    "LeadTime",
    "Measured",
    "Number",
    "Pooled",
    "PriceFlip",
    "PriceSwing",
    "Ranked",
    "ReferenceShare",
    "Requirements",
    "Row",
    "ScaleTime",
    "Scorecard",
    "Setup",
    "Share",
    "Shortage",
    "TrialNumbers",
    "WeightFlip",
    "WeightSwing",
    "capacity",
    "cheapest",
    "decide",
    "fitting_cost",
    "friction",
    "home_phase",
    "incomparable",
    "judge",
    "last_attempts",
    "leaders",
    "pool",
    "price_sensitivity",
    "priced",
    "primary_of",
    "scorecard",
    "scorecards",
    "shares",
    "weight_sensitivity",
    "wilson",
]
