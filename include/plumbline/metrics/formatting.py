"""Numbers as text, on every surface alike: quantities, money, probabilities, shares and changes."""

from __future__ import annotations

import math
import re
from calendar import month_name
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches

from plumbline.metrics import METRICS, Unit

ABSENT = "–"


def format_quantity(value: float | None, unit: Unit | str) -> str:
    """One number with its unit: `0.01234, "s"` as `12.3 ms`; None as a dash."""
    return common_scale(unit, [value]).text(value)


def format_significant(value: float) -> str:
    """Three significant digits without an exponent: 1234 → 1,234, 12.34 → 12.3, 0.01234 → 0.0123."""
    rounded = float(f"{value:.3g}")
    if abs(rounded) >= 1:
        return _minus(f"{value:,.{0 if abs(rounded) >= 100 else 1 if abs(rounded) >= 10 else 2}f}")
    return _minus(f"{rounded:.10f}".rstrip("0").rstrip(".")) if rounded else "0"


def format_amount(amount: float | None, digits: int = 2) -> str:
    """Money without its unit: cents below 1,000, whole from there on, three significant digits of what is below 1; or so many `digits`
    after the point."""
    if amount is None:
        return ABSENT
    size = abs(amount)
    if digits == 2 and (size >= 999.995 or size == 0):
        return _minus(f"{amount:,.0f}")
    if digits > 2 or size >= 1:
        return _minus(f"{amount:,.{digits}f}")
    whole, _, decimals = format_significant(amount).partition(".")
    return f"{whole}.{decimals:0<2}"


def format_money(amount: float | None, unit: str = "USD") -> str:
    """An amount with its unit, such as `27.60 USD/h` and `5,670 USD`."""
    return ABSENT if amount is None else f"{format_amount(amount)} {unit}"


def format_money_change(old: float | None, new: float, unit: str = "USD") -> str:
    """`23.92 → 31.20 USD/h (+30 %)`, with enough decimals to tell the two apart."""
    if old is None:
        return format_money(new, unit)
    digits = next((d for d in range(2, 8) if old == new or format_amount(old, d) != format_amount(new, d)), 8)
    share = f" ({format_change(new / old - 1)})" if old else ""
    return f"{format_amount(old, digits)} → {format_amount(new, digits)} {unit}{share}"


def format_monthly(usd: float) -> str:
    """An estimated cost a month: two digits."""
    return f"{'saves ' if usd < 0 else ''}{_about_monthly(usd)}"


def format_monthly_change(usd: float) -> str:
    """A difference of cost a month: `about 1,200 USD a month more`."""
    return f"{_about_monthly(usd)} {'more' if usd > 0 else 'less'}"


def _about_monthly(usd: float) -> str:
    return f"about {format_amount(float(f'{abs(usd):.2g}')).removesuffix('.00')} USD a month"


def _minus(text: str) -> str:
    """A real minus sign, and none before zero."""
    return text.replace("-", "−" if text.strip("-0.,") else "")


