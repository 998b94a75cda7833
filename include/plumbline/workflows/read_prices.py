"""Read a provider's prices from its sources, check them against the accepted prices, and update findings."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from plumbline.analysis.prices.check import CONFIRMATION_PERIOD, PriceVerdict
from plumbline.answers.commitments import contract_commitments
from plumbline.answers.findings import readable_findings
from plumbline.archive import Archive, open_archive
from plumbline.declarations import Declarations, Provider, load_in_force
from plumbline.findings import Reconciliation
from plumbline.findings.price import price_unit, reconcile_prices
from plumbline.findings.price_check import checked_price
from plumbline.findings.types.commitment import reconcile_commitments
from plumbline.findings.types.price_change import PriceFinding, format_price_name
from plumbline.findings.types.silent_price_source import SilentPriceSource, silent_price_source_finding
from plumbline.price_sources import PriceReport, read_prices
from plumbline.results.finding import Finding
from plumbline.words.prices import verdict_reason
from plumbline.workflows.accept_price import accept_price
from plumbline.workflows.decide import decide_all
from plumbline.workflows.findings import apply
from plumbline.workflows.plan import declared_provider

PRICE_AUTHOR = "price_watch"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PriceCheckResult:
    """`unit`: `GPU-hour` or `core-hour`. `checks`: one for each price. `changes`: new ones, rows {fact, old, new} in USD per unit. `findings`: ids of
    those that are open or resolved now, `opened` of the new ones. `notes`: one sentence for each source that failed."""

    provider: str
    at: datetime
    unit: str
    readings: int
    checks: tuple[PriceVerdict, ...]
    changes: tuple[dict[str, str], ...]
    findings: tuple[str, ...]
    opened: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def reason(self) -> str:
        """The changes in one line; empty without any."""
        return "; ".join(f"{c['fact']} {c['old']} → {c['new']} USD" for c in self.changes)


def read_provider_prices(provider: str, at: datetime | None = None) -> PriceCheckResult:
    """Read every source of a declared provider, as of `at` (now), and reconcile findings. Reading again at the same time changes nothing.

    A source that fails is named in `notes`, and after three days in a finding; the others count. LookupError for an unknown provider.
    """
    declared = load_in_force()
    known = declared_provider(declared, provider)
    with open_archive() as archive:
        return read_and_store_prices(archive, declared, known, at or datetime.now(timezone.utc))


def read_and_store_prices(archive: Archive, declared: Declarations, provider: Provider, at: datetime) -> PriceCheckResult:
    """`read_provider_prices` with an open archive and declarations."""
    report = read_prices(provider, declared, at)
    new = archive.record_readings(report.readings)
    kinds = sorted({(r.purchase, r.term) for r in report.readings}, key=lambda kind: (kind[0] != "on_demand", *map(str, kind)))
    checks, notes = [], [*map(str, report.failures)]
    for purchase, term in kinds:
        try:
            checked = checked_price(archive, provider, purchase, term, at, report.readings)
        except (ValueError, LookupError, ArithmeticError, TypeError) as error:
            # An unforeseen history must not silence the other prices, nor the other providers.
            _log.exception("%s: the history of %s", provider.name, format_price_name(purchase, term))
            notes.append(f"{provider.name}: its history of {format_price_name(purchase, term)} prices cannot be checked: {error}")
        else:
            checks += [checked] if checked is not None else []
    silences = _silent_sources(archive, provider, at, report)
    reserved = _review_commitments(archive, declared, provider, at)
    apply(archive, reserved, by=PRICE_AUTHOR, seen_in=at.isoformat())
    silences += [finding.finding_id for finding in reserved.findings]
    result = _store(archive, provider, at, checks, len(new), silences, tuple(notes))
    # A price accepted by rule or a declared price that takes effect today moves decisions; else nothing is stored.
    decide_all(archive, declared, at.date(), f"price check of {provider.name}")
    return result


def _silent_sources(archive: Archive, provider: Provider, at: datetime, report: PriceReport) -> list[str]:
    """Open a finding for each source without a price for days; resolve those of sources that report again or are not declared; their ids."""
    silent = []
    speaking = {reading.source for reading in report.readings}
    silent_failures = [failure for failure in report.failures if failure.source not in speaking]
    for failure in silent_failures:
        stored = archive.price_readings(provider.name, source=failure.source, latest=1)
        last = stored[-1].observed_at if stored else None
        if last is None or at - last >= CONFIRMATION_PERIOD:
            day = last.date() if last is not None else None
            silent.append(silent_price_source_finding(provider.name, failure.source, day, at.date(), str(failure), provider.simulated))
    failed = {failure.source for failure in silent_failures}
    recovered = []
    for finding in readable_findings(archive.findings_of(provider.name, "missing_data", unsettled=True)):
        source = SilentPriceSource.rest(finding) if SilentPriceSource.has(finding) else None
        if source is not None and source not in failed:
            why = "reports prices again" if source in speaking else "is not declared"
            recovered.append((finding, f"resolved: the source {why}"))
    reconciliation = Reconciliation(tuple(silent), resolved=tuple(recovered))
    apply(archive, reconciliation, by=PRICE_AUTHOR, seen_in=at.isoformat())
    return [finding.finding_id for finding in reconciliation.findings]


def _store(
    archive: Archive,
    provider: Provider,
    at: datetime,
    checks: Sequence[PriceVerdict],
    readings: int,
    silences: Sequence[str],
    notes: tuple[str, ...],
) -> PriceCheckResult:
    open_findings = readable_findings(archive.findings_of(provider.name, "price", unsettled=True))
    unit = price_unit(provider.accelerator.kind)
    reconciliation = reconcile_prices(checks, open_findings, provider.simulated, unit)
    opened = apply(archive, reconciliation, by=PRICE_AUTHOR, seen_in=at.isoformat())
    _by_rule(archive, provider, checks, at)
    news = [f for f in (*reconciliation.opened, *reconciliation.continued) if f in reconciliation.continued or f.finding_id in opened]
    return PriceCheckResult(
        provider.name,
        at,
        unit,
        readings,
        tuple(checks),
        tuple(row for c in checks if (row := _row(c, news)) is not None),
        tuple(dict.fromkeys((*(f.finding_id for f in reconciliation.findings), *silences))),
        opened,
        notes,
    )


def _row(checked: PriceVerdict, news: Sequence[Finding]) -> dict[str, str] | None:
    """The check as a change for the event; None if it is not new, or held."""
    if checked.status != "changed" or PriceFinding.find(news, checked.reading.purchase, checked.reading.term) is None:
        return None
    fact = f"price.{format_price_name(checked.reading.purchase, checked.reading.term).replace(' ', '.').replace('-', '_')}"
    return {"fact": fact, "old": f"{checked.accepted:.6g}", "new": f"{checked.price:.6g}"}


def _by_rule(archive: Archive, provider: Provider, checks: Sequence[PriceVerdict], at: datetime) -> None:
    """Accept a first price that is plausible, and confirmed spot prices."""
    for checked in checks:
        reading = checked.reading
        why = {"first": f"first price read: {verdict_reason(checked)}", "changed": "confirmed spot prices are accepted automatically"}.get(
            checked.status
        )
        if why is None or (checked.status == "changed" and reading.purchase != "spot"):
            continue
        accept_price(archive, provider, reading.purchase, reading.term, by=PRICE_AUTHOR, why=why, by_rule=checked, at=at)


def _review_commitments(archive: Archive, declared: Declarations, provider: Provider, now: datetime) -> Reconciliation:
    """What a provider's reserved hours mean for its open findings."""
    open_findings = readable_findings(archive.findings_of(provider.name, "price", unsettled=True))
    found = contract_commitments(archive, declared, now, (provider.name,))
    return reconcile_commitments(provider.name, found, open_findings, declared.thresholds.commitments.expires_within, provider.simulated)
