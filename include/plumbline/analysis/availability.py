"""Availability of a provider in a month, its outages and its lead times over the week, from checks of its uptime or its capacity. Pure.

Misses by our own fault (an expired token, a wrong declaration, a quota that was agreed) are no checks of the provider, and those whose cause may
be ours or the provider's are counted apart.

Unknown is unknown. Time is seen as up between two answered checks that are one and a half intervals apart at most; an outage shorter than the interval
is not seen. Down is an outage of the provider's, and the time that each of its further misses stands for. All else (misses of ours and of unproven
cause, gaps, the interval before a miss) is unknown. The lower bound of the uptime counts it as down, the upper bound only what is proven.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from statistics import median

from plumbline.declarations.promises.judging.evidence import OUTAGE_MISSES, Outage, Whose
from plumbline.declarations.promises.judging.launches import OPERATOR_FAULTS, PROVIDER_FAULTS
from plumbline.declarations.providers.launcher_base import WatchKind
from plumbline.metrics.proportions import Proportion, wilson_interval
from plumbline.metrics.time_spans import TimeSpan, month_span, total_s, without
from plumbline.results.availability_check import MAINTENANCE, AvailabilityCheck

MISSES = OUTAGE_MISSES
"""Misses in a row that are an outage."""
_PROVIDER = PROVIDER_FAULTS | {"server_error", "timeout"}
_OPERATOR = OPERATOR_FAULTS | {"harness_error", "out_of_memory", MAINTENANCE}
REACH = 1.5
"""Intervals between checks that a check stands for at most, and between two answered ones that are seen as up."""
_SILENT = 3
"""Intervals without a check that counts, after which misses are no longer in a row."""


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class AnsweredChecks:
    """Answered checks without a gap or a miss between them, as one. `times`: microseconds since 1970, ascending, at least one."""

    times: Sequence[int]
    cause: None = None
    detail: str = ""

    @property
    def at(self) -> datetime:
        """Of the first one."""
        return instant(self.times[0])

    @property
    def last(self) -> datetime:
        return instant(self.times[-1])

    def count(self, spans: Iterable[TimeSpan]) -> int:
        """How many lie in disjoint spans."""
        return sum(bisect_left(self.times, microseconds(end)) - bisect_left(self.times, microseconds(begin)) for begin, end in spans)


Observed = AvailabilityCheck | AnsweredChecks
"""A check, or several answered ones as one."""


def microseconds(at: datetime) -> int:
    """Since 1970."""
    return (at - _EPOCH) // _MICROSECOND


def instant(since: int) -> datetime:
    """The time of so many microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=since)


def join_answered(answered: Sequence[int], missed: Sequence[AvailabilityCheck], every_s: float) -> Iterator[Observed]:
    """Misses, and as one all answered checks between them that are `REACH` intervals apart at most. Both ascending; `answered` in microseconds
    since 1970."""
    reach, begin = round(REACH * every_s * 1e6), 0
    for miss in (*missed, None):
        end = len(answered) if miss is None else bisect_left(answered, microseconds(miss.at), begin)
        first = begin
        for i in range(begin + 1, end):
            if answered[i] - answered[i - 1] > reach:
                yield AnsweredChecks(answered[first:i])
                first = i
        if first < end:
            yield AnsweredChecks(answered[first:end])
        if miss is not None:
            yield miss
        begin = end


