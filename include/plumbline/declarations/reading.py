"""Numbers as people read them: three significant digits and a unit of a fitting size."""

from __future__ import annotations

from plumbline.declarations.metrics import Unit

_SI = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SECONDS = ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
ABSENT = "–"


def reading(value: float | None, unit: Unit | str) -> str:
    """`0.01234, "s"` as `12.3 ms`; None as a dash. Ratios are percentages, money keeps the digits that matter."""
    if value is None:
        return ABSENT
    if unit == "s":
        size = abs(value)
        if size == 0:
            return "0 s"
        factor, name = next(((f, n) for f, n in _SECONDS if size >= f * (120 / 60 if f >= 60 else 1)), _SECONDS[-1])
        return f"{digits(value / factor)} {name}"
    if unit == "ratio":
        return f"{digits(value * 100)} %"
    if unit == "USD":
        return f"{value:,.2f} USD" if abs(value) >= 1 or value == 0 else f"{value:.3g} USD"
    if unit in ("count", "1", ""):
        return f"{value:,.0f}" if value == int(value) else digits(value)
    if unit in ("bytes", "bytes/s", "FLOP/s", "tokens/s", "samples/s", "W", "J"):
        factor, prefix = next(((f, p) for f, p in _SI if abs(value) >= f), _SI[-1])
        if unit in ("tokens/s", "samples/s"):
            return f"{value:,.0f} {unit}" if abs(value) >= 1000 else f"{digits(value)} {unit}"
        symbol = {"bytes": "B", "bytes/s": "B/s"}.get(unit, unit)
        return f"{digits(value / factor)} {prefix}{symbol}"
    return f"{digits(value)}{unit if unit.startswith('/') else '/s' if unit == '1/s' else ' ' + unit}"


def digits(value: float) -> str:
    """Three significant digits without an exponent: 1234 → 1,230, 12.34 → 12.3, 0.01234 → 0.0123."""
    rounded = float(f"{value:.3g}")
    if rounded == 0:
        return "0"
    if abs(rounded) >= 100:
        return f"{rounded:,.0f}"
    places = 1 if abs(rounded) >= 10 else 2 if abs(rounded) >= 1 else 6
    return f"{rounded:.{places}f}".rstrip("0").rstrip(".") if places == 6 else f"{rounded:.{places}f}"
