"""How a cost was computed, as values; `words.costs` writes it as a formula."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from plumbline.analysis.cost.interruptions import Restarts
from plumbline.metrics.units import Amount


@dataclass(frozen=True)
class HeldTime:
    """The price of an hour × `seconds`; of a finished run also its share of what failed attempts held, `failed_s`."""

    seconds: float
    failed_s: float | None = None


@dataclass(frozen=True)
class TimeAtRate:
    """The price of an hour of `nodes` × the time of `amount` outcomes at so many a second. `load`: of inference, what the rate is."""

    nodes: int
    amount: float
    what: str
    per_second: float
    load: Literal["sustained", "offered"] | None


@dataclass(frozen=True)
class TimeUp:
    """The price of an hour × `hours` of a month that an endpoint is up × `amount` ÷ the outcomes a month."""

    hours: float
    amount: float
    volume: float
    what: str


@dataclass(frozen=True)
class TokenCharge:
    """The charge for the steady phase's requests and tokens, in USD."""

    usd: Amount
    requests: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class ChargeByOutcome:
    """The charge ÷ `units` outcomes × `amount`."""

    charge: TokenCharge
    units: float
    what: str
    amount: float


@dataclass(frozen=True)
class SharedBills:
    """The bill of a run, and those of `failed` attempts shared by `finished` runs."""

    failed: int
    finished: int


Start = HeldTime | TimeAtRate | TimeUp | ChargeByOutcome | SharedBills | Literal["all_charges"]
"""What a cost begins with; `all_charges`: tokens and requests of all phases."""


@dataclass(frozen=True)
class SupportShare:
    """Support as a share of what the instances cost."""

    share: float


@dataclass(frozen=True)
class MonthlyPart:
    """USD a month of `items` × `amount` ÷ the outcomes a month."""

    usd: Amount
    items: tuple[str, ...]
    amount: float
    volume: float


@dataclass(frozen=True)
class HourlyPart:
    """USD an instance-hour of `items`."""

    usd: Amount
    items: tuple[str, ...]


@dataclass(frozen=True)
class Formula:
    """`restarts`: the factor of expected interruptions. `left_out`: what the rate omits, in words. `beside`: what is added to the hours."""

    start: Start
    restarts: Restarts | None = None
    left_out: str = ""
    beside: tuple[SupportShare | MonthlyPart | HourlyPart, ...] = ()
