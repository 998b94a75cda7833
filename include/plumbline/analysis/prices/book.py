"""The price book: which declared price of a provider holds on a day, and the reason when none does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise
from typing import Any

from plumbline.declarations import Price, Provider
from plumbline.declarations.providers.rates import Purchase, Term
from plumbline.metrics.units import Amount
from plumbline.results.stored import PriceView

OTHER_GPUS = "other_gpus_alike"
"""The caveat of every figure that charges a part of an instance that is sold whole."""
OTHER_GPUS_TEXT = "assumes the other GPUs are used alike"


@dataclass(frozen=True)
class InstanceShare:
    """The charged share of each instance: `gpus` of its `of` accelerators. `assumed`: the provider sells the instance whole."""

    gpus: int
    of: int
    assumed: bool = False

    @property
    def fraction(self) -> float:
        return self.gpus / self.of

    @property
    def caveat(self) -> str | None:
        """The code of what the figure assumes; None if it assumes nothing."""
        return OTHER_GPUS if self.assumed else None

    def __str__(self) -> str:
        return f"{self.gpus} of {self.of} GPUs" + (f", {OTHER_GPUS_TEXT}" if self.assumed else "")


@dataclass(frozen=True)
class Basis:
    """The basis of a cost; every figure in USD that a person sees has one.

    `share`: the part of the instance that `usd_per_hour` charges; None for all of it.
    """

    purchase: Purchase
    usd_per_hour: Amount
    since: date
    source: str
    share: InstanceShare | None = None

    @property
    def hour(self) -> str:
        """The price of an hour as a formula shows it."""
        if self.share is None:
            return f"{self.usd_per_hour:.6g} USD/h"
        return f"{self.usd_per_hour / self.share.fraction:.6g} USD/h × {self.share.gpus}/{self.share.of}"

    def __str__(self) -> str:
        part = "" if self.share is None else f" ({self.share})"
        return f"{self.purchase}, {self.hour}{part} since {self.since.isoformat()}, source: {self.source}"


@dataclass(frozen=True)
class Quote:
    """A provider's price on a day, or why there is none: exactly one of the two is set."""

    basis: Basis | None
    reason: str | None


def share_of(provider: Provider, gpus: int | None) -> InstanceShare | None:
    """The share of each instance that unit costs and rankings charge a trial with `gpus` of its accelerators (None: all); None for all of it.

    The cores of a CPU provider are one trial's, the client's beside the server's, and what is behind an endpoint is billed as a whole.
    """
    has = provider.accelerator
    if gpus is None or gpus >= has.count or has.kind == "cpu" or provider.launcher.hosted:
        return None
    return InstanceShare(gpus, has.count, assumed=provider.sold_by == "instance")


def paid_of(provider: Provider, gpus: int | None) -> InstanceShare | None:
    """The paid share of each instance while a trial holds `gpus` of its accelerators; None for all of it.

    Who rents instances pays for the GPUs that idle too; only who rents GPUs (`sold_by: gpu`) pays for those of the trial alone.
    """
    return share_of(provider, gpus) if provider.sold_by == "gpu" else None


def charged(quoted: Quote, share: InstanceShare | None) -> Quote:
    """The quote of an instance as one of the part of it that is charged."""
    if quoted.basis is None or share is None:
        return quoted
    return Quote(replace(quoted.basis, usd_per_hour=quoted.basis.usd_per_hour * share.fraction, share=share), None)


def quote(provider: Provider, on: date, purchase: Purchase = "on_demand") -> Quote:
    """The price of the whole instance on the day `on`, or the reason in words when none holds: an unknown cost must never look like no cost."""
    price = provider.price_on(on, purchase)
    if price is not None:
        return Quote(Basis(price.purchase, price.price, price.since, price.source), None)
    declared = sorted((p for p in provider.price_list if p.purchase == purchase), key=lambda p: p.since)
    if provider.token_prices:
        return Quote(None, "billed by tokens and requests (token_prices), not by the hour")
    if not provider.price_list:
        return Quote(None, f"no price is declared for {provider.name}, and none is accepted")
    if not declared:
        others = ", ".join(sorted({p.purchase for p in provider.price_list}))
        return Quote(None, f"no {purchase} price is declared for {provider.name} (declared: {others})")
    spans = ", ".join(f"{p.since.isoformat()} to {p.until.isoformat() if p.until else 'open'}" for p in declared)
    return Quote(None, f"no {purchase} price of {provider.name} holds on {on.isoformat()} (declared: {spans})")


