"""Limits of a campaign's comparison, failed criteria, and whether its trainings repeat, from the data itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from plumbline.analysis.campaign_data import CampaignData
from plumbline.analysis.prices.book import Quote
from plumbline.analysis.scorecards.scorecard import Scorecard
from plumbline.metrics.formatting import format_count, join_words

MOST_FAILURES = 10


def comparison_limits(
    campaign: CampaignData, cards: Sequence[Scorecard], quotes: dict[str, Quote], problems: Sequence[str] = ()
) -> tuple[str, ...]:
    """Sentences, each with its full stop."""
    limits = [*_failed_criteria(cards)]
    fewest = min((c.usable for c in cards if c.usable), default=6)
    if fewest < 6:
        limits.append(
            f"At least one column has only {format_count(fewest, 'usable repeat')}. Below six, the interval is the range of the repeats, "
            "which covers the true median less often than 95 %; with two repeats, half of the time."
        )
    names_by_machine: dict[str, list[str]] = {}
    for name in sorted({c.provider for c in cards}):
        if name in campaign.providers and (launcher := campaign.providers[name].launcher).cpus_here:
            names_by_machine.setdefault(str(launcher.machine_name), []).append(name)
    limits += [
        f"{join_words(names)} are the same machine ({machine}) with different cores."
        for machine, names in names_by_machine.items()
        if len(names) > 1
    ]
    if any(d.simulated for d in campaign.documents):
        names = sorted({d.trial.provider.name for d in campaign.documents if d.simulated})
        limits.append(f"{join_words(names)} {'is' if len(names) == 1 else 'are'} simulated: these results were not measured on hardware.")
    incomplete_cards = [c for c in cards if c.planned > c.usable]
    if incomplete_cards:
        limits.append(
            f"Not every planned trial has usable results: {join_words(f'{c.provider} {c.usable} of {c.planned} {c.kind}' for c in incomplete_cards)}."
        )
    limits += [f"{reason}; its costs are unknown, not zero." for q in quotes.values() if (reason := q.reason)]
    if campaign.store is None:
        limits.append("The raw evidence was not available, so this report has no distribution charts.")
    limits += [f"Charts exclude raw evidence: {problem}." for problem in problems]
    slots = sorted({d.trial.slot for d in campaign.documents})
    if len(slots) == 1:
        limits.append(f"All trials ran at one time of day ({slots[0]} UTC); variation over the day is not measured.")
    return (*limits, *same_losses(campaign))


def _failed_criteria(cards: Sequence[Scorecard]) -> tuple[str, ...]:
    """The acceptance criteria that are not met, by name; empty if all are."""
    criteria = [(c.provider, j) for c in cards for j in c.acceptance]
    failures = [f'{provider} fails "{j.text}"' for provider, j in criteria if j.outcome == "fail"]
    failures += [f'{provider} meets "{j.text}" in {j.met} of {j.n} repeats' for provider, j in criteria if j.outcome == "mixed"]
    undecided = sum(j.outcome == "insufficient" for _, j in criteria)
    if not failures and not undecided:
        return ()
    named = [*failures[:MOST_FAILURES], *([f"{len(failures) - MOST_FAILURES} more"] if len(failures) > MOST_FAILURES else [])]
    named += [f"{undecided} have too little data"] if undecided else []
    return (
        f"{sum(j.outcome == 'pass' for _, j in criteria)} of {format_count(len(criteria), 'acceptance criterion', 'acceptance criteria')} pass: {'; '.join(named)}.",
    )


def same_losses(campaign: CampaignData) -> tuple[str, ...]:
    """One sentence for each training workload and provider with two repeats or more whose losses are known; empty without one."""
    loss_hashes: dict[tuple[str, str], list[str]] = {}
    for document in campaign.documents:
        record = document.reproducibility
        if record is not None and "losses" in record.hashes and document.validity.status != "failed":
            loss_hashes.setdefault((document.trial.workload.name, document.trial.provider.name), []).append(record.hashes["losses"])
    return tuple(
        _losses_sentence(workload, provider, hashes) for (workload, provider), hashes in sorted(loss_hashes.items()) if len(hashes) > 1
    )


def _losses_sentence(workload: str, provider: str, hashes: list[str]) -> str:
    counts = Counter(hashes)
    if len(counts) == 1:
        return f"{workload} on {provider}: the losses of all {len(hashes)} repeats are bitwise identical."
    identical = counts.most_common(1)[0][1]
    comparison = f"{identical} of them are identical" if identical > 1 else "no two are identical"
    return f"{workload} on {provider}: the losses of {len(hashes)} repeats differ, {comparison}; set deterministic: true to reproduce them."
