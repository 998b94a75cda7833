"""Whether a trial may be believed: from single judgements to one verdict, before any score."""

from __future__ import annotations

from collections.abc import Iterable

from plumbline.harness.measurement import Judgement
from plumbline.results import FailureClass, Reason, Validity


def verdict(judgements: Iterable[Judgement]) -> Validity:
    """Invalid if anything says so, else degraded if anything says so, else valid. The gravest reasons come first."""
    distinct = list(dict.fromkeys(judgements))
    ordered = [item for level in ("invalid", "degraded") for item in distinct if item.level == level]
    if not ordered:
        return Validity(status="valid")
    return Validity(status=ordered[0].level, reasons=tuple(item.reason for item in ordered))


def failed(failure_class: FailureClass, detail: str, judgements: Iterable[Judgement] = ()) -> Validity:
    """A trial that could not be measured. What else was wrong with it may be the cause, so it is kept behind the failure."""
    others = verdict(judgements).reasons
    return Validity(status="failed", reasons=(Reason(code=failure_class, detail=detail), *others), failure_class=failure_class)
