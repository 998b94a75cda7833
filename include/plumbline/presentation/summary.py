"""A campaign's summary: first choices, cost, drift, acceptance, and the limits of the comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from plumbline.analysis.campaign_data import CampaignData, FindingRow
from plumbline.analysis.conclusions import Conclusions
from plumbline.analysis.decisions.current_results import TeamDecision
from plumbline.analysis.prices.book import Quote
from plumbline.analysis.scorecards.scorecard import Row, Scorecard, leaders
from plumbline.metrics.formatting import common_scale, format_name, format_probability, join_words
from plumbline.presentation.costs import cost_sentence
from plumbline.presentation.decisions import cheapest_sentences, nearest_change

HEADLINES: dict[str, tuple[tuple[str, ...], ...]] = {
    "training": (("step_time",), ("cost_per_1m_trained_tokens",), ("restart_penalty",)),
    "inference": (
        ("time_to_first_token",),
        ("time_per_output_token", "inter_token_latency"),
        ("goodput",),
        ("cost_per_1m_output_tokens",),
        ("time_to_ready",),
    ),
}
"""Of each group the first one that was measured: results of earlier versions have no time_per_output_token."""


@dataclass(frozen=True)
class SummaryItem:
    """`lines`: full sentences; `asides`: a note on each line, or empty."""

    label: str
    lines: tuple[str, ...]
    asides: tuple[str, ...] = ()


def summary_items(found: Conclusions) -> tuple[SummaryItem, ...]:
    """The summary, answers first."""
    campaign, cards = found.campaign, found.cards
    cheapest = cheapest_sentences(found.decided)
    items = [SummaryItem("Measured", (_measured(cards),))]
    if found.decided:
        items.append(
            SummaryItem("First choice", tuple(_decision(d) for d in found.decided), tuple(nearest_change(d) for d in found.decided))
        )
    items += [SummaryItem("Cheapest", cheapest)] if cheapest else []
    items += [SummaryItem("Total cost", tuple(cost_sentence(c) for c in found.provider_costs))] if found.provider_costs else []
    items += [SummaryItem("Drift", (_drifted(campaign),))]
    items += [SummaryItem("Acceptance", lines) for lines in (_acceptance(cards),) if lines]
    items += [
        SummaryItem(kind.capitalize(), _leads(kind, cards)) for kind in ("training", "inference") if any(c.kind == kind for c in cards)
    ]
    items += [SummaryItem("Losses", lines) for lines in (same_losses(campaign),) if lines]
    return tuple(items)


def _measured(cards: Sequence[Scorecard]) -> str:
    if not cards:
        return "No planned trials and no results."
    counts: Counter[str] = Counter()
    for card in cards:
        counts.update(card.counts)
    total = sum(counts.values())
    parts = [f"{n} {status}" for status, n in counts.items() if n]
    providers = sorted({c.provider for c in cards})
    workloads = sorted({f"{c.workload} ({c.kind})" for c in cards})
    return f"{total} trial{'s' if total != 1 else ''} of {join_words(workloads)} ran on {join_words(providers)}: {join_words(parts)}."


def _leads(kind: str, cards: Sequence[Scorecard]) -> tuple[str, ...]:
    """One sentence for each provider that leads on something, and one for what is too close to call; workloads apart."""
    lines: list[str] = []
    identities = sorted({(c.workload, c.version) for c in cards if c.kind == kind})
    for workload, version in identities:
        side_by_side = {c.provider: c for c in cards if (c.kind, c.workload, c.version) == (kind, workload, version)}
        on = f" ({workload})" if len(identities) > 1 else ""
        won: dict[str, list[str]] = {}
        close: list[str] = []
        for group in HEADLINES[kind]:
            metric = next((name for name in group if any(c.row(name) for c in side_by_side.values())), group[0])
            rows = {p: c.row(metric) for p, c in side_by_side.items()}
            ahead = leaders(rows)
            if len(ahead) == 1:
                won.setdefault(ahead[0], []).append(_lead(metric, rows, ahead[0]))
            elif ahead:
                close.append(format_name(metric))
        lines += [f"{provider} leads{on} on {join_words(on_what)}." for provider, on_what in won.items()]
        lines += [f"Too close to call{on}: {join_words(close)}."] if close else []
        if not won and not close:
            lines.append(f"Fewer than two providers have results{on}: no leader.")
    return tuple(lines)


def _lead(metric: str, rows: dict[str, Row | None], first: str) -> str:
    values = {p: r.value for p, r in rows.items() if r is not None and r.value is not None}
    row = next(r for r in rows.values() if r is not None)
    shown = common_scale(row.unit, values.values(), metric)
    others = {p: v for p, v in values.items() if p != first}
    next_best = (min if row.direction == "lower_is_better" else max)(others.values())
    return f"{format_name(metric)} ({shown.text(values[first])}, next {shown.text(next_best)})"


def _acceptance(cards: Sequence[Scorecard]) -> tuple[str, ...]:
    judged = [(c, j) for c in cards for j in c.acceptance]
    if not judged:
        return ()
    bad = [f'{c.provider} fails "{j.text}"' for c, j in judged if j.outcome == "fail"]
    bad += [f'{c.provider} meets "{j.text}" in {j.met} of {j.n} repeats' for c, j in judged if j.outcome == "mixed"]
    open_ = sum(j.outcome == "insufficient" for _, j in judged)
    passed = sum(j.outcome == "pass" for _, j in judged)
    text = f"{passed} of {len(judged)} acceptance criteria pass"
    if open_:
        text += f", {open_} have too little data"
    return (f"{text}{': ' + '; '.join(bad) if bad else ''}.",)


def _decision(decided: TeamDecision) -> str:
    decision = decided.decision
    who = f"Team {decision.team}, {join_words(decision.workloads)}"
    winner = decision.winner
    if winner is None:
        return f"{who}: {decision.note[:1].lower()}{decision.note[1:]}"
    before = f"{who}: {winner.provider} ahead of {decision.ranking[1].provider}"
    sure = (
        f", P(first) {format_probability(winner.probability_first)}"
        if winner.probability_first is not None
        else f"; P(first) unknown: {decision.note.removesuffix('.')}"
    )
    return f"{before}{sure}."


def _drifted(campaign: CampaignData) -> str:
    if campaign.findings:
        by_kind = Counter(f.kind for f in campaign.findings)
        kinds = join_words(f"{n} {format_name(kind)}" for kind, n in sorted(by_kind.items()))
        worst = min(campaign.findings, key=lambda f: ("page", "warn", "info").index(f.severity))
        return f"Since the accepted baseline: {kinds} {'finding' if len(campaign.findings) == 1 else 'findings'}; most severe: {headline(worst)}."
    compared = [d for d in campaign.drift if d.baseline]
    if not compared:
        return "No accepted baseline before this campaign, so no drift comparison."
    unsure = sum(d.verdicts.get("insufficient_data", 0) for d in compared)
    tail = f" {unsure} comparisons have too little data." if unsure else ""
    return f"No drift from the accepted baseline in {len(compared)} series.{tail}"


def headline(finding: FindingRow) -> str:
    """A finding in words; of one that an older version stored, its headline without the severity, which the page shows beside it."""
    return finding.words or finding.headline.removeprefix(finding.severity.upper()).strip()


def comparison_limits(
    campaign: CampaignData, cards: Sequence[Scorecard], quotes: dict[str, Quote], problems: Sequence[str] = ()
) -> tuple[str, ...]:
    """What this comparison cannot say, from the data itself."""
    found = []
    fewest = min((c.usable for c in cards if c.usable), default=6)
    if fewest < 6:
        found.append(
            f"At least one column has only {fewest} usable repeats. Below six, the interval is the range of the repeats, "
            "which covers the true median less often than 95 %; with two repeats, half of the time."
        )
    shared: dict[str, list[str]] = {}
    for name in sorted({c.provider for c in cards}):
        if name in campaign.providers and (launcher := campaign.providers[name].launcher).cpus_here:
            shared.setdefault(str(launcher.machine_name), []).append(name)
    found += [
        f"{join_words(names)} are the same machine ({machine}) with different cores." for machine, names in shared.items() if len(names) > 1
    ]
    if any(d.simulated for d in campaign.documents):
        names = sorted({d.trial.provider.name for d in campaign.documents if d.simulated})
        found.append(f"{join_words(names)} {'is' if len(names) == 1 else 'are'} simulated: these results were not measured on hardware.")
    lost = [c for c in cards if c.planned > c.usable]
    if lost:
        found.append(
            f"Not every planned trial has usable results: {join_words(f'{c.provider} {c.usable} of {c.planned} {c.kind}' for c in lost)}."
        )
    found += [f"{reason}; its costs are unknown, not zero." for q in quotes.values() if (reason := q.reason)]
    if campaign.store is None:
        found.append("The raw evidence was not available, so this report has no distribution charts.")
    found += [f"Charts exclude raw evidence: {problem}." for problem in problems]
    slots = sorted({d.trial.slot for d in campaign.documents})
    if len(slots) == 1:
        found.append(f"All trials ran at one time of day ({slots[0]} UTC); variation over the day is not measured.")
    return tuple(found)


def same_losses(campaign: CampaignData) -> tuple[str, ...]:
    """One sentence for each training workload and provider with two repeats or more whose losses are known; empty without one."""
    found: dict[tuple[str, str], list[str]] = {}
    for document in campaign.documents:
        record = document.reproducibility
        if record is not None and "losses" in record.hashes and document.validity.status != "failed":
            found.setdefault((document.trial.workload.name, document.trial.provider.name), []).append(record.hashes["losses"])
    return tuple(_sentence(workload, provider, hashes) for (workload, provider), hashes in sorted(found.items()) if len(hashes) > 1)


def _sentence(workload: str, provider: str, hashes: list[str]) -> str:
    kinds = Counter(hashes)
    if len(kinds) == 1:
        return f"{workload} on {provider}: the losses of all {len(hashes)} repeats are bitwise identical."
    alike = kinds.most_common(1)[0][1]
    most = f"{alike} of them are identical" if alike > 1 else "no two are identical"
    return f"{workload} on {provider}: the losses of {len(hashes)} repeats differ, {most}; set deterministic: true to reproduce them."
