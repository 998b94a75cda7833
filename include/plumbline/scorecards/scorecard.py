"""A scorecard: what one provider measured for one workload of one kind. Training and inference never meet in one card."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from plumbline.declarations import METRICS, Criterion
from plumbline.declarations.confidence import Share, needed_to_prove, wilson
from plumbline.declarations.phases import PHASES
from plumbline.scorecards.acceptance import Judged, judge
from plumbline.scorecards.inputs import Kind, TrialNumbers, home_phase
from plumbline.scorecards.pooling import at_most, pool

STATUSES = ("valid", "degraded", "invalid", "failed", "missing")
GROUPS = ("latency", "throughput", "cost", "reliability", "start_up", "recovery", "hardware", "quality", "client")

NOT_STARTED = frozenset({"insufficient_capacity", "launch_timeout", "unreachable", "wrong_hardware"})
"""Failure classes in which the provider did not deliver what was asked before the harness could start."""
OURS = frozenset({"bad_declaration", "image_error", "quota_exceeded"})
"""Failure classes that are no launch of the provider's: what was asked for was wrong, or more than was agreed."""


@dataclass(frozen=True)
class Row:
    """One number of the card: the median over usable repeats, with what is behind it.

    `value` None: no usable repeat measured it. `low`…`high` is an order-statistic interval whose true confidence is `coverage`.
    `leading`: the statistic and phase that stand for the metric. `observations`: all repeats' observations together.
    """

    group: str
    metric: str
    statistic: str
    phase: str
    unit: str
    direction: str
    value: float | None
    low: float | None
    high: float | None
    coverage: float | None
    n: int
    observations: int
    values: tuple[float, ...]
    trials: tuple[str, ...]
    leading: bool


@dataclass(frozen=True)
class LaunchSuccess:
    """Attempts whose harness started over attempts that were launched, against what the contract promises.

    `verdict`: met (the interval lies at or above the promise), missed (wholly below it, and so
    few successes would be chance less than one time in forty), unproven (too few launches to tell), or
    none_declared. `launches_needed`: flawless launches after which the promise would be proven.
    """

    share: Share
    promised: float | None
    verdict: str
    launches_needed: int | None


@dataclass(frozen=True)
class Scorecard:
    """`counts` has every status, also at 0; `planned` counts trials, `attempts` also their retries."""

    provider: str
    kind: Kind
    workload: str
    version: int
    rows: tuple[Row, ...]
    counts: dict[str, int]
    planned: int
    attempts: int
    launch: LaunchSuccess
    acceptance: tuple[Judged, ...]
    reasons: tuple[str, ...]

    @property
    def usable(self) -> int:
        """Trials whose numbers count."""
        return self.counts["valid"] + self.counts["degraded"]

    def row(self, metric: str, statistic: str | None = None, phase: str | None = None) -> Row | None:
        """One row: the leading one of the metric, or the one of that statistic and phase."""
        return next(
            (
                r
                for r in self.rows
                if r.metric == metric
                and (r.leading if statistic is None else r.statistic == statistic)
                and (phase is None or r.phase == phase)
            ),
            None,
        )


def scorecard(trials: Sequence[TrialNumbers], *, acceptance: Sequence[Criterion] = (), promised_launches: float | None = None) -> Scorecard:
    """The card of trials that all share one provider, kind, workload and version; ValueError if they do not.

    `trials`: every attempt of every planned trial of the campaign. `promised_launches`: the contract's share of launches that succeed.
    """
    identities = {(t.provider, t.kind, t.workload, t.version) for t in trials}
    if len(identities) != 1:
        raise ValueError(
            f"trials of {len(identities)} different provider/kind/workload/version; expected exactly one: {sorted(identities)}"
        )
    provider, kind, workload, version = identities.pop()
    final = last_attempts(trials)
    return Scorecard(
        provider=provider,
        kind=kind,
        workload=workload,
        version=version,
        rows=_rows(final),
        counts={status: sum(t.status == status for t in final) for status in STATUSES},
        planned=len(final),
        attempts=sum(t.status != "missing" for t in trials),
        launch=launch_success(trials, promised_launches),
        acceptance=tuple(judge(criterion, final) for criterion in acceptance),
        reasons=tuple(dict.fromkeys(reason for t in final for reason in t.reasons)),
    )


