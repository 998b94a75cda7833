"""A provider's price that changed, confirmed by a second source or a second reading."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, get_args

from plumbline.declarations.providers.rates import Purchase, Term
from plumbline.findings.phrases import format_begin, titled
from plumbline.findings.types.base import Costs, FindingType, Step, register
from plumbline.results.finding import Finding
from plumbline.words.price_change import price_cause


def format_price_name(purchase: str, term: str | None) -> str:
    """The price's name, such as `on-demand` or `reserved 1y`."""
    return " ".join(filter(None, (purchase.replace("_", "-"), term)))


class AboutMoney(FindingType):
    """Of the kind `price`: its title says what it is about, where no change of a price does."""

    kinds = ("price",)

    def cause(self, finding: Finding) -> str:
        return f"{finding.provider}: {finding.title or finding.subject} since {format_begin(finding)}"

    def consequence(self, finding: Finding, caused: bool) -> str:
        return finding.consequence

    def looks(self, finding: Finding) -> list[Step]:
        return [(f"plumbline prices list {finding.provider}", "what each source says now, beside the price in use")]


@register
class PriceFinding(AboutMoney):
    id = "price_change"
    subject = "price "
    order = 20
    usual = True
    noun = "price rise"
    accepting = "price"
    accept_label = "Accept the price"
    reject_label = "Reject: costs keep the price in use"
    accepted_as = "THE PRICE"
    resolved_if = "the source was wrong"
    moves_choices = True
    costs: ClassVar[Costs | None] = "price"
    history = "price"
    advice = "Negotiate or accept the price of"

    @classmethod
    def of(cls, purchase: Purchase, term: Term | None) -> str:
        """The subject of a finding about a price, such as `price on-demand`."""
        return f"{cls.subject}{format_price_name(purchase, term)}"

    @classmethod
    def price_of(cls, finding: Finding) -> tuple[Purchase, Term | None] | None:
        """Purchase and term of the price that a finding of this type is about; None of another."""
        terms: tuple[Term | None, ...] = (None, *get_args(Term))
        prices = ((purchase, term) for purchase in get_args(Purchase) for term in terms)
        return next(((purchase, term) for purchase, term in prices if cls.of(purchase, term) == finding.subject), None)

    @staticmethod
    def purchase_of(finding: Finding) -> Purchase:
        """The purchase that the subject of any finding about a price names; on demand where it names none."""
        kinds: tuple[Purchase, ...] = get_args(Purchase)
        return next((purchase for purchase in kinds if format_price_name(purchase, None) in finding.subject), "on_demand")

    @classmethod
    def find(cls, findings: Iterable[Finding], purchase: Purchase, term: Term | None) -> Finding | None:
        """The last of the findings that is of this type and about this price."""
        return next((f for f in reversed(list(findings)) if f.subject == cls.of(purchase, term)), None)

    def word(self, direction: str, effect: float | None) -> str:
        return "price cut" if (effect or 0.0) < 0 else self.noun

    def is_good_news(self, direction: str, effect: float | None) -> bool:
        return (effect or 0.0) < 0

    def cause(self, finding: Finding) -> str:
        if finding.effect is None:
            return super().cause(finding)
        return finding.causes[0] if finding.causes else self.describe(finding, finding.provider)

    def describe(self, finding: Finding, who: str) -> str:
        """The change in words. `who`: its provider, or the cloud whose regions took the same change."""
        assert finding.effect is not None  # of a changed price
        name = self.rest(finding)
        # The list price by the hour is just its price.
        return price_cause(who, finding.effect, finding.since, "" if name == format_price_name("on_demand", None) else name)

    def consequence(self, finding: Finding, caused: bool) -> str:
        if finding.state == "accepted" and finding.effect is not None:
            return "costs use the new price"
        return finding.consequence if caused else titled(finding, caused)

    def together(self, finding: Finding) -> frozenset[str]:
        return frozenset(("price", *finding.causes))

    def accept_purpose(self, finding: Finding) -> str:
        return "accept as the price in use"
