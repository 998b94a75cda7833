"""Availability by month, outages, and seconds over the week, as text and as a heat map."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from plumbline.analysis.availability import AvailabilityHistory, AvailabilityMonth, HourOfWeek
from plumbline.declarations import Provider
from plumbline.declarations.promises.judging.evidence import Outage
from plumbline.declarations.providers.launcher_base import WatchKind
from plumbline.metrics.formatting import common_scale, format_bounds, format_count, format_name, format_percent
from plumbline.metrics.proportions import wilson_interval
from plumbline.presentation.charts.chart import Chart, axis, marks
from plumbline.results.availability_check import MAINTENANCE

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_LEVELS = ((1.1, "$good", "at most 10 % above the median"), (1.5, "$accent", "at most 50 %"), (float("inf"), "$warn", "more"))
PROVIDERS = "the provider's"
_REFUSED = ("$bad", "none answered")
_TITLES: dict[WatchKind, tuple[str, str]] = {
    "uptime": ("Uptime between campaigns", "Time to an answer"),
    "capacity": ("Capacity between campaigns", "Time to a node"),
}


@dataclass(frozen=True)
class OutageLine:
    opened: str
    closed: str
    recovery: str
    cause: str
    detail: str
    whose: str

    @property
    def text(self) -> str:
        return f"{self.opened} … {self.closed}  {self.recovery}  {self.cause}, {self.whose}"


@dataclass(frozen=True)
class MonthLine:
    """`share`: lower and upper bound, of the time of an uptime and of the checks of a capacity, in words; `low` and `high`: the same, None where it is
    not shown. `evidence`: the checks behind it. `unknown`: time seen neither as up nor as down, of which no check counts for `unobserved`. `apart`:
    misses that prove nothing, by our own fault or of unproven cause; empty without any."""

    month: str
    share: str
    low: float | None
    high: float | None
    evidence: str
    checks: int
    down: str
    unknown: str
    unobserved: str
    apart: str
    outages: tuple[OutageLine, ...]

    @property
    def lost(self) -> int:
        """How many outages are the provider's."""
        return sum(o.whose == PROVIDERS for o in self.outages)

    @property
    def text(self) -> str:
        shown = f"{self.month}: {self.share} ({self.evidence}), {self.down} down, {self.unknown} unknown"
        return f"{shown}; {self.apart}" if self.apart else shown


@dataclass(frozen=True)
class AvailabilityView:
    kind: WatchKind
    title: str
    months: tuple[MonthLine, ...]
    outages: tuple[OutageLine, ...]
    chart: Chart | None


def availability_view(history: AvailabilityHistory) -> AvailabilityView:
    title, seconds = _TITLES[history.kind]
    return AvailabilityView(
        history.kind,
        title,
        tuple(_month(history.kind, month) for month in history.months),
        tuple(map(outage_line, history.outages)),
        week_chart(history.kind, seconds, history.hours),
    )


@dataclass(frozen=True)
class ProviderMonth:
    """What the watches of a provider saw in one month. `down_s`: the longest that one of them saw it down; None where no check of any counts."""

    provider: str
    simulated: bool
    watches: tuple[AvailabilityView, ...]
    down_s: float | None


@dataclass(frozen=True)
class FleetMonth:
    """`month`: such as 2026-11. `providers` that are watched, the longest down first, those that nothing is known of last."""

    month: str
    providers: tuple[ProviderMonth, ...]


def watched(providers: Iterable[Provider]) -> list[Provider]:
    """Those that declare a check between campaigns."""
    return [one for one in providers if any(one.watch.of(kind) is not None for kind in _TITLES)]


def fleet_month(until: datetime, found: Iterable[tuple[Provider, Sequence[AvailabilityHistory]]]) -> FleetMonth:
    """Of histories of the one month of `until`."""
    months = []
    for provider, histories in found:
        down = [history.months[0].down_s for history in histories if history.months[0].share.n]
        months.append(ProviderMonth(provider.name, provider.simulated, tuple(map(availability_view, histories)), max(down, default=None)))
    months.sort(key=lambda one: (one.down_s is None, -(one.down_s or 0.0), one.provider))
    return FleetMonth(f"{until:%Y-%m}", tuple(months))


