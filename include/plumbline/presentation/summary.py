"""A campaign's summary: first choices, cost, drift, acceptance, and the limits of the comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from plumbline.analysis.campaign_data import CampaignData
from plumbline.analysis.conclusions import Conclusions
from plumbline.analysis.decisions.certainty import first_sentence, today_text
from plumbline.analysis.decisions.current_results import TeamDecision
from plumbline.analysis.decisions.decision import Decision
from plumbline.analysis.drift.series_state import SeriesStateName
from plumbline.analysis.prices.book import Quote
from plumbline.analysis.scorecards.scorecard import Row, Scorecard, leaders
from plumbline.metrics import leading, leading_names
from plumbline.metrics.formatting import common_scale, format_name, join_words
from plumbline.presentation.costs import cost_sentence
from plumbline.presentation.decisions import cheapest_sentences, nearest_change
from plumbline.results.finding import gravity


@dataclass(frozen=True)
class SummaryItem:
    """`lines`: full sentences; `asides`: a note on each line, or empty."""

    label: str
    lines: tuple[str, ...]
    asides: tuple[str, ...] = ()


def summary_items(conclusions: Conclusions) -> tuple[SummaryItem, ...]:
    """The summary, answers first."""
    campaign, cards = conclusions.campaign, conclusions.cards
    cheapest = cheapest_sentences(conclusions.decided)
    items = [SummaryItem("Measured", (_trials_sentence(cards),))]
    if conclusions.decided:
        items.append(
            SummaryItem(
                "First choice",
                tuple(_decision_sentence(d, conclusions.today.get(d.decision.choice)) for d in conclusions.decided),
                tuple(nearest_change(d) for d in conclusions.decided),
            )
        )
    items += [SummaryItem("Cheapest", cheapest)] if cheapest else []
    items += [SummaryItem("Total cost", tuple(cost_sentence(c) for c in conclusions.provider_costs))] if conclusions.provider_costs else []
    items += [SummaryItem("Drift", (_drift_sentence(campaign),))]
    items += [SummaryItem("Acceptance", lines) for lines in (_acceptance_sentences(cards),) if lines]
    items += [
        SummaryItem(kind.capitalize(), _leader_sentences(kind, cards))
        for kind in ("training", "inference")
        if any(c.kind == kind and c.ranked for c in cards)
    ]
    items += [SummaryItem("Losses", lines) for lines in (same_losses(campaign),) if lines]
    return tuple(items)


def _trials_sentence(cards: Sequence[Scorecard]) -> str:
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


def _leader_sentences(kind: str, cards: Sequence[Scorecard]) -> tuple[str, ...]:
    """One sentence for each provider that leads on something, and one for what is too close to call; workloads apart."""
    lines: list[str] = []
    identities = sorted({(c.workload, c.version) for c in cards if c.kind == kind})
    for workload, version in identities:
        side_by_side = {c.provider: c for c in cards if (c.kind, c.workload, c.version) == (kind, workload, version)}
        workload_suffix = f" ({workload})" if len(identities) > 1 else ""
        leads_by_provider: dict[str, list[str]] = {}
        close_metrics: list[str] = []
        for group in (*leading(kind), leading_names(f"{kind}_cost")):
            metric = next((name for name in group if any(c.row(name) for c in side_by_side.values())), group[0])
            rows = {p: c.row(metric) for p, c in side_by_side.items()}
            leading_providers = leaders(rows)
            if len(leading_providers) == 1:
                leads_by_provider.setdefault(leading_providers[0], []).append(_lead_text(metric, rows, leading_providers[0]))
            elif leading_providers:
                close_metrics.append(format_name(metric))
        lines += [f"{provider} leads{workload_suffix} on {join_words(metrics)}." for provider, metrics in leads_by_provider.items()]
        lines += [f"Too close to call{workload_suffix}: {join_words(close_metrics)}."] if close_metrics else []
        if not leads_by_provider and not close_metrics:
            lines.append(f"Fewer than two providers have results{workload_suffix}: no leader.")
    return tuple(lines)


def _lead_text(metric: str, rows: dict[str, Row | None], first: str) -> str:
    values = {p: r.value for p, r in rows.items() if r is not None and r.value is not None}
    row = next(r for r in rows.values() if r is not None)
    scale = common_scale(row.unit, values.values(), metric)
    other_values = {p: v for p, v in values.items() if p != first}
    next_best = (min if row.direction == "lower_is_better" else max)(other_values.values())
    return f"{format_name(metric)} ({scale.text(values[first])}, next {scale.text(next_best)})"


def _acceptance_sentences(cards: Sequence[Scorecard]) -> tuple[str, ...]:
    criteria = [(c, j) for c in cards for j in c.acceptance]
    if not criteria:
        return ()
    failures = [f'{c.provider} fails "{j.text}"' for c, j in criteria if j.outcome == "fail"]
    failures += [f'{c.provider} meets "{j.text}" in {j.met} of {j.n} repeats' for c, j in criteria if j.outcome == "mixed"]
    undecided = sum(j.outcome == "insufficient" for _, j in criteria)
    passed = sum(j.outcome == "pass" for _, j in criteria)
    text = f"{passed} of {len(criteria)} acceptance criteria pass"
    if undecided:
        text += f", {undecided} have too little data"
    return (f"{text}{': ' + '; '.join(failures) if failures else ''}.",)


def _decision_sentence(decided: TeamDecision, today: Decision | None) -> str:
    decision = decided.decision
    differs = today_text(decision, today)
    return f"Team {decision.team}, {join_words(decision.workloads)}: {first_sentence(decision)}{f' ({differs})' if differs else ''}."


def _drift_sentence(campaign: CampaignData) -> str:
    if campaign.findings:
        by_kind = Counter(f.kind for f in campaign.findings)
        kinds = join_words(f"{n} {format_name(kind)}" for kind, n in sorted(by_kind.items()))
        worst = min(campaign.findings, key=lambda f: gravity(f.severity))
        return f"Since the accepted baseline: {kinds} {'finding' if len(campaign.findings) == 1 else 'findings'}; most severe: {worst.headline}."
    compared = [d for d in campaign.drift if d.baseline]
    if not compared:
        return "No accepted baseline before this campaign, so no drift comparison."
    states = Counter(d.state.state for d in compared)
    parts = [f"{states[name]} {words}" for name, words in _BESIDE_DRIFT if states[name]]
    return f"No drift from the accepted baseline in {len(compared)} series{': ' if parts else ''}{', '.join(parts)}."


_BESIDE_DRIFT: tuple[tuple[SeriesStateName, str], ...] = (
    ("suspected", "suspected"),
    ("moved", "moved under the threshold"),
    ("cannot_tell", "with too little data"),
)


def comparison_limits(
    campaign: CampaignData, cards: Sequence[Scorecard], quotes: dict[str, Quote], problems: Sequence[str] = ()
) -> tuple[str, ...]:
    """What this comparison cannot say, from the data itself."""
    limits = []
    fewest = min((c.usable for c in cards if c.usable), default=6)
    if fewest < 6:
        limits.append(
            f"At least one column has only {fewest} usable repeats. Below six, the interval is the range of the repeats, "
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
    return tuple(limits)


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
