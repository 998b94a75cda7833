"""Credits that trials prove: of launches, lead times and speeds, which no finding of their own carries. The page of promises and the
ledger list the same ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import date, datetime, timezone
from threading import Lock
from weakref import WeakKeyDictionary

from plumbline.answers.claim_marks import ClaimStanding
from plumbline.answers.claims import bears_on
from plumbline.answers.findings import readable_findings
from plumbline.answers.promises import grant_credits, judged_by_trials
from plumbline.archive import Archive
from plumbline.declarations import Declarations, Provider
from plumbline.declarations.promises import PROMISES, JudgedPromise
from plumbline.declarations.providers.service_level import ServiceLevel
from plumbline.metrics.units import Amount
from plumbline.results.finding import OPEN_STATES, Finding
from plumbline.words.claims import broke_promises, credit_amount, to_claim


@dataclass(frozen=True)
class TrialCredit:
    """The credit of broken `promises` that share it: `share` of the bill of `month` (`2026-11`), `usd` where that is known. `until`: its
    last day, None where the contract's term is not declared. `findings`: the open ones that bear on them, the one that claims first;
    empty without any, as where the failures are over."""

    provider: str
    promises: tuple[str, ...]
    share: Amount
    month: str
    usd: Amount | None
    until: date | None
    claim: ClaimStanding
    simulated: bool
    findings: tuple[str, ...] = ()

    def is_granted_with(self, finding: Finding) -> bool:
        """Whether the finding of a broken promise has the same credit, which is granted once for the month."""
        own = finding.credit
        return own is not None and own.shared and (finding.provider, own.month, own.share) == (self.provider, self.month, self.share)

    @property
    def text(self) -> str:
        """Such as `broke its promise of launch success, 731 USD (10 % of the month's bill) to claim until 29 January 2027`."""
        broke = broke_promises("", self.promises).strip()
        return to_claim(f"{broke}, {credit_amount(self.share, self.usd)}", "" if self.until is None else f"{self.until:%Y-%m-%d}")


def trial_credits(
    archive: Archive, declared: Declarations | None, findings: Iterable[Finding], names: Collection[str] | None = None
) -> tuple[TrialCredit, ...]:
    """Of declared providers, or of those with these `names`. `findings`: that may bear on them, oldest first. Those that are claimed
    already, or too late to claim, only where a finding is open."""
    if declared is None:
        return ()
    granting = [
        p for p in declared.providers.values() if p.sla.credit is not None and _by_trials(p.sla) and (names is None or p.name in names)
    ]
    if not granting:
        return ()
    known, as_of, found = [f for f in findings if f.state in OPEN_STATES], archive.as_of(), []
    for provider in granting:
        broken = [each for each in _judged(archive, declared, provider, as_of) if each.broken]
        if broken:
            found += _of_provider(archive, declared, provider, broken, [f for f in known if f.provider == provider.name])
    return tuple(credit for credit in found if credit.claim == "to_claim" or credit.findings)


def claims_by_finding(archive: Archive, declared: Declarations, names: Collection[str]) -> dict[str, TrialCredit]:
    """Open finding → the credit that it is the first to claim, of these providers."""
    granting = sorted(name for name in names if name in declared.providers and declared.providers[name].sla.credit is not None)
    known = [f for name in granting for f in readable_findings(archive.findings_of(name)) if f.state in OPEN_STATES]
    return {
        credit.findings[0]: credit
        for credit in (trial_credits(archive, declared, known, granting) if known else ())
        if credit.claim == "to_claim" and credit.findings and not any(map(credit.is_granted_with, known))
    }


def _by_trials(sla: ServiceLevel) -> bool:
    """Whether it may promise what trials show; only the judgement says by what a promise is shown."""
    return any(promise.declared(sla) for promise in PROMISES if not promise.checked)


def _of_provider(
    archive: Archive, declared: Declarations, provider: Provider, broken: list[JudgedPromise], open_ones: list[Finding]
) -> list[TrialCredit]:
    months = [f.credit.month for f in open_ones if f.credit is not None and f.credit.shared]
    last, now = (datetime.fromisoformat(f"{max(months)}-01T00:00:00+00:00") if months else None), datetime.now(timezone.utc)
    groups: dict[tuple[str, ClaimStanding, float], list[JudgedPromise]] = {}
    for each in grant_credits(archive, declared, provider.name, broken, last):
        standing: ClaimStanding = "claimed" if each.row.claim else "too_late" if each.lapsed else "to_claim"
        if each.grants is not None:
            groups.setdefault((f"{each.billed(last or now)[0]:%Y-%m}", standing, each.grants), []).append(each)
    return [
        TrialCredit(
            provider.name,
            tuple(each.row.name for each in same),
            share,
            month,
            same[0].row.usd,
            same[0].last_day(provider.sla.claim_within, last or now),
            standing,
            provider.simulated,
            tuple(f.finding_id for f in open_ones if any(bears_on(f, each, provider) for each in same)),
        )
        for (month, standing, share), same in groups.items()
    ]


_KNOWN: WeakKeyDictionary[object, dict[str, tuple[object, tuple[JudgedPromise, ...]]]] = WeakKeyDictionary()
"""Per archive, by provider: pages with the ledger ask at each request, and a verdict changes only with a trial, a declaration or the day."""
_LOCK = Lock()


def _judged(archive: Archive, declared: Declarations, provider: Provider, as_of: object) -> tuple[JudgedPromise, ...]:
    basis = (as_of, provider, datetime.now(timezone.utc).date())
    with _LOCK:
        of_archive = _KNOWN.setdefault(archive.engine, {})
    known = of_archive.get(provider.name)
    if known is None or known[0] != basis:
        known = of_archive[provider.name] = (basis, judged_by_trials(archive, declared, provider.name))
    return known[1]