@dataclass(frozen=True)
class AvailabilityMonth:
    """A calendar month (UTC) from `begin`, as far as it has elapsed, without excluded windows: `elapsed_s`.

    `share`: answers of the checks that were answered or missed by the provider. `up`: seen as up, disjoint. `single`: what misses of the provider's
    outside its outages stand for, disjoint, and `single_proven_s` of it certain at 97.5 %: one miss of thousands proves seconds, two of three two
    thirds. `down_s`: its outages and `single`. `outage_s`: its outages. `unobserved_s`: elapsed time that no check of its counts for. `own`: failure
    class → misses by our own fault. `unproven`: misses of unproven cause. `outages` that lasted in the month, of the provider or unproven. `every_s`: the interval of the checks.
    """

    begin: datetime
    share: Proportion
    elapsed_s: float
    up: tuple[TimeSpan, ...]
    single: tuple[TimeSpan, ...]
    single_proven_s: float
    outage_s: float
    down_s: float
    unobserved_s: float
    own: Mapping[str, int]
    unproven: int
    outages: tuple[Outage, ...]
    every_s: float = 0.0

    @property
    def up_s(self) -> float:
        return total_s(self.up)

    @property
    def unknown_s(self) -> float:
        """Elapsed time that is seen neither as up nor as down."""
        return max(0.0, self.elapsed_s - self.up_s - self.down_s)

    @property
    def proven_s(self) -> float:
        """Seconds that are proven to be down."""
        return self.outage_s + self.single_proven_s

    @property
    def checked(self) -> bool:
        """Whether any check was due to the provider or may have been."""
        return bool(self.share.n or self.unproven or self.own)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Lower and upper bound of the uptime; None where no check counts."""
        return uptime_bounds((self,))


def uptime_bounds(months: Sequence[AvailabilityMonth]) -> tuple[float, float] | None:
    """Lower and upper bound of the uptime over the elapsed time of months; None where no check counts in any."""
    elapsed = sum(m.elapsed_s for m in months)
    if not elapsed or not any(m.share.n for m in months):
        return None
    return sum(m.up_s for m in months) / elapsed, 1 - sum(m.proven_s for m in months) / elapsed


@dataclass(frozen=True)
class HourOfWeek:
    """Checks in one hour (UTC) of one weekday (0: Monday): the median of their seconds, None without any, and how many were refused."""

    weekday: int
    hour: int
    seconds: float | None
    checks: int
    refused: int


@dataclass(frozen=True)
class AvailabilityHistory:
    """Checks of one kind over some months: `months` newest first, `outages` newest first, `hours` of the week."""

    kind: WatchKind
    months: tuple[AvailabilityMonth, ...]
    outages: tuple[Outage, ...]
    hours: tuple[HourOfWeek, ...]

    @property
    def share(self) -> Proportion:
        """Answered checks of all months."""
        return wilson_interval(sum(m.share.successes for m in self.months), sum(m.share.n for m in self.months))

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Lower and upper bound of the uptime in all months; None where no check counts."""
        return uptime_bounds(self.months)


def whose_fault(cause: str) -> Whose:
    """Whose fault a miss of this failure class is. Nodes that are out of service on purpose are not the provider's, whoever closed them."""
    return "provider" if cause in _PROVIDER else "operator" if cause in _OPERATOR else "unproven"


def find_outages(observations: Iterable[Observed], every_s: float, excluded: Sequence[TimeSpan] = ()) -> tuple[Outage, ...]:
    """The outages in checks of one kind, which come oldest first, `every_s` apart; misses in excluded windows begin and extend none.

    With MISSES proven to be the provider's it is the provider's, from the first of them on; else it is unproven.
    """
    found: list[Outage] = []
    run: list[AvailabilityCheck] = []
    every = timedelta(seconds=every_s)
    for one in observations:
        if run and one.at - run[-1].at > _SILENT * every and (one.cause is None or whose_fault(one.cause) != "operator"):
            found += [replace(cut, answered=False) for cut in _outage(run, run[-1].at + every)]
            run = []
        if isinstance(one, AnsweredChecks) or one.cause is None:
            found += _outage(run, one.at)
            run = []
        elif whose_fault(one.cause) != "operator" and not _within(one.at, excluded):
            run.append(one)
    return (*found, *_outage(run, None))


def _outage(run: Sequence[AvailabilityCheck], ended: datetime | None) -> tuple[Outage, ...]:
    if len(run) < MISSES:
        return ()
    proven = [one for one in run if whose_fault(str(one.cause)) == "provider"]
    own = len(proven) >= MISSES
    misses = proven if own else run
    cause = Counter(str(one.cause) for one in misses).most_common(1)[0][0]
    return (Outage(misses[0].at, ended, "provider" if own else "unproven", cause, misses[0].detail, len(misses)),)


