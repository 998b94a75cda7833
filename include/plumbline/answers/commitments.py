"""Reserved hours of contracts: the one source for the command, the page of spend, reports and findings."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from plumbline.analysis.cost.commitments import Commitment, commitments, contract_names
from plumbline.analysis.prices.book import all_with_effective_prices
from plumbline.answers.held_spans import held_spans
from plumbline.archive import Archive
from plumbline.declarations import Declarations


def contract_commitments(archive: Archive, declared: Declarations, now: datetime, names: Collection[str] = ()) -> tuple[Commitment, ...]:
    """Those of the declared providers `names`, of all if empty."""
    wanted = set().union(*(contract_names(p) for n, p in declared.providers.items() if not names or n in names))
    contracts = [contract for name, contract in declared.contracts.items() if name in wanted]
    begins = [price.since for contract in contracts for price in contract.prices if price.committed is not None]
    if not begins:
        return ()
    priced = all_with_effective_prices(declared.providers.values(), archive.prices(sorted(declared.providers)))
    spans = (span for name, place in priced.items() if contract_names(place) & wanted for span in held_spans(archive, name, min(begins)))
    return commitments(contracts, priced, spans, now)
