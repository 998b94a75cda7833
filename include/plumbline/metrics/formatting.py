"""Format quantities: three significant digits and a unit of a fitting size."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from plumbline.metrics import METRICS, Unit

_SI = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SECONDS = ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
ABSENT = "–"


def format_quantity(value: float | None, unit: Unit | str) -> str:
    """`0.01234, "s"` as `12.3 ms`; None as a dash. Ratios are percentages, money keeps the digits that matter."""
    if value is None:
        return ABSENT
    if unit == "s":
        size = abs(value)
        if size == 0:
            return "0 s"
        factor, name = next(((f, n) for f, n in _SECONDS if size >= f * (120 / 60 if f >= 60 else 1)), _SECONDS[-1])
        return f"{format_significant(value / factor)} {name}"
    if unit == "ratio":
        return f"{format_significant(value * 100)} %"
    if unit == "USD":
        return f"{value:,.2f} USD" if abs(value) >= 1 or value == 0 else f"{value:.3g} USD"
    if unit in ("count", "1", ""):
        return f"{value:,.0f}" if value == int(value) else format_significant(value)
    if unit in ("bytes", "bytes/s", "FLOP/s", "tokens/s", "samples/s", "W", "J"):
        factor, prefix = next(((f, p) for f, p in _SI if abs(value) >= f), _SI[-1])
        if unit in ("tokens/s", "samples/s"):
            return f"{value:,.0f} {unit}" if abs(value) >= 1000 else f"{format_significant(value)} {unit}"
        symbol = {"bytes": "B", "bytes/s": "B/s"}.get(unit, unit)
        return f"{format_significant(value / factor)} {prefix}{symbol}"
    return f"{format_significant(value)}{unit if unit.startswith('/') else '/s' if unit == '1/s' else ' ' + unit}"


def format_significant(value: float) -> str:
    """Three significant digits without an exponent: 1234 → 1,230, 12.34 → 12.3, 0.01234 → 0.0123."""
    rounded = float(f"{value:.3g}")
    if rounded == 0:
        return "0"
    if abs(rounded) >= 100:
        return f"{rounded:,.0f}"
    places = 1 if abs(rounded) >= 10 else 2 if abs(rounded) >= 1 else 6
    return f"{rounded:.{places}f}".rstrip("0").rstrip(".") if places == 6 else f"{rounded:.{places}f}"


def format_grouped(value: float) -> str:
    """Four digits, thousands separated, never as a power of ten."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.4g}"


def format_relative_change(fraction: float, digits: int = 1) -> str:
    """`+91 %`, `−8.2 %`: a decimal only below ten per cent, a real minus sign."""
    value = 100 * fraction
    text = f"{abs(value):.{0 if round(abs(value), digits) >= 10 else digits}f}"
    return f"{'−' if value < 0 and float(text) else '+'}{text} %"


def format_amount(value: float) -> str:
    """An amount without its unit: cents only below 10."""
    text = f"{abs(value):,.2f}" if abs(value) < 10 else f"{abs(value):,.0f}"
    return f"−{text}" if value < 0 and text.strip("0.,") else text


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
_WHOLE_SECONDS = frozenset({"provisioning_lead_time", "pod_scheduling_time", "image_pull_time"})
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
        return "–" if value is None else f"{value / self.factor:,.{self.decimals}f}"

    def text(self, value: float | None) -> str:
        """The value with its unit; "under 1 s" of 0 where the clock counts whole seconds."""
        if value == 0 and self.whole_seconds:
            return "under 1 s"
        return self.number(value) if value is None else f"{self.number(value)}{_gap(self.suffix)}{self.suffix}"


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
    return Scale(factor, suffix, min(decimals, 10), metric in _WHOLE_SECONDS)


def _unit(unit: str, metric: str, size: float) -> tuple[float, str]:
    if unit == "ratio":
        return 0.01, "%"
    if unit in _STEPS:
        # Nobody reads 90 s better as 1.5 min: minutes and hours start at two.
        fitting = [step for step in _STEPS[unit] if size >= step[0] * (2 if step[1] in ("min", "h") else 1)]
        return fitting[-1] if fitting else _STEPS[unit][0]
    if metric.removesuffix(_AT_OFFERED_RATE) == "cost_per_good_request" and size < 1e-3:
        return 1e-6, "USD per million"  # nobody reads 0.000000906 USD
    return 1.0, _SHOWN.get(unit, unit)


def _gap(suffix: str) -> str:
    return "" if suffix.startswith("/") or not suffix else " "


def format_percent(share: float | None, decimals: int = 0) -> str:
    """A share as a percentage; an en dash for an absent one."""
    return "–" if share is None else f"{100 * share:.{decimals}f} %"


def format_change(fraction: float | None, decimals: int = 1) -> str:
    """A signed change such as `+7.9 %`, with a minus sign instead of a hyphen; empty for None."""
    return "" if fraction is None else f"{100 * fraction:+.{decimals}f} %".replace("-", "−")


def format_probability(probability: float | None) -> str:
    """A probability, never shown as certain: draws cannot prove 0 or 1."""
    if probability is None:
        return "–"
    if probability > 0.99:
        return "> 99 %"
    return "< 1 %" if probability < 0.01 else f"{100 * probability:.0f} %"


def format_bytes(count: int) -> str:
    return common_scale("bytes", [float(count)]).text(float(count)) if count >= 1024 else f"{count} B"


def format_name(name: str) -> str:
    """A metric's or statistic's name for people; of a cost of inference also the rate that it is at."""
    plain = name.replace("_", " ").replace(" 1m ", " 1M ").replace("at offered rate", "at the offered rate")
    offered = METRICS.get(f"{name}{_AT_OFFERED_RATE}")
    return f"{plain} at the sustained rate" if offered is not None and offered.group == "cost" else plain


def capitalize_first(text: str) -> str:
    return text[:1].upper() + text[1:]


def join_words(items: Iterable[str]) -> str:
    words = list(items)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""


_LISTED = 5


def expected_names(given: str, known: Iterable[str]) -> str:
    """What may stand in place of an unknown name: what begins like it or resembles it first, of many others five and how many there are."""
    names = sorted(known)
    near = [n for n in names if given and n.startswith(given)] + get_close_matches(given, names, n=3)
    ordered = list(dict.fromkeys([*near, *names]))
    rest = len(ordered) - _LISTED
    return f"{', '.join(ordered[:_LISTED])}{f' and {rest} more' if rest > 0 else ''}" or "(none)"


def unknown_name(what: str, given: str, known: Iterable[str]) -> str:
    """The message about a name that is not among the `known`."""
    return f'no {what} is called "{given}"; expected one of {expected_names(given, known)}'
