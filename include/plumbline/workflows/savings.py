"""What moving a workload would save, from the newest stored decisions: the same numbers as a report's, without reading a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from plumbline.analysis.conclusions import KINDS
from plumbline.analysis.decisions.savings import CostAnswer, Switch, find_switches, relative_switches, stored_answers
from plumbline.analysis.prices.book import all_with_effective_prices, quote
from plumbline.archive import Archive, DecisionView
from plumbline.declarations import Declarations, Provider
from plumbline.declarations.providers.rates import Purchase


def stored_switches(archive: Archive, declared: Declarations, stored: Sequence[DecisionView]) -> tuple[Switch, ...]:
    """Every switch that saves, the best first: in USD a month at the declared volumes, as shares of the cost where none is declared.

    `stored`: decisions, newest first; the newest of each declared choice counts.
    """
    newest = {(v.team, v.kind, tuple(v.detail.get("workloads", ()))): v for v in reversed(stored)}
    wanted = [(team.name, kind, tuple(p.workloads)) for team in declared.teams.values() for kind in KINDS for p in team.preferences(kind)]
    names = sorted(declared.providers)
    priced = all_with_effective_prices(declared.providers.values(), archive.prices(names)) if names else {}
    answers = [answer for key in wanted if key in newest for answer in _answers(newest[key], priced)]
    return find_switches(answers, declared.alerts.volumes) if declared.alerts.volumes else relative_switches(answers)


def _answers(view: DecisionView, priced: Mapping[str, Provider]) -> tuple[CostAnswer, ...]:
    if "day" not in view.detail:  # an older version's
        return ()
    day = date.fromisoformat(view.detail["day"])

    def price(provider: str, purchase: Purchase) -> float | None:
        basis = quote(priced[provider], day, purchase).basis if provider in priced else None
        return None if basis is None else basis.usd_per_hour

    return stored_answers(view.team, view.kind, view.detail, price)
