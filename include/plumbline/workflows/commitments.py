"""Reserved hours of contracts: the one source for the command, the page of spend, reports and findings."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from plumbline.analysis.cost.commitments import Commitment, commitments, contract_names
from plumbline.analysis.prices.book import all_with_effective_prices
from plumbline.archive import Archive
from plumbline.declarations import Declarations, Provider
from plumbline.findings import Reconciliation
from plumbline.findings.types.commitment import reconcile_commitments
from plumbline.workflows.findings import readable_findings
from plumbline.workflows.reconcile import held_spans

HEADINGS = (
    "contract",
    "provider",
    "from",
    "until",
    "reserved h",
    "used h",
    "unused h",
    "unused",
    "ahead h",
    "ahead",
    "renewing pays below",
)


def commitment_table(found: Iterable[Commitment]) -> tuple[tuple[str, ...], ...]:
    """HEADINGS, then a row each; empty without any."""
    rows = []
    for c in found:
        reserved, used, unused, ahead = (f"{value:,.1f}" for value in (c.reserved_h, c.used_h, c.unused_h, c.ahead_h))
        times = (c.contract, ", ".join(c.providers), str(c.since), c.end)
        rows.append((*times, reserved, used, unused, str(c.unused_usd), ahead, str(c.ahead_usd), c.renewal))
    return (HEADINGS, *rows) if rows else ()


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


def review_commitments(archive: Archive, declared: Declarations, provider: Provider, now: datetime) -> Reconciliation:
    """What a provider's reserved hours mean for its open findings."""
    open_findings = readable_findings(archive.findings_of(provider.name, "price", unsettled=True))
    found = contract_commitments(archive, declared, now, (provider.name,))
    return reconcile_commitments(provider.name, found, open_findings, declared.thresholds.commitments.expires_within, provider.simulated)