_STEPS: dict[str, tuple[tuple[float, str], ...]] = {
    "s": ((1e-6, "µs"), (1e-3, "ms"), (1.0, "s"), (60.0, "min"), (3600.0, "h")),
    "bytes": ((1.0, "B"), (2.0**10, "KiB"), (2.0**20, "MiB"), (2.0**30, "GiB"), (2.0**40, "TiB")),
    "bytes/s": ((1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s"), (1e12, "TB/s")),
    "FLOP/s": ((1e6, "MFLOP/s"), (1e9, "GFLOP/s"), (1e12, "TFLOP/s"), (1e15, "PFLOP/s")),
    "W": ((1.0, "W"), (1e3, "kW")),
    "J": ((1e-3, "mJ"), (1.0, "J"), (1e3, "kJ")),
}
_SHOWN = {"1/s": "/s", "count": "", "1": ""}
SIGNIFICANT_DIGITS = 3
_AT_OFFERED_RATE = "_at_offered_rate"
_WHOLE_SECONDS = frozenset(
    {"provisioning_lead_time", "pod_scheduling_time", "image_pull_time", *(name for name in METRICS if name.startswith("gang_ready_time_"))}
)
"""A cluster reports these in whole seconds: 0 means below one. A local launcher's own clock never gives exactly 0."""


@dataclass(frozen=True)
class Scale:
    """A unit to show values in (`value / factor`) and the decimals that go with it. `whole_seconds`: the resolution of the values."""

    factor: float
    suffix: str
    decimals: int
    whole_seconds: bool = False

    def number(self, value: float | None) -> str:
        """The value without its unit, thousands separated; an en dash for an absent one."""
        if value is None or self.suffix == "USD":
            return format_amount(value)
        return _minus(f"{value / self.factor:,.{self.decimals}f}")

    def interval(self, low: float | None, high: float | None) -> str:
        """Both ends without their unit; empty if one is absent."""
        return "" if low is None or high is None else f"{self.number(low)} … {self.number(high)}"

    def text(self, value: float | None) -> str:
        """The value with its unit; "under 1 s" of 0 where the clock counts whole seconds."""
        if value == 0 and self.whole_seconds:
            return "under 1 s"
        gap = "" if self.suffix.startswith("/") or not self.suffix else " "
        return self.number(value) if value is None else f"{self.number(value)}{gap}{self.suffix}"


def common_scale(unit: str, values: Iterable[float | None], metric: str = "", significant: int = SIGNIFICANT_DIGITS) -> Scale:
    """The unit and precision in which these values of one unit are read best: the smallest one keeps `significant` digits."""
    sizes = sorted(abs(v) for v in values if v is not None and math.isfinite(v) and v != 0)
    middle = sizes[len(sizes) // 2] if sizes else 0.0
    factor, suffix = _unit(unit, metric, middle)
    smallest = sizes[0] / factor if sizes else 0.0
    # A value that is tiny beside the others must not stretch all of them: precision follows it down to a tenth of the middle one.
    smallest = max(smallest, middle / factor / 10)
    decimals = max(0, significant - 1 - math.floor(math.log10(smallest))) if smallest > 0 else 0
    if unit == "count" and all(size == int(size) for size in sizes):
        decimals = 0  # nobody loses 36.0 requests
    if unit == "ratio" and (known := METRICS.get(metric)) is not None and known.of_provider:
        decimals = 3  # of an availability the last digits count
    return Scale(factor, suffix, min(decimals, 10), metric in _WHOLE_SECONDS)


def _unit(unit: str, metric: str, size: float) -> tuple[float, str]:
    if unit == "ratio":
        return 0.01, "%"
    if unit in _STEPS:
        if size == 0:
            return next((step for step in _STEPS[unit] if step[0] == 1.0), _STEPS[unit][0])
        # Nobody reads 90 s better as 1.5 min: minutes and hours start at two.
        fitting = [step for step in _STEPS[unit] if size >= step[0] * (2 if step[1] in ("min", "h") else 1)]
        return fitting[-1] if fitting else _STEPS[unit][0]
    if metric.removesuffix(_AT_OFFERED_RATE) == "cost_per_good_request" and size < 1e-3:
        return 1e-6, "USD per million"  # nobody reads 0.000000906 USD
    return 1.0, _SHOWN.get(unit, unit)


def format_percent(share: float | None, decimals: int = 0) -> str:
    """A share as a percentage; an en dash for an absent one."""
    return ABSENT if share is None else f"{100 * share:.{decimals}f} %"


def format_bounds(bounds: tuple[float, float], decimals: int) -> str:
    """`99.1 % … 100.0 %`, once where both read the same. The lower one is rounded down: no rounding makes time up that was not seen so."""
    size = 10 ** (decimals + 2)
    high = format_percent(bounds[1], decimals)
    if math.isclose(*bounds, abs_tol=0.1 / size):
        return high
    low = format_percent(math.floor(round(bounds[0] * size, 6)) / size, decimals)
    return low if low == high else f"{low} … {high}"


def format_limit(share: float) -> str:
    """A declared share, such as a threshold, as it was written: `10 %`, `2.5 %`."""
    return f"{100 * share:.6g} %"


def format_change(fraction: float | None, digits: int = 1) -> str:
    """A change with its sign, `+91 %` or `−8.2 %`: decimals only below ten per cent; empty for None."""
    if fraction is None:
        return ""
    text = f"{abs(100 * fraction):.{0 if round(abs(100 * fraction), digits) >= 10 else digits}f}"
    return f"{'−' if fraction < 0 and float(text) else '+'}{text} %"


def format_probability(probability: float | None) -> str:
    """A probability, never shown as certain: draws cannot prove 0 or 1."""
    if probability is None:
        return ABSENT
    if probability > 0.99:
        return "> 99 %"
    return "< 1 %" if probability < 0.01 else f"{100 * probability:.0f} %"


def format_count(count: int, noun: str, plural: str = "") -> str:
    """A number of things, such as `1 trial` and `3 trials`."""
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def format_bytes(count: int) -> str:
    return common_scale("bytes", [float(count)]).text(float(count)) if count >= 1024 else f"{count} B"


def format_name(name: str) -> str:
    """A metric's or statistic's name for people; of a cost of inference also the rate that it is at."""
    plain = name.replace("_", " ").replace(" 1m ", " 1M ").replace("at offered rate", "at the offered rate")
    offered = METRICS.get(f"{name}{_AT_OFFERED_RATE}")
    return f"{plain} at the sustained rate" if offered is not None and offered.group == "cost" else plain


_PROBE_NAMES = {
    "matmul_tflops": "matmul",
    "memory_bandwidth": "memory bandwidth",
    "disk_write_bandwidth": "disk",
    "all_reduce_bus_bandwidth": "all-reduce",
    "inter_node_all_reduce_bus_bandwidth": "all-reduce between nodes",
}


def format_probe_name(metric: str) -> str:
    """A hardware probe's everyday name."""
    product = metric.removeprefix("matmul_tflops_")
    return f"matmul in {product}" if product != metric else _PROBE_NAMES.get(metric, metric.replace("_", " "))


def capitalize_first(text: str) -> str:
    return text[:1].upper() + text[1:]


def join_words(items: Iterable[str]) -> str:
    words = list(items)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""


def shorten(names: Iterable[str], most: int = 3) -> str:
    """The first of many names, and how many more there are."""
    listed = list(names)
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")


def first_lines(lines: Sequence[str], most: int, rest: str) -> list[str]:
    """The first of many lines, then `rest` with how many more there are in place of its {}."""
    more = len(lines) - most
    return [*lines[:most], rest.format(more)] if more > 0 else list(lines)


_LISTED = 5


def expected_names(given: str, known: Iterable[str]) -> str:
    """Names that may replace an unknown one: those that begin with it, hold its parts, or are similar, in this order; of many others, five and
    their number."""
    names = sorted(known)
    asked = given.lower()
    parts = [part for part in re.split(r"[^a-z0-9.]+", asked) if part]
    begin = [name for name in names if asked and name.lower().startswith(asked)]
    hold = [name for name in names if parts and all(part in name.lower() for part in parts)]
    return shorten(dict.fromkeys([*begin, *hold, *get_close_matches(given, names, n=3), *names]), _LISTED) or "(none)"


def unknown_name(what: str, given: str, known: Iterable[str]) -> str:
    """The message about a name that is not among the `known`."""
    return f'no {what} is called "{given}"; expected one of {expected_names(given, known)}'


def format_day(day: str) -> str:
    """`2026-09-01` as `1 September 2026`; other texts as they are."""
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", day):
        return day
    on = date.fromisoformat(day)
    return f"{on.day} {month_name[on.month]} {on.year}"