def availability(
    at: datetime,
    observations: Iterable[Observed],
    known: Sequence[Outage],
    every_s: float,
    now: datetime,
    excluded: Sequence[TimeSpan] = (),
) -> AvailabilityMonth:
    """The month that `at` lies in. `observations`: of one kind, oldest first, best with the last one before the month and the first one after it;
    `known`: outages, also those that began earlier. `every_s`: the declared interval of the checks. `excluded`: windows such as maintenance, in which nothing counts."""
    begin, end = month_span(at)
    elapsed = without([(begin, min(end, now))], excluded) if begin < now else []
    month = tuple(o for o in known if o.began < end and (o.ended is None or o.ended > begin))
    down = [(o.began, o.ended or now) for o in month if o.whose == "provider"]
    counts_in = without([(begin, end)], excluded)
    counts_outside = without(counts_in, down)
    counted, outside, own, unproven = Counter[bool](), Counter[bool](), Counter[str](), 0
    late = timedelta(seconds=REACH * every_s)
    near = [one for one in observations if begin - late <= _last(one) and one.at <= end + late]
    covered: list[TimeSpan] = []
    up: list[TimeSpan] = []
    missed: list[TimeSpan] = []
    for one, following in zip(near, (*near[1:], None), strict=False):
        whose, last = None if one.cause is None else whose_fault(one.cause), _last(one)
        until = last + late if following is None else min(last + late, following.at)
        if whose is None or whose == "provider":
            _append(covered, (one.at, until))
        if whose == "provider" and not _within(one.at, down):
            _append(missed, (one.at, until))
        if whose is None and last > one.at:
            _append(up, (one.at, last))
        if whose is None and following is not None and following.cause is None and following.at - last <= late:
            _append(up, (last, following.at))
        if isinstance(one, AnsweredChecks):
            counted[True] += one.count(counts_in)
            outside[True] += one.count(counts_outside)
        elif not begin <= one.at < end or _within(one.at, excluded):
            continue
        elif whose is None or whose == "provider":
            counted[whose is None] += 1
            outside[whose is None] += not _within(one.at, down)
        elif whose == "operator":
            own[str(one.cause)] += 1
        else:
            unproven += 1
    lost = without(elapsed, without(elapsed, down))
    single = _shared(without(elapsed, down), missed)
    watched = total_s(_shared(without(elapsed, down), covered))
    certain = 1 - (wilson_interval(outside[True], outside.total()).high or 0.0) if outside.total() else 0.0
    return AvailabilityMonth(
        begin,
        wilson_interval(counted[True], counted.total()),
        total_s(elapsed),
        tuple(_shared(without(elapsed, down), up)),
        tuple(single),
        min(total_s(single), certain * watched),
        total_s(lost),
        total_s(lost) + total_s(single),
        total_s(without(elapsed, covered)),
        dict(sorted(own.items())),
        unproven,
        month,
        every_s,
    )


def _last(one: Observed) -> datetime:
    return one.last if isinstance(one, AnsweredChecks) else one.at


def _append(spans: list[TimeSpan], span: TimeSpan) -> None:
    """To disjoint spans in order, one that begins with or after the last."""
    if spans and span[0] <= spans[-1][1]:
        spans[-1] = (spans[-1][0], max(span[1], spans[-1][1]))
    else:
        spans.append(span)


def _shared(spans: Sequence[TimeSpan], others: Sequence[TimeSpan]) -> list[TimeSpan]:
    """What both have, of disjoint spans in order each."""
    found: list[TimeSpan] = []
    i = j = 0
    while i < len(spans) and j < len(others):
        begin, end = max(spans[i][0], others[j][0]), min(spans[i][1], others[j][1])
        if begin < end:
            found.append((begin, end))
        i, j = (i + 1, j) if spans[i][1] < others[j][1] else (i, j + 1)
    return found


def by_hour_of_week(observations: Iterable[AvailabilityCheck]) -> tuple[HourOfWeek, ...]:
    """The hours of the week in which something was checked, by weekday and hour."""
    seconds: dict[tuple[int, int], list[float]] = defaultdict(list)
    tried: Counter[tuple[int, int]] = Counter()
    refused: Counter[tuple[int, int]] = Counter()
    for one in observations:
        at = one.at.astimezone(timezone.utc)
        place = (at.weekday(), at.hour)
        if one.cause is None or whose_fault(one.cause) == "provider":
            tried[place] += 1
            refused[place] += one.cause is not None
            if one.seconds is not None:
                seconds[place].append(one.seconds)
    return tuple(
        HourOfWeek(*place, median(seconds[place]) if seconds[place] else None, n, refused[place]) for place, n in sorted(tried.items())
    )


def _within(at: datetime, spans: Sequence[TimeSpan]) -> bool:
    return any(begin <= at < end for begin, end in spans)
