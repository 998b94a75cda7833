"""An invoice as it was compared with the archive: what archive, analysis and pages share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, TypeVar

from plumbline.metrics.units import MONEY

Row = TypeVar("Row")
NAMES_KEPT = 50
"""Names of lines that were not compared, the largest sums; those of the others are one sum a currency."""
OTHERS = "others"
NOT_SELECTED = "not selected"


@dataclass(frozen=True)
class Uncompared:
    """Lines of one name in the file's own words that no declared price was compared with, and their sum."""

    name: str
    currency: str
    lines: int
    cost: Annotated[Decimal, MONEY]


@dataclass(frozen=True)
class ComparedSum:
    """What the file bills for a provider by the hour in lines that were compared."""

    provider: str
    currency: str
    lines: int
    cost: Annotated[Decimal, MONEY]


@dataclass(frozen=True)
class Difference:
    """`kind`: price (over the accepted one), price_below, hours_without_trial, trials_not_billed, duplicate, currency, tax, credit, adjustment,
    correction, unused_commitment, region. `cost`: what the invoice has more than expected, of all `count`, in `currency`. `line`: the first, None of
    what has no line; `detail` is about it."""

    kind: str
    provider: str
    cost: Annotated[Decimal, MONEY]
    line: int | None
    detail: str
    count: int = 1
    currency: str = "USD"


@dataclass(frozen=True)
class ComparedInvoice:
    """`asked`: the providers that the comparison was limited to; empty for all declared ones. `first`, `after`: the days that its lines cover,
    None without a line. `matched` of `lines` were compared. `findings`: the id of each difference's finding, in their order; empty where none opens.
    `selection`: the options that chose the lines, none of a whole file; `left_out`: sums of the others."""

    file: str
    sha256: str
    asked: tuple[str, ...]
    first: date | None
    after: date | None
    lines: int
    matched: int
    compared: tuple[ComparedSum, ...]
    differences: tuple[Difference, ...]
    uncompared: tuple[Uncompared, ...]
    findings: tuple[str, ...]
    simulated: bool = False
    selection: tuple[str, ...] = ()
    left_out: tuple[Uncompared, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """For storage as JSON: amounts and days as text."""
        stored: dict[str, Any] = _as_text(asdict(self))
        return stored

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> ComparedInvoice:
        """What `to_dict` wrote. KeyError, TypeError or ValueError for another shape; fields of a newer version are left out."""
        own = {each.name: stored[each.name] for each in fields(cls) if each.name in stored}
        own |= {name: None if own[name] is None else date.fromisoformat(own[name]) for name in ("first", "after")}
        own |= {name: tuple(own[name]) for name in ("asked", "findings")} | {"selection": tuple(own.get("selection", ()))}
        for name, kind in (("compared", ComparedSum), ("differences", Difference), ("uncompared", Uncompared)):
            own[name] = tuple(_row(kind, each) for each in own[name])
        own["left_out"] = tuple(_row(Uncompared, each) for each in own.get("left_out", ()))
        return cls(**own)


@dataclass(frozen=True)
class ComparedInvoiceView:
    """A comparison as archived: when, and by whom."""

    invoice: ComparedInvoice
    compared_at: datetime
    compared_by: str


def largest(uncompared: tuple[Uncompared, ...]) -> tuple[Uncompared, ...]:
    """The `NAMES_KEPT` first of them, and a sum of the others in each currency."""
    kept, rest = uncompared[:NAMES_KEPT], uncompared[NAMES_KEPT:]
    sums: dict[str, tuple[int, Decimal]] = {}
    for each in rest:
        lines, cost = sums.get(each.currency, (0, Decimal()))
        sums[each.currency] = lines + each.lines, cost + each.cost
    return (*kept, *(Uncompared(OTHERS, currency, *both) for currency, both in sums.items()))


def _row(kind: type[Row], stored: Mapping[str, Any]) -> Row:
    own = {each.name: stored[each.name] for each in fields(kind) if each.name in stored}  # type: ignore[arg-type]
    return kind(**own | {"cost": Decimal(own["cost"])})


def _as_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_text(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_text(each) for each in value]
    return str(value) if isinstance(value, Decimal | date) else value
