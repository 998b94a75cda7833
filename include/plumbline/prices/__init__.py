"""Prices that are declared, and what a trial and its outcomes cost by them. The arithmetic is pure."""

from plumbline.prices.bill import ITEMS, Bill, CostBasis, Item, Line, Unknown, together
from plumbline.prices.book import Basis, Quote, price_of, quote
from plumbline.prices.cost import COSTS, Cost, Outcome, costs_of
from plumbline.prices.money import MixedUnits, Money, Quantity, UnitPrice

__all__ = [
    "COSTS",
    "ITEMS",
    "Basis",
    "Bill",
    "Cost",
    "CostBasis",
    "Item",
    "Line",
    "MixedUnits",
    "Money",
    "Outcome",
    "Quantity",
    "Quote",
    "UnitPrice",
    "Unknown",
    "costs_of",
    "price_of",
    "quote",
    "together",
]
