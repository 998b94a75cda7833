"""A provider's monthly budget: what was used of it, and how much of a plan it still carries. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from statistics import median

from plumbline.analysis.cost.trial_bill import TrialUsage, hours, machine_bill
from plumbline.analysis.prices.book import paid_of
from plumbline.declarations import Budget, Provider
from plumbline.metrics.units import Amount
from plumbline.results.token_usage import TokenUsage

_ROUNDING = 1e-5
"""Tolerance, as a fraction of a limit: sums of rounded hours that should equal it differ by less."""


@dataclass(frozen=True)
class BudgetUse:
    """The use of a provider: paid GPU-hours and USD, and the trials' `share` of these USD.

    Both are None where no price says, and `unpriced` why: an unknown cost is not a cost of nothing.
    """

    gpu_hours: float = 0.0
    usd: Amount | None = 0.0
    unpriced: str | None = None
    share: float | None = 0.0

    def __add__(self, other: BudgetUse) -> BudgetUse:
        usd = None if self.usd is None or other.usd is None else self.usd + other.usd
        share = None if self.share is None or other.share is None else self.share + other.share
        return BudgetUse(self.gpu_hours + other.gpu_hours, usd, self.unpriced or other.unpriced, share)

    def times(self, n: int) -> BudgetUse:
        """The same, `n` times over."""
        usd, share = (None if each is None else each * n for each in (self.usd, self.share))
        return BudgetUse(self.gpu_hours * n, usd, self.unpriced, share)


def budget_use(provider: Provider, held_s: float, on: date, gpus: int | None = None, tokens: tuple[TokenUsage, ...] = ()) -> BudgetUse:
    """What holding `gpus` accelerators (None: all) of the provider's instances for `held_s` seconds (summed over the nodes) from the day
    `on` takes.

    GPU-hours are 0 of an instance without accelerators; USD are those of `machine_bill`, of a hosted model by its `tokens`. Both count what
    is paid: an instance that is sold whole is used whole.
    """
    if held_s <= 0:
        return BudgetUse()
    gpu_hours = 0.0 if provider.accelerator.kind == "cpu" else provider.accelerator.count * hours(held_s, paid_of(provider, gpus))
    use = TrialUsage(provider.name, provider.name, on, usable=True, ended="", held_s=held_s, measured_s=held_s, gpus=gpus, tokens=tokens)
    bill = machine_bill(use, provider, on)
    if bill.unknown or bill.paid is None or bill.share is None:
        return BudgetUse(gpu_hours, None, "; ".join(each.reason for each in bill.unknown), None)
    return BudgetUse(gpu_hours, bill.paid.amount, None, bill.share.amount)


def sum_uses(uses: Iterable[BudgetUse]) -> BudgetUse:
    """All of them together."""
    total = BudgetUse()
    for use in uses:
        total += use
    return total


def sum_known(uses: Iterable[BudgetUse]) -> BudgetUse:
    """All that have a price together; `unpriced` says of what the rest is, and then the USD are at least so much."""
    own = list(uses)
    total = sum_uses(use for use in own if use.usd is not None)
    return BudgetUse(total.gpu_hours, total.usd, "; ".join(dict.fromkeys(use.unpriced for use in own if use.unpriced)) or None, total.share)


SUMS = (("total", False), ("simulated", True))
"""Under a table of money: the sum of what is paid, and apart that of what is simulated."""


def expected_held_s(durations_s: Sequence[float], estimated_s: float) -> float:
    """Seconds (over all nodes) that a trial is expected to hold its provider: the median of the last ones of its series, else the estimate."""
    return median(durations_s) if durations_s else estimated_s


@dataclass(frozen=True)
class BudgetLimit:
    """One limit of a budget, or a sum of such. `used`, `left`: None where the cost is not known."""

    unit: str
    limit: Amount
    used: Amount | None
    left: Amount | None

    @property
    def share(self) -> float | None:
        """The used part, 0…1."""
        return None if self.used is None else min(self.used / self.limit, 1.0)


@dataclass(frozen=True)
class Balance:
    """A provider's budget of one calendar month (`2026-11`, UTC) and what is used of it."""

    provider: str
    month: str
    budget: Budget
    used: BudgetUse

    @property
    def gpu_hours_left(self) -> float | None:
        """None without such a limit; never below 0."""
        limit = self.budget.gpu_hours_per_month
        return None if limit is None else _remaining(limit, self.used.gpu_hours)

    @property
    def usd_left(self) -> float | None:
        """None without such a limit, or where the cost of what was used is not known; never below 0."""
        limit = self.budget.usd_per_month
        return None if limit is None or self.used.usd is None else _remaining(limit, self.used.usd)

    @property
    def limits(self) -> tuple[BudgetLimit, ...]:
        """The limits that the budget declares."""
        of, used = self.budget, self.used
        sides = (
            ("GPU-hours", of.gpu_hours_per_month, used.gpu_hours, self.gpu_hours_left),
            ("USD", of.usd_per_month, used.usd, self.usd_left),
        )
        return tuple(BudgetLimit(unit, limit, spent, left) for unit, limit, spent, left in sides if limit is not None)

    def with_used(self, more: BudgetUse) -> Balance:
        """The balance after that was used too."""
        return Balance(self.provider, self.month, self.budget, self.used + more)

    @property
    def exceeded(self) -> str | None:
        """Which limit what is used goes past, in words; None if none. A cost that is not known is past any limit in USD."""
        gpu_hours, usd = self.budget.gpu_hours_per_month, self.budget.usd_per_month
        if gpu_hours is not None and self.used.gpu_hours > gpu_hours * (1 + _ROUNDING):
            return f"{_figure(self.used.gpu_hours)} of {_figure(gpu_hours)} GPU-hours"
        if usd is None:
            return None
        if self.used.usd is None:
            return f"USD cannot be counted: {self.used.unpriced}"
        return f"{_figure(self.used.usd)} of {_figure(usd)} USD" if self.used.usd > usd * (1 + _ROUNDING) else None

    def __str__(self) -> str:
        parts = []
        if self.budget.gpu_hours_per_month is not None:
            parts.append(f"{_figure(self.gpu_hours_left or 0.0)} of {_figure(self.budget.gpu_hours_per_month)} GPU-hours")
        if self.budget.usd_per_month is not None:
            left = "an unknown part" if self.usd_left is None else _figure(self.usd_left)
            parts.append(f"{left} of {_figure(self.budget.usd_per_month)} USD")
        why = f" ({self.used.unpriced})" if self.budget.usd_per_month is not None and self.used.usd is None else ""
        return f"{' and '.join(parts)} left of {self.month}{why}"


