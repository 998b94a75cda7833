"""Acceptance criteria and what became of them: of a campaign's cards, and of one trial alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plumbline.reports.content import Quality
from plumbline.reports.figures import scale
from plumbline.reports.numbers import numbers_of
from plumbline.results import ResultDocument
from plumbline.scorecards import Judged, Scorecard, judge


@dataclass(frozen=True)
class Verdict:
    """`outcome`: pass, mixed, fail or insufficient; `value` and `margin` with their units, the latter empty where there is none."""

    outcome: str
    value: str
    margin: str
    explanation: str


@dataclass(frozen=True)
class CriterionRow:
    """A criterion as it was declared, and its verdict for each card or trial: None where that one does not declare it."""

    text: str
    verdicts: tuple[Verdict | None, ...]


def acceptance_rows(cards: Sequence[Scorecard]) -> tuple[CriterionRow, ...]:
    """Criteria as declared, one verdict per card."""
    texts = dict.fromkeys(j.text for c in cards for j in c.acceptance)
    rows = []
    for text in texts:
        judged = [next((j for j in c.acceptance if j.text == text), None) for c in cards]
        rows.append(CriterionRow(text, tuple(None if j is None else _verdict(j) for j in judged)))
    return tuple(rows)


def trial_verdicts(document: ResultDocument, quality: Quality | None = None) -> tuple[tuple[str, Verdict], ...]:
    """A trial's own criteria with what this one attempt says of each. A campaign judges them over all its repeats."""
    numbers = numbers_of(document, quality)
    return tuple((criterion.text, _verdict(judge(criterion, [numbers]))) for criterion in document.trial.workload.acceptance)


def _verdict(judged: Judged) -> Verdict:
    shown = scale(judged.unit, [judged.value], judged.metric)
    margin = ""
    if judged.margin is not None:
        margin = f"{100 * judged.margin:+.0f} % from the limit" if judged.margin < 0 else f"{100 * judged.margin:.0f} % to spare"
    return Verdict(judged.outcome, shown.text(judged.value), margin, judged.explanation)