def prices_in_force(provider: Provider, purchase: Purchase) -> tuple[Price, ...]:
    """Which price of the whole instance held when, oldest first: at most one on each day, that of `price_on`. `until`: when it ended."""
    own = [p for p in provider.price_list if p.purchase == purchase]
    days = sorted({day for p in own for day in (p.since, p.until) if day is not None})
    held: list[Price] = []
    for day, following in pairwise([*days, None]):
        price = provider.price_on(day, purchase) if day is not None else None
        if price is None:
            continue
        begun = held.pop().since if held and (held[-1].until, held[-1].price, held[-1].source) == (day, price.price, price.source) else day
        held.append(price.model_copy(update={"since": begun, "until": following}))
    return tuple(held)


def price_in_force(accepted: PriceView | None, provider: Provider, purchase: Purchase, term: Term | None, on: date) -> float | None:
    """The newer of the accepted and the declared price of a day, in USD per instance-hour; None without either. `accepted`: the last accepted
    price, which has no end."""
    listed = declared_price(provider, purchase, term, on)
    if listed is not None and (accepted is None or listed.since > accepted.since):
        return float(listed.price)
    return None if accepted is None else accepted.usd_per_hour


def declared_price(provider: Provider, purchase: Purchase, term: Term | None, on: date) -> Price | None:
    """The declared price of a day, without simulated changes, which checks are to detect; none is declared for a term."""
    if term is not None:
        return None
    return next((p for p in provider.prices if p.purchase == purchase and p.holds(on)), None)


def with_effective_prices(provider: Provider, accepted: Iterable[PriceView]) -> Provider:
    """The provider with its accepted prices before the declared ones in its price list, each until a newer one is declared.

    `accepted`: prices of this provider. A simulated provider keeps its own list.
    """
    return provider if provider.simulated else _with_accepted(provider, accepted)


def all_with_effective_prices(providers: Iterable[Provider], accepted: Iterable[PriceView]) -> dict[str, Provider]:
    """The same for several providers, by name. `accepted`: prices of any of them."""
    by_provider: dict[str, list[PriceView]] = {}
    for price in accepted:
        by_provider.setdefault(price.provider, []).append(price)
    return {p.name: with_effective_prices(p, by_provider.get(p.name, ())) for p in providers}


def _with_accepted(provider: Provider, accepted: Iterable[PriceView]) -> Provider:
    own: list[Price] = []
    for accepted_price in sorted(accepted, key=lambda p: p.since, reverse=True):
        newer = [p.since for p in provider.prices if p.purchase == accepted_price.purchase and p.since > accepted_price.since]
        until = min((day for day in (accepted_price.until, *newer) if day is not None), default=None)
        if accepted_price.term is None and until != accepted_price.since:
            of: Any = {
                "purchase": accepted_price.purchase,
                "price": accepted_price.usd_per_hour,
                "since": accepted_price.since,
                "until": until,
                "source": accepted_price.source,
            }
            own.append(Price.model_construct(None, **of))
    return provider.model_copy(update={"prices": (*own, *provider.prices)})


def with_price_factor(provider: Provider, factor: float) -> Provider:
    """The provider with every price of its list multiplied by `factor`, above 0; of a simulated one, what its declared changes make of it too."""
    if factor <= 0:
        raise ValueError(f"{provider.name}'s prices cannot be multiplied by {factor:g}; expected a factor above 0")
    hourly = provider.model_copy(update={"serverless": ()}).own_prices
    prices = tuple(price.model_copy(update={"price": price.price * factor}) for price in hourly)
    # An endpoint that scales to zero is billed by its idle time and minimum too.
    rates = tuple(
        r.model_copy(update={"gpu_second": r.gpu_second._replace(amount=r.gpu_second.amount * factor)}) for r in provider.serverless
    )
    return provider.model_copy(update={"prices": prices, "owned": (), "serverless": rates, "launcher": provider.launcher.repriced(factor)})