def sum_limits(balances: Iterable[Balance]) -> tuple[BudgetLimit, ...]:
    """The limits of one unit together, of each unit that several providers limit."""
    by_unit: dict[str, list[BudgetLimit]] = {}
    for balance in balances:
        for limit in balance.limits:
            by_unit.setdefault(limit.unit, []).append(limit)
    return tuple(
        BudgetLimit(unit, sum(one.limit for one in own), *(_total([getattr(one, name) for one in own]) for name in ("used", "left")))
        for unit, own in by_unit.items()
        if len(own) > 1
    )


def _total(parts: Sequence[float | None]) -> float | None:
    return None if None in parts else sum(part for part in parts if part is not None)


def rounds_within_budget(balance: Balance, rounds: Sequence[BudgetUse]) -> tuple[int, str | None]:
    """How many rounds, from the first on, the balance carries, and in words what the next one would go past; None if all fit.

    A round that does not fit ends the plan: a later, smaller one is not slipped in before it.
    """
    for n, use in enumerate(rounds):
        balance = balance.with_used(use)
        if (why := balance.exceeded) is not None:
            return n, why
    return len(rounds), None


def _remaining(limit: float, used: float) -> float:
    left = limit - used
    return left if left > limit * _ROUNDING else 0.0


def _figure(value: float) -> str:
    """An amount as text: hundredths, and three digits below 1."""
    return f"{value:,.2f}".removesuffix(".00") if value >= 1 or value == 0 else f"{value:.3g}"
