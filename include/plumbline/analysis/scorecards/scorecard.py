"""A scorecard: what one provider measured for one workload of one kind. Training and inference never meet in one card."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import groupby

from plumbline.analysis.prices.book import InstanceShare
from plumbline.analysis.scorecards.criteria import CriterionVerdict, judge_all
from plumbline.analysis.scorecards.placings import place
from plumbline.analysis.scorecards.provisioning import Friction, LaunchCapacity, capacity, friction
from plumbline.analysis.trial_sample import PHASE_ORDER, SUSTAINED, Conditions, TrialSample, WorkloadKind, leading_phase
from plumbline.declarations import AnyCriterion, AnyWorkload, Provider
from plumbline.declarations.promises.judging.share import PromisedShare
from plumbline.declarations.promises.speed_floors import SpeedFloor, SpeedFloors, judge_speed
from plumbline.declarations.workloads.workload import Primary
from plumbline.kinds import kind_of
from plumbline.metrics import PHASES, catalogue_order, leading_names, metric_of
from plumbline.metrics.pooling import Estimate, pooled_fields
from plumbline.metrics.rows import MetricRow
from plumbline.results.limit import Limit
from plumbline.results.sample import no_usable_trial

STATUSES = ("valid", "degraded", "invalid", "failed", "missing")
GROUPS = ("latency", "throughput", "cost", "reliability", "start_up", "recovery", "hardware", "quality", "client")


@dataclass(frozen=True)
class _Place:
    """Where a number is on the card."""

    group: str
    metric: str
    statistic: str
    phase: str
    unit: str
    direction: str


@dataclass(frozen=True)
class Row(Estimate, _Place):
    """One number of the card: the median over usable repeats, with what is behind it.

    `leading`: the statistic and phase that stand for the metric. `observations`: all repeats' observations together.
    """

    observations: int
    values: tuple[float, ...]
    trials: tuple[str, ...]
    leading: bool


@dataclass(frozen=True)
class Scorecard:
    """One provider's measurements of one workload.

    `counts` has every status, also at 0; `planned` counts trials, `attempts` also their retries. `reasons` are of all trials, `degraded_by` of
    the degraded ones, whose numbers count; `unusable`: why no trial's numbers do, empty where one's do. `asked_first` says which number is the
    primary one; `primary` is None if no usable repeat measured it. `capacity` is of all launches of the kind, whatever the workload.
    `conditions`: under what its usable trials were measured, each once; `first` and `last`: the days on which they began.
    `charged`: the part of an instance that its costs charge; None for all of it. `includes`, `without`: what its costs include beside hours and
    tokens, and what they are without. `ranked`: False of a campaign whose numbers rank nobody. `speed`:
    against the promised one, None without a promise.
    """

    provider: str
    kind: WorkloadKind
    workload: str
    version: int
    rows: tuple[Row, ...]
    counts: dict[str, int]
    planned: int
    attempts: int
    acceptance: tuple[CriterionVerdict, ...]
    reasons: tuple[str, ...]
    degraded_by: tuple[str, ...]
    primary: Row | None
    primary_metric: Primary | None
    friction: Friction
    capacity: LaunchCapacity
    conditions: tuple[Conditions, ...]
    first: date | None
    last: date | None
    charged: InstanceShare | None = None
    includes: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    limits: tuple[Limit, ...] = field(default=(), metadata={"meaning": "what limited the highest rates of its usable trials, each once"})
    ranked: bool = True
    speed: SpeedFloor | None = None
    unusable: str = ""

    @property
    def launch(self) -> PromisedShare:
        """Launch success against the promise."""
        return self.friction.launch

    @property
    def simulated(self) -> bool:
        """Whether there was no machine behind it."""
        return any(c.source == "simulated" for c in self.conditions)

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


def scorecard(
    trials: Sequence[TrialSample],
    *,
    acceptance: Sequence[AnyCriterion] = (),
    place: Provider | None = None,
    primary: Primary | None = None,
    launches: Sequence[TrialSample] | None = None,
) -> Scorecard:
    """The card of trials that all share one provider, kind, workload and version; ValueError if they do not.

    `trials`: every attempt of every planned trial of the campaign. `place`: the provider as declared, for what its contract promises.
    `primary`: the number that is asked first. `launches`: attempts of the provider's other workloads too, from which its capacity shows.
    """
    identities = {(t.provider, t.kind, t.workload, t.version) for t in trials}
    if len(identities) != 1:
        raise ValueError(
            f"trials of {len(identities)} different provider/kind/workload/version; expected exactly one: {sorted(identities)}"
        )
    provider, kind, workload, version = identities.pop()
    final = last_attempts(trials)
    rows = _rows(final)
    usable = [t for t in final if t.usable]
    days = [t.started for t in usable if t.started is not None]
    return Scorecard(
        provider=provider,
        kind=kind,
        workload=workload,
        version=version,
        rows=rows,
        counts={status: sum(t.status == status for t in final) for status in STATUSES},
        planned=len(final),
        attempts=sum(t.status != "missing" for t in trials),
        acceptance=judge_all(acceptance, final),
        reasons=tuple(dict.fromkeys(reason for t in final for reason in t.reasons)),
        degraded_by=tuple(dict.fromkeys(reason for t in usable if t.status == "degraded" for reason in t.reasons)),
        primary=_primary_row(rows, primary),
        primary_metric=primary,
        friction=friction(trials, place),
        capacity=capacity(trials if launches is None else launches, place),
        conditions=tuple(dict.fromkeys(t.conditions for t in usable if t.conditions is not None)),
        first=min(days, default=None),
        last=max(days, default=None),
        charged=next((t.share for t in usable if t.share is not None), None),
        includes=next((t.includes for t in usable if t.includes), ()),
        without=next((t.without for t in usable if t.without), ()),
        speed=_speed(place, workload, usable),
        limits=tuple({(limit.phase, limit.limit): limit for t in usable for limit in t.limits}.values()),
        unusable="" if usable else no_usable_trial(next(iter(t.reasons), "") for t in final),
    )


def _speed(place: Provider | None, workload: str, usable: Sequence[TrialSample]) -> SpeedFloor | None:
    floor = SpeedFloors.floors(place.sla).get(workload) if place is not None else None
    if floor is None:
        return None
    values = [(t.trial_id, v) for t in usable if (v := t.value(floor.metric, floor.statistic, floor.phase)) is not None]
    return judge_speed(workload, floor, values)


def _primary_row(rows: Sequence[Row], primary: Primary | None) -> Row | None:
    if primary is None:
        return None
    wanted = [r for r in rows if (r.metric, r.statistic) == (primary.metric, primary.statistic) and r.value is not None]
    home = [r for r in wanted if r.phase == primary.phase] if primary.phase else sorted(wanted, key=lambda r: PHASE_ORDER.index(r.phase))
    return home[0] if home else None


def last_attempts(trials: Iterable[TrialSample]) -> tuple[TrialSample, ...]:
    """One attempt of each trial: the last usable one, else the last one. A failed retry never hides a good measurement."""
    ordered = sorted(trials, key=lambda t: (t.trial_id, t.usable, t.attempt))
    return tuple(list(attempts)[-1] for _, attempts in groupby(ordered, key=lambda t: t.trial_id))


def _rows(trials: Sequence[TrialSample]) -> tuple[Row, ...]:
    usable = [t for t in trials if t.usable]
    readings: dict[tuple[str, str, str], list[tuple[str, MetricRow]]] = {}
    for t in usable:
        for m in t.metrics:
            readings.setdefault((m.metric, m.statistic, m.phase), []).append((t.trial_id, m))
    known = {metric: metric_of(numbers[0][1]) for (metric, _, _), numbers in readings.items()}
    homes = {name: leading_phase(usable, name, definition.statistic) for name, definition in known.items()}
    rows = []
    for (metric, statistic, phase), numbers in readings.items():
        measured = [(trial_id, m.value) for trial_id, m in numbers if m.value is not None]
        values = tuple(value for _, value in measured)
        ends = [(m.ci_low, m.ci_high) for _, m in numbers if metric == SUSTAINED and m.ci_low is not None and m.ci_high is not None]
        rows.append(
            Row(
                group=known[metric].group,
                metric=metric,
                statistic=statistic,
                phase=phase,
                unit=numbers[0][1].unit,
                direction=numbers[0][1].direction,
                **pooled_fields(values, ends),
                observations=sum(m.n for _, m in numbers if m.value is not None),
                values=values,
                trials=tuple(trial_id for trial_id, _ in measured),
                leading=statistic == known[metric].statistic and phase == (homes[metric] or phase),
            )
        )
    return tuple(sorted(rows, key=lambda r: (GROUPS.index(r.group), catalogue_order(r.metric), PHASES.index(r.phase), r.statistic)))


def scorecards(
    trials: Iterable[TrialSample],
    *,
    acceptance: dict[str, Sequence[AnyCriterion]] | None = None,
    providers: Mapping[str, Provider] | None = None,
    primaries: Mapping[str, Primary] | None = None,
) -> tuple[Scorecard, ...]:
    """The cards of a campaign, one per kind, workload, version and provider. `acceptance` and `primaries` by workload, `providers` by name."""

    def identity(t: TrialSample) -> tuple[str, str, int, str]:
        return (t.kind, t.workload, t.version, t.provider)

    ordered = sorted(trials, key=identity)
    launches: dict[tuple[str, str], list[TrialSample]] = {}
    for trial in ordered:
        launches.setdefault((trial.kind, trial.provider), []).append(trial)
    cards = []
    for (kind, workload, _, provider), group in groupby(ordered, key=identity):
        cards.append(
            scorecard(
                list(group),
                acceptance=(acceptance or {}).get(workload, ()),
                place=(providers or {}).get(provider),
                primary=(primaries or {}).get(workload),
                launches=launches[kind, provider],
            )
        )
    return tuple(cards)


def leading_metric(cards: Sequence[Scorecard]) -> str:
    """The metric that is asked first of the cards of one workload: the declared one, else the first leading one that was measured."""
    declared = next((c.primary_metric.metric for c in cards if c.primary_metric is not None and c.primary is not None), None)
    names = leading_names(cards[0].kind)
    return declared or next((name for name in names if any((r := c.row(name)) and r.value is not None for c in cards)), names[0])


def leading_row(card: Scorecard, metric: str) -> Row | None:
    """The card's row of that metric: of the declared one in its declared statistic and phase."""
    return card.primary if card.primary_metric is not None and card.primary_metric.metric == metric else card.row(metric)


def leaders(rows: dict[str, Row | None]) -> tuple[str, ...]:
    """Providers that lead on one number: the best, and all whose interval overlaps the best one's. One name: a clear leader.

    Empty when fewer than two providers measured it or when the number has no better side.
    """
    measured = {p: r for p, r in rows.items() if r is not None and r.value is not None and r.direction != "informative"}
    if len(measured) < 2:
        return ()
    lower = next(iter(measured.values())).direction == "lower_is_better"
    ahead = {p.provider for p in place(measured, lower) if p.leads}
    return tuple(p for p in measured if p in ahead)


def primary_of(workload: AnyWorkload) -> Primary:
    """What the workload declares, else what leads for its kind."""
    return workload.primary or kind_of(workload).primary(workload)
