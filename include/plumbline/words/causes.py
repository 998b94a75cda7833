"""The pooled effect of a cause in words, and the judgement that it gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plumbline.judgement import Judgement, broken, judges, met, not_shown
from plumbline.metrics.formatting import format_change, format_limit

if TYPE_CHECKING:  # it loads numpy and scipy, which a list of findings does not need
    from plumbline.analysis.drift.pooled import PooledEffect, Undecided


@judges("cause of a change")
def judge_effect(effect: PooledEffect) -> Judgement:
    """Broken by a change that made it worse; met if it did not."""
    between = " … ".join(map(format_change, (effect.ci_low, effect.ci_high)))
    where = f"{len(effect.shifts)} series of {len(effect.providers)} providers at {effect.clouds} clouds"
    seen = f"{where}, {format_change(effect.effect)} (95 %: {between})"
    if effect.undecided is not None:
        return not_shown(seen, *_undecided_text(effect.undecided, effect.warn))
    return broken(seen) if effect.verdict == "regressed" else met(seen)


def _undecided_text(why: Undecided, warn: float) -> tuple[str, str]:
    """What is missing, and what would decide it."""
    match why.reason:
        case "no_control":
            return "no cloud without it was measured at that time", "a cloud without the change, measured before and after"
        case "control_moved":
            return "the one cloud without it moved too", "a second cloud without the change, measured before and after"
        case "one_cloud":
            return "one cloud has it, whose own moves nothing separates from it", "the same change at a second cloud"
        case "other_clouds_moved":
            return (
                "other clouds with a change moved the same way",
                "the change at clouds that did not move, or the move at clouds without it",
            )
        case "regions_scatter":
            missing = f"its regions and the usual moves of clouds leave more open than your {format_limit(warn)}"
            return missing, "more repeats, or more regions"
        case "clouds_scatter":
            missing = f"the repeats and the {why.clouds} clouds leave more open than your {format_limit(warn)}"
            if why.enough is None:
                return missing, "more repeats in each campaign, and more clouds without the change"
            return missing, f"the same change at {why.enough} clouds that agree as these do"
