"""Prices that are declared, and what a trial and its outcomes cost by them. The arithmetic is pure."""

from plumbline.prices.book import Basis, Quote, price_of, quote
from plumbline.prices.cost import COSTS, Cost, Outcome, costs_of

__all__ = ["COSTS", "Basis", "Cost", "Outcome", "Quote", "costs_of", "price_of", "quote"]
