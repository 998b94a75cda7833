"""What can be claimed with a finding: promises that it bears on and that are proven broken."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from plumbline.analysis.drift.environment import Group, fact_rule
from plumbline.answers.promises import ProviderPromises, provider_promises
from plumbline.archive import Archive, FindingView
from plumbline.archive.trends import LaunchCounts
from plumbline.declarations import Declarations, Provider
from plumbline.declarations.promises import PROMISES, JudgedPromise, promisable
from plumbline.declarations.promises.judging.evidence import Outage
from plumbline.declarations.promises.judging.launches import OPERATOR_FAULTS, PROVIDER_FAULTS, UNPROVEN
from plumbline.findings.types import about_failures, about_speed, type_of
from plumbline.metrics.formatting import capitalize_first, join_words
from plumbline.results.finding import UNREADABLE_ERRORS, Finding
from plumbline.results.sample import Series

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
    speeds that no change of ours explains. A finding that cannot be read is left out."""
    promises: dict[str, ProviderPromises] = {}
    found = {}
    for view in views:
        with suppress(*UNREADABLE_ERRORS):
            finding = Finding.of(view.detail)
            why = _beyond_promises(finding, declared.providers.get(finding.provider))
            if not why and finding.provider not in promises:
                promises[finding.provider] = provider_promises(archive, declared, finding.provider)
            found[view.finding_id] = Claimable((), why=why) if why else _proven(finding, promises[finding.provider])
    return found


def _beyond_promises(finding: Finding, provider: Provider | None) -> str:
    """Why no measurement can prove a breach here."""
    kind = type_of(finding)
    if not kind.claimable:
        return f"No promise covers a {kind.noun}: {promisable()} can be promised."
    if finding.cause is not None and len(finding.cause.providers) > 1:
        return "Several providers share the cause: claim from each by the finding of its own."
    if provider is None:
        return f"{finding.provider} is no longer declared, so its promises are unknown."
    file, sla = f"providers/{provider.name}.yaml", provider.sla
    covering = [promise for promise in PROMISES if promise.claimed_with == finding.kind]
    if about_failures(finding) and not any(promise.declared(sla) for promise in covering):
        return f"{file} declares no promise but of speed (expected one of {', '.join(f'sla.{promise.id}' for promise in covering)})."
    if about_failures(finding) and (causes := _causes(finding)) and not causes & PROVIDER_FAULTS:
        return f"No failure of it is proven to be the provider's: {join_words(sorted(causes))}."
    if about_speed(finding) and not {name for one in covering for _, name in one.workloads(sla)} & _workloads(finding):
        return f"{file} declares no promised speed of {join_words(sorted(_workloads(finding)))} (sla.speed_floors)."
    ours = [key for key in finding.attributed_to if fact_rule(key).group in _OURS and not key.startswith(_THEIRS)]
    if about_speed(finding) and ours:
        return f"The cause is not proven to be the provider's: {join_words(ours)} changed too, which our image brings."
    return ""


def _causes(finding: Finding) -> set[str]:
    """Classes of its failures that say whose they are; empty for one about errors of GPUs, or about failures after a good start."""
    return {m.name for m in finding.members} & (PROVIDER_FAULTS | OPERATOR_FAULTS | UNPROVEN)


def _workloads(finding: Finding) -> set[str]:
    return {Series.parse(key).workload for key in finding.series}


def _proven(finding: Finding, judged: ProviderPromises) -> Claimable:
    of = _workloads(finding)
    covering = [each for each in judged.judged if each.row.promised and each.promise.claimed_with == finding.kind]
    covering = [each for each in covering if not each.workload or each.workload in of]
    broken = tuple(each for each in covering if each.broken)
    if broken:
        checked = judged.outages if any(not each.shown_by_trials for each in broken) else ()
        return Claimable(broken, judged.launches if any(each.source == "launches" for each in broken) else (), checked)
    shown = ". ".join(f"{capitalize_first(each.row.sentence)}: {each.row.verdict_text}" for each in covering)
    return Claimable((), why=f"No promise is proven broken. {shown}.")