def last_attempts(trials: Iterable[TrialNumbers]) -> tuple[TrialNumbers, ...]:
    """One attempt of each trial: the last usable one, else the last one. A failed retry never hides a good measurement."""
    ordered = sorted(trials, key=lambda t: (t.trial_id, t.usable, t.attempt))
    return tuple(list(attempts)[-1] for _, attempts in groupby(ordered, key=lambda t: t.trial_id))


def _rows(trials: Sequence[TrialNumbers]) -> tuple[Row, ...]:
    usable = [t for t in trials if t.usable]
    keys = dict.fromkeys((m.metric, m.statistic, m.phase) for t in usable for m in t.metrics)
    homes = {name: home_phase(usable, name, METRICS[name].statistic) for name in {metric for metric, _, _ in keys}}
    rows = []
    for metric, statistic, phase in keys:
        numbers = [(t.trial_id, m) for t in usable for m in t.metrics if (m.metric, m.statistic, m.phase) == (metric, statistic, phase)]
        found = [(trial_id, m.value) for trial_id, m in numbers if m.value is not None]
        values = tuple(value for _, value in found)
        pooled = pool(values) if values else None
        rows.append(
            Row(
                group=METRICS[metric].group,
                metric=metric,
                statistic=statistic,
                phase=phase,
                unit=numbers[0][1].unit,
                direction=numbers[0][1].direction,
                value=pooled.value if pooled else None,
                low=pooled.low if pooled else None,
                high=pooled.high if pooled else None,
                coverage=pooled.coverage if pooled else None,
                n=len(values),
                observations=sum(m.n for _, m in numbers if m.value is not None),
                values=values,
                trials=tuple(trial_id for trial_id, _ in found),
                leading=statistic == METRICS[metric].statistic and phase == (homes[metric] or phase),
            )
        )
    names = list(METRICS)
    return tuple(sorted(rows, key=lambda r: (GROUPS.index(r.group), names.index(r.metric), PHASES.index(r.phase), r.statistic)))


def launch_success(trials: Sequence[TrialNumbers], promised: float | None) -> LaunchSuccess:
    """Launch success over all attempts. Missing trials were not seen to launch or to fail; what failed by our fault is nobody's launch."""
    launched = [t for t in trials if t.status != "missing" and t.failure_class not in OURS]
    share = wilson(sum(t.failure_class not in NOT_STARTED for t in launched), len(launched))
    if promised is None:
        return LaunchSuccess(share, None, "none_declared", None)
    needed = needed_to_prove(promised) if 0 < promised < 1 else None
    if share.low is None or share.high is None:
        verdict = "unproven"
    elif share.high < promised and at_most(share.successes, share.n, promised) < 0.025:
        # Wilson alone would call one failure among eleven a miss of 99 %, which happens to a provider that keeps its word one time in ten.
        verdict = "missed"
    else:
        verdict = "met" if share.low >= promised else "unproven"
    return LaunchSuccess(share, promised, verdict, needed)


def scorecards(
    trials: Iterable[TrialNumbers],
    *,
    acceptance: dict[str, Sequence[Criterion]] | None = None,
    promised_launches: dict[str, float | None] | None = None,
) -> tuple[Scorecard, ...]:
    """The cards of a campaign, one per kind, workload, version and provider. `acceptance` by workload, `promised_launches` by provider."""

    def identity(t: TrialNumbers) -> tuple[str, str, int, str]:
        return (t.kind, t.workload, t.version, t.provider)

    cards = []
    for (_, workload, _, provider), group in groupby(sorted(trials, key=identity), key=identity):
        cards.append(
            scorecard(
                list(group),
                acceptance=(acceptance or {}).get(workload, ()),
                promised_launches=(promised_launches or {}).get(provider),
            )
        )
    return tuple(cards)


def leaders(rows: dict[str, Row | None]) -> tuple[str, ...]:
    """Providers that lead on one number: the best, and all whose interval overlaps the best one's. One name: a clear leader.

    Empty when fewer than two providers measured it or when the number has no better side.
    """
    measured = {p: r for p, r in rows.items() if r is not None and r.value is not None and r.direction != "informative"}
    if len(measured) < 2:
        return ()
    lower = next(iter(measured.values())).direction == "lower_is_better"
    best = (min if lower else max)(measured, key=lambda p: measured[p].value or 0.0)
    low, high = _span(measured[best])
    return tuple(p for p, r in measured.items() if p == best or (_span(r)[0] <= high and low <= _span(r)[1]))


def _span(row: Row) -> tuple[float, float]:
    # One repeat says nothing about its spread: it overlaps everything.
    return (row.low if row.low is not None else -math.inf, row.high if row.high is not None else math.inf)
