"""A price that is not believed yet: implausible, or the first one."""

from __future__ import annotations

from plumbline.findings.types.base import register
from plumbline.findings.types.price_change import AboutMoney, PriceFinding
from plumbline.results.finding import Finding


@register
class HeldPrice(PriceFinding):
    id = "held_price"
    subject = "held price "
    order = 26
    usual = False
    noun = "unconfirmed price"
    costs = None

    def word(self, direction: str, effect: float | None) -> str:
        return self.noun

    def cause(self, finding: Finding) -> str:
        return AboutMoney.cause(self, finding)

    def consequence(self, finding: Finding, caused: bool) -> str:
        return AboutMoney.consequence(self, finding, caused)
