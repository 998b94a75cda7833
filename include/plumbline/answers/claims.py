"""What can be claimed with a finding: promises that it bears on and that are proven broken."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from plumbline.analysis.drift.environment import Group, fact_rule
from plumbline.answers.findings import readable_findings
from plumbline.answers.promises import ProviderPromises, provider_promises
from plumbline.archive import Archive, FindingView
from plumbline.archive.trends import LaunchCounts
from plumbline.declarations import Declarations, Provider
from plumbline.declarations.promises import PROMISES, JudgedPromise
from plumbline.declarations.promises.judging.evidence import Outage
from plumbline.declarations.promises.judging.launches import OPERATOR_FAULTS, PROVIDER_FAULTS, UNPROVEN
from plumbline.findings.types import about_failures, about_speed, type_of
from plumbline.findings.types.broken_promise import BrokenPromise
from plumbline.metrics.time_spans import month_span
from plumbline.results.finding import OPEN_STATES, UNREADABLE_ERRORS, Finding
from plumbline.results.sample import Series
from plumbline.words import claims as words

_OURS: tuple[Group, ...] = ("image", "runtime libraries")
"""Groups of facts that come with our own image, but for `_THEIRS`: what the driver supports, and what an endpoint reports."""


_THEIRS = ("cuda.", "endpoint.")


@dataclass(frozen=True)
class Claimable:
    """A claim with a finding: `broken` promises, the `launches` they were counted in and the `outages` that checks found, or in `why` one sentence
    on what is missing."""

    broken: tuple[JudgedPromise, ...]
    launches: tuple[LaunchCounts, ...] = ()
    outages: tuple[Outage, ...] = ()
    why: str = ""

    @property
    def view(self) -> dict[str, Any]:
        rows = [each.row for each in self.broken]
        return {"broken": rows, "launches": self.launches, "outages": self.outages, "why": self.why}


def claimable(archive: Archive, declared: Declarations, views: Sequence[FindingView]) -> dict[str, Claimable]:
    """Finding's id → its claim: promises that it bears on and that are broken by failures whose cause is the provider's, and by
    speeds that no change of ours explains. One finding claims a promise and period. A finding that cannot be read is left out."""
    promises: dict[str, ProviderPromises] = {}
    known: dict[str, tuple[Finding, ...]] = {}
    found = {}
    for view in views:
        with suppress(*UNREADABLE_ERRORS):
            finding = Finding.of(view.detail)
            why = _beyond_promises(finding, declared.providers.get(finding.provider))
            if not why and finding.provider not in promises:
                promises[finding.provider] = provider_promises(archive, declared, finding.provider)
                known[finding.provider] = tuple(readable_findings(archive.findings_of(finding.provider)))
            answer = Claimable((), why=why) if why else _proven(finding, promises[finding.provider])
            found[view.finding_id] = _once(finding, answer, known[finding.provider], declared) if answer.broken else answer
    return found


def _once(finding: Finding, answer: Claimable, known: Sequence[Finding], declared: Declarations) -> Claimable:
    """The claim without the promises that another finding claims."""
    claimed_by = [(each, _claimed_by(each, finding, known, declared)) for each in answer.broken]
    own = tuple(each for each, name in claimed_by if name == finding.finding_id)
    return replace(answer, broken=own) if own else Claimable((), why=words.claimed_elsewhere(claimed_by))


def _claimed_by(judged: JudgedPromise, finding: Finding, known: Sequence[Finding], declared: Declarations) -> str:
    """Id of the one finding that claims a broken promise: the promise's own, the open one if it has several, else the first open one that bears on it.
    `known`: all findings of the provider, oldest first."""
    own = [f for f in known if BrokenPromise.is_of(f, judged)]
    if own:
        return next((f for f in own if f.state in OPEN_STATES), own[-1]).finding_id
    provider = declared.providers.get(finding.provider)
    return next((f.finding_id for f in known if f.state in OPEN_STATES and bears_on(f, judged, provider)), finding.finding_id)


def _beyond_promises(finding: Finding, provider: Provider | None) -> str:
    """Why no measurement can prove a breach here."""
    kind = type_of(finding)
    if not kind.claimable:
        return words.not_covered(kind.noun)
    if finding.cause is not None and len(finding.cause.providers) > 1:
        return words.several_providers()
    if provider is None:
        return words.not_declared(finding.provider)
    file, sla = f"providers/{provider.name}.yaml", provider.sla
    covering = [promise for promise in PROMISES if promise.claimed_with == finding.kind]
    if about_failures(finding) and not any(promise.declared(sla) for promise in covering):
        return words.no_promise_of_failures(file, [promise.id for promise in covering])
    if about_failures(finding) and (causes := _causes(finding)) and not causes & PROVIDER_FAULTS:
        return words.not_the_providers(causes)
    if about_speed(finding) and not {name for one in covering for _, name in one.workloads(sla)} & _workloads(finding):
        return words.no_promised_speed(file, _workloads(finding))
    ours = [key for key in finding.attributed_to if fact_rule(key).group in _OURS and not key.startswith(_THEIRS)]
    if about_speed(finding) and ours:
        return words.changed_by_us(ours)
    return ""


def bears_on(finding: Finding, judged: JudgedPromise, provider: Provider | None) -> bool:
    """Whether a broken promise that has no finding of its own can be claimed with this one."""
    return not BrokenPromise.has(finding) and not _beyond_promises(finding, provider) and judged in _covering(finding, (judged,))


def _causes(finding: Finding) -> set[str]:
    """Classes of its failures that say whose they are; empty for one about errors of GPUs, or about failures after a good start."""
    return {m.name for m in finding.members} & (PROVIDER_FAULTS | OPERATOR_FAULTS | UNPROVEN)


def _workloads(finding: Finding) -> set[str]:
    return {Series.parse(key).workload for key in finding.series}


def _covering(finding: Finding, judged: Sequence[JudgedPromise]) -> list[JudgedPromise]:
    """The promises that a finding bears on: of a broken promise itself alone."""
    of = _workloads(finding)
    covering = [each for each in judged if each.row.promised and each.promise.claimed_with == finding.kind]
    if BrokenPromise.has(finding):
        return [each for each in covering if BrokenPromise.is_of(finding, each)]
    return [each for each in covering if not each.workload or each.workload in of]


def _proven(finding: Finding, judged: ProviderPromises) -> Claimable:
    covering = _covering(finding, judged.judged)
    broken = tuple(each for each in covering if each.broken)
    if broken:
        launches = judged.launches if any(each.source == "launches" for each in broken) else ()
        return Claimable(broken, launches, tuple(dict.fromkeys(outage for each in broken for outage in _outages_of(each, judged))))
    return Claimable((), why=words.not_proven(covering))


def _outages_of(each: JudgedPromise, judged: ProviderPromises) -> Sequence[Outage]:
    """The outages that show it: of the month that it is of, or of all where it is of none."""
    if each.shown_by_trials:
        return ()
    if each.month is None:
        return judged.refusals if each.source == "checks" else judged.outages
    begin, end = month_span(each.month)
    return [o for o in judged.outages if o.began < end and (o.ended is None or o.ended > begin)]