def availability_summary(found: FleetMonth) -> str:
    """How many were down, the longest of them, and of how many nothing is known."""
    down = [one for one in found.providers if one.down_s]
    unknown = sum(one.down_s is None for one in found.providers)
    watched = format_count(len(found.providers), "watched provider")
    if 0 < unknown == len(found.providers):
        return f"No check of {watched} counts in this month: nothing is known."
    said = f"{len(down)} of {watched} {'was' if 1 in (len(down), len(found.providers)) else 'were'} down"
    longest = f", {down[0].provider} longest: {_time(down[0].down_s or 0.0)}" if down else ""
    return f"{said}{longest}{f'; {unknown} without a check that counts' if unknown else ''}."


def _month(kind: WatchKind, month: AvailabilityMonth) -> MonthLine:
    ours = [f"{n} × {format_name(cause)} ({'cordoned nodes' if cause == MAINTENANCE else 'ours'})" for cause, n in month.own.items()]
    unproven = [f"{month.unproven} of unproven cause"] if month.unproven else []
    answers, tried = month.share.successes, month.share.n + month.unproven
    evidence = f"{answers:,} of {tried:,} checks answered" if tried else "no check counts"
    bounds = month.bounds
    if kind == "capacity" and month.share.ratio is not None:  # of requests, which are a sample: an unproven one may have been refused
        bounds = (answers / tried, month.share.ratio)
        low, high = wilson_interval(answers, tried).low, month.share.high
        evidence = f"{format_percent(low, 3)} … {format_percent(high, 3)}, {evidence}"
    return MonthLine(
        f"{month.begin:%Y-%m}",
        format_bounds(bounds, 3) if bounds else "not shown" if month.checked else "no checks",
        bounds[0] if bounds else None,
        bounds[1] if bounds else None,
        evidence,
        month.share.n,
        _time(month.down_s),
        _time(month.unknown_s),
        _time(month.unobserved_s),
        ", ".join((*ours, *unproven)),
        tuple(map(outage_line, month.outages)),
    )


def outage_line(outage: Outage) -> OutageLine:
    recovery = outage.recovery_s
    return OutageLine(
        f"{outage.began:%Y-%m-%d %H:%M}",
        "lasts" if outage.ended is None else f"{outage.ended:%Y-%m-%d %H:%M}",
        "–" if recovery is None else _time(recovery),
        format_name(outage.cause),
        outage.detail,
        PROVIDERS if outage.whose == "provider" else "not proven",
    )


def _time(seconds: float) -> str:
    return common_scale("s", [seconds]).text(seconds)


def week_chart(kind: WatchKind, what: str, hours: Sequence[HourOfWeek]) -> Chart | None:
    """Each hour of the week (UTC) in a colour by its distance to the median of all; None without a measured one."""
    measured = [h.seconds for h in hours if h.seconds is not None]
    if not measured:
        return None
    scale, usual = common_scale("s", measured), median(measured)
    groups: dict[tuple[str, str], list[HourOfWeek]] = {**{level[1:]: [] for level in _LEVELS}, _REFUSED: []}
    for h in hours:
        if h.seconds is not None:
            groups[next(level[1:] for level in _LEVELS if h.seconds <= level[0] * usual)].append(h)
        elif h.refused:
            groups[_REFUSED].append(h)
    data = [
        marks(
            [h.hour for h in group],
            [h.weekday for h in group],
            colour,
            "%{hovertext}",
            size=16,
            symbol="square",
            hovertext=[f"{_DAYS[h.weekday]} {h.hour:02}:00: {scale.text(h.seconds)}, {h.refused} of {h.checks} refused" for h in group],
            name=name,
        )
        for (colour, name), group in groups.items()
        if group
    ]
    return Chart(
        name=f"{kind}-week",
        section="availability",
        title=f"{what} over day and week",
        caption=f"Median of the checks of each hour (UTC); over all hours {scale.text(usual)}.",
        data=data,
        layout={
            "xaxis": axis("hour of the day (UTC)", range=[-0.6, 23.6], tickvals=[0, 6, 12, 18, 23], ticktext=["0", "6", "12", "18", "23"]),
            "yaxis": axis("", range=[6.6, -0.6], tickvals=list(range(7)), ticktext=list(_DAYS)),
            "hovermode": "closest",
        },
        height=300,
        wide=True,
    )
