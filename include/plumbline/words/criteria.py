"""Verdicts on acceptance criteria in words."""

from __future__ import annotations

from typing import Any

from plumbline.analysis.scorecards.criteria import CriterionBasis, CriterionVerdict, LimitInside
from plumbline.analysis.scorecards.scorecard import Scorecard
from plumbline.judgement import Judgement, broken, judges, met, not_shown
from plumbline.metrics import NATURAL_LENGTHS
from plumbline.metrics.formatting import format_quantity
from plumbline.metrics.proportions import CONFIDENCE

_PERCENT = f"{100 * CONFIDENCE:g} %"


@judges("acceptance criterion")
def judge_criterion(verdict: CriterionVerdict) -> Judgement:
    """Met by each repeat, broken by one or by their median, else not shown."""
    seen = explanation_text(verdict.basis)
    if verdict.outcome != "insufficient":
        return met(seen) if verdict.outcome == "pass" else broken(seen)
    if verdict.limit is None:
        return not_shown(seen, "no limit to compare with", "a result of its reference")
    decides = f"usable trials that measure {verdict.metric}, more than half of those planned"
    return not_shown(seen, "too few measurements", decides)


def verdict_data(verdict: CriterionVerdict) -> dict[str, Any]:
    """The fields of a verdict for JSON and tables, explained in words."""
    fields = {name: value for name, value in vars(verdict).items() if name != "basis"}
    return {**fields, "explanation": explanation_text(verdict.basis)}


def card_data(card: Scorecard) -> dict[str, Any]:
    """The fields of a scorecard for JSON, its criteria explained in words."""
    return {**vars(card), "acceptance": [verdict_data(each) for each in card.acceptance]}


def explanation_text(basis: CriterionBasis | str) -> str:
    """Why a criterion has its outcome, with the caveats; a stored explanation is text already."""
    return basis if isinstance(basis, str) else "; ".join([_evidence_text(basis), *_caveats(basis)])


def _evidence_text(basis: CriterionBasis) -> str:
    kept, n, planned = basis.met, basis.n, basis.planned
    match basis.shows:
        case "no_reference":
            source = f"comparable result of {basis.reference}" if basis.reference else "baseline"
            return f"no {source} yet that measured it as more than 0"
        case "the_trial_is_unusable":
            return "the trial is not usable"
        case "the_trial_is_silent":
            return "the trial did not measure it"
        case "all_are_silent":
            return f"no usable trial measured it ({planned} planned)"
        case "most_are_silent":
            return f"only {n} of {planned} planned trials measured it"
        case "the_repeat_meets":
            return "the one repeat meets it"
        case "the_repeat_breaks":
            return "the one repeat does not meet it"
        case "the_median_breaks":
            return f"the median of {n} does not meet it; {kept} of {n} repeats do"
        case "some_break":
            return f"the median meets it, {n - kept} of {n} repeats do not"
        case "all_meet":
            return f"all {n} repeats meet it"


def _caveats(basis: CriterionBasis) -> list[str]:
    """What a reader must know of the verdict, one sentence each."""
    one = basis.reported == 1
    sentences = [basis.too_small] if basis.too_small else []
    if failed := basis.never_reached:
        where = "" if one else f"in {failed} of {basis.reported} "
        sentences.append(f"{where}so many requests failed that {basis.statistic} was never reached")
    if basis.inside is not None:
        sentences.append(_inside_text(basis.inside, basis.reported))
    if (few := basis.no_interval) is not None:
        text = f"{basis.statistic} has no {_PERCENT} interval below {few.least} observations"
        rest = f", which {few.repeats} of {basis.reported} did not have (the smallest {few.fewest})"
        sentences.append(f"{text}; here were {few.fewest}" if one else f"{text}{rest}")
    return [*sentences, NATURAL_LENGTHS] if basis.natural else sentences


def _inside_text(inside: LimitInside, measured: int) -> str:
    several = f"within the {_PERCENT} interval of {inside.repeats} of {measured} (the widest: "
    where = f"within its {_PERCENT} interval (" if measured == 1 else several
    settled = "" if inside.settled_by is None else f"; about {inside.settled_by} requests would settle it at this share"
    between = f"{format_quantity(inside.low, inside.unit)} … {format_quantity(inside.high, inside.unit)}"
    return f"the limit lies {where}{between}){settled}"
