"""A report's cover: headline, four tiles, each team's choices, three actions, and the charts beside them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from plumbline.analysis.campaign_data import CampaignData, FindingRow, MonthlyTotal
from plumbline.analysis.conclusions import Conclusions
from plumbline.analysis.cost.bill import combine_bills
from plumbline.analysis.decisions.certainty import certainty_text, leaders_of, today_text
from plumbline.analysis.decisions.current_results import TeamDecision
from plumbline.analysis.decisions.decision import Decision
from plumbline.analysis.decisions.savings import Switch, switches
from plumbline.metrics.formatting import format_money, format_percent, format_probability, join_words
from plumbline.presentation.charts.chart import Chart
from plumbline.presentation.charts.fleet import index_chart, pareto_chart
from plumbline.presentation.verdicts import busy_sentence
from plumbline.results.finding import gravity

Verdict = Literal["stay", "move", "choose", "unclear", "none"]
VERDICTS: dict[Verdict, str] = {
    "stay": "stay",
    "move": "move",
    "choose": "first choice",
    "unclear": "no clear winner",
    "none": "none eligible",
}
ROWS, ACTIONS, FINDINGS = 5, 3, 8
OPERATIONS = "operations"
"""Owner of what concerns no team's workload."""


@dataclass(frozen=True)
class Tile:
    """One number of the cover; `detail`: what it covers or why it is unknown."""

    label: str
    value: str
    detail: str
    tone: Literal["", "good", "bad"] = ""


@dataclass(frozen=True)
class ChoiceRow:
    """One team's choice for one set of workloads. `provider`: the first choice; without a clear winner who leads with what. `before`: of a move,
    where from."""

    team: str
    workloads: str
    verdict: Verdict
    provider: str
    before: str
    certainty: str
    saves: str
    today: str = ""

    @property
    def label(self) -> str:
        return f"{VERDICTS[self.verdict]}{f' from {self.before}' if self.before else ''}"


@dataclass(frozen=True)
class Action:
    """What to do, why, and whose it is."""

    title: str
    why: str
    owner: str
    usd: float = 0.0


@dataclass(frozen=True)
class Cover:
    """Page one. `rows`: at most `ROWS`, moves first; `more`: the others, counted in words. `also_open`: findings that no action names."""

    headline: str
    tiles: tuple[Tile, ...]
    rows: tuple[ChoiceRow, ...]
    more: str
    actions: tuple[Action, ...]
    also_open: tuple[FindingRow, ...]
    charts: tuple[Chart, ...]
    simulated: Literal["", "some", "all"]


def cover(conclusions: Conclusions) -> Cover:
    """The cover of a campaign; the same for three providers and for fifty."""
    campaign = conclusions.campaign
    moves = switches(conclusions.decided, campaign.history.volumes)
    choices = sorted(
        (_choice(d, campaign, moves, conclusions.today.get(d.decision.choice)) for d in conclusions.decided),
        key=lambda r: (_ORDER.index(r.verdict), r.team, r.workloads),
    )
    simulated_flags = {d.simulated for d in campaign.documents}
    actions = _actions(conclusions, moves)
    named = {action.why for action in actions}
    hidden = Counter(VERDICTS[r.verdict] for r in choices[ROWS:])
    return Cover(
        headline=_headline(campaign, choices) if conclusions.busy is None else busy_sentence(conclusions.busy),
        tiles=(_spent_tile(conclusions), _lost_tile(campaign), _saving_tile(campaign, moves), _certainty_tile(conclusions)),
        rows=tuple(choices[:ROWS]),
        more=join_words(f"{n} × {label}" for label, n in hidden.items()),
        actions=actions,
        also_open=tuple(f for f in campaign.history.open_findings if f.headline not in named)[:FINDINGS],
        charts=tuple(c for c in (pareto_chart(conclusions), index_chart(campaign.history.index)) if c is not None),
        simulated="" if True not in simulated_flags else "some" if False in simulated_flags else "all",
    )


_ORDER: tuple[Verdict, ...] = ("move", "choose", "unclear", "none", "stay")


def choice_key(decided: TeamDecision) -> tuple[str, str, tuple[str, ...]]:
    """Team, kind and workloads, by which a campaign's history names a choice."""
    return decided.decision.team, decided.decision.kind, decided.preference.workloads


def _verdict(decided: TeamDecision, campaign: CampaignData) -> Verdict:
    decision = decided.decision
    if decision.first is None:
        return "none"
    if len(leaders_of(decision)) > 1:
        return "unclear"
    before = campaign.history.choices.get(choice_key(decided))
    return "choose" if before is None else "stay" if before == decision.first.provider else "move"


def _choice(decided: TeamDecision, campaign: CampaignData, moves: Sequence[Switch], today: Decision | None) -> ChoiceRow:
    decision, verdict = decided.decision, _verdict(decided, campaign)
    before = campaign.history.choices.get(choice_key(decided)) or ""
    best = next((m for m in moves if m.workload in decided.preference.workloads and m.provider == before), None)
    names = decided.preference.workloads
    return ChoiceRow(
        team=decision.team,
        workloads=names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else ""),
        verdict=verdict,
        provider=certainty_text(decision) if verdict == "unclear" else decision.first_name or "",
        before=before if verdict == "move" else "",
        certainty=format_probability(decision.first.probability_first) if decision.first and verdict != "unclear" else "",
        saves=""
        if best is None or decision.first is None or best.to != decision.first.provider
        else f"saves {format_money(best.usd)} a month",
        today=today_text(decision, today),
    )


def _headline(campaign: CampaignData, choices: Sequence[ChoiceRow]) -> str:
    # Of severity info only what moves a decision is a headline.
    grave = [f for f in campaign.findings if f.severity != "info" or f.kind in ("performance", "price")]
    counts = Counter(_finding_word(f) for f in grave)
    parts = [f"{n} {word if n == 1 else _plural(word)}" for word, n in sorted(counts.items(), key=lambda c: _WORDS.index(c[0]))]
    moved = sum(r.verdict == "move" for r in choices)
    if moved:
        parts.append(f"{moved} decision{'s' if moved > 1 else ''} change{'' if moved > 1 else 's'}")
    if not parts:
        stay = sum(r.verdict == "stay" for r in choices)
        minor = len(campaign.findings)
        parts = [
            f"{minor} minor finding{'s' if minor > 1 else ''}" if minor else "nothing changed",
            *([f"{stay} decision{'s' if stay > 1 else ''} stay{'' if stay > 1 else 's'}"] if stay else []),
        ]
    return f"{campaign_name(campaign.campaign_id)}: {', '.join(parts)}"


def campaign_name(campaign_id: str) -> str:
    """`October 2026` for a monthly campaign, else its id."""
    if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", campaign_id):
        return campaign_id
    return f"{date.fromisoformat(f'{campaign_id}-01'):%B %Y}"


_WORDS = ("regression", "price rise", "reliability problem", "gap in the data", "environment change", "price cut", "improvement", "finding")


def _finding_word(finding: FindingRow) -> str:
    """What a finding is called in a headline."""
    if finding.kind == "performance":
        return "improvement" if finding.direction == "improved" else "regression"
    if finding.kind == "price":
        return "price cut" if (finding.effect or 0.0) < 0 else "price rise"
    return {"environment": "environment change", "reliability": "reliability problem", "missing_data": "gap in the data"}.get(
        finding.kind, "finding"
    )


def _plural(word: str) -> str:
    return word.replace("gap", "gaps") if word.startswith("gap") else f"{word}s"


def _spent_tile(conclusions: Conclusions) -> Tile:
    priced_costs = [c for c in conclusions.provider_costs if c.bill.paid is not None]
    spent = combine_bills(c.bill for c in priced_costs)
    if spent.paid is None or spent.share is None:
        return Tile("Spent", "unknown", "no price declared or no result")
    providers = len({c.provider for c in priced_costs})
    prefix = "at least; " if len(priced_costs) < len(conclusions.provider_costs) or not all(c.bill.complete for c in priced_costs) else ""
    share = "" if spent.share == spent.paid else f"; the trials' share: {format_money(spent.share.amount)}"
    return Tile(
        "Spent", format_money(spent.paid.amount), f"{prefix}paid for machines of {providers} provider{'s' if providers > 1 else ''}{share}"
    )


def _lost_tile(campaign: CampaignData) -> Tile:
    open_findings = campaign.history.open_findings
    if not open_findings:
        return Tile("Lost", "0 USD", "no open findings", "good")
    count = f"{len(open_findings)} open finding{'s' if len(open_findings) > 1 else ''}"
    month = campaign.history.monthly
    if not month.known:
        reason = "none has a known cost" if campaign.history.volumes else "declare monthly volumes (alerts.yaml)"
        return Tile("Lost", "unknown", f"{count}; {reason}", "bad")
    return Tile("Lost", format_money(month.lost), f"a month, {count}{describe_rest(month)}", "bad" if month.lost else "")


def describe_rest(month: MonthlyTotal) -> str:
    """What an amount lost a month leaves out: gains, and findings without an amount."""
    saved = f"; others save {format_money(month.saved)}" if month.saved else ""
    return f"{saved}{f'; {month.unknown} without an amount' if month.unknown else ''}"


def _saving_tile(campaign: CampaignData, moves: Sequence[Switch]) -> Tile:
    if not campaign.history.volumes:
        return Tile("Could be saved", "unknown", "declare monthly volumes (alerts.yaml)")
    if not moves:
        return Tile("Could be saved", "0 USD", "declared volumes run at the cheapest eligible provider", "good")
    best = moves[0]
    return Tile(
        "Could be saved",
        format_money(sum(m.usd for m in moves)),
        f"a month; most: {best.workload} from {best.provider} to {best.to}",
        "good",
    )


def _other_first_choices(conclusions: Conclusions, move: Switch) -> str:
    """The clear first choices of the table that are not where the move leads: it ranks by the teams' weights, the move by cost alone."""
    teams: dict[str, set[str]] = {}
    for d in conclusions.decided:
        first = d.decision.first
        if move.workload in d.preference.workloads and first is not None and first.provider != move.to and len(leaders_of(d.decision)) == 1:
            teams.setdefault(first.provider, set()).add(d.decision.team)
    return "".join(
        f"; by the weights of {join_words(sorted(team_names))}, {provider} {'stays' if provider == move.provider else 'is'} first"
        for provider, team_names in sorted(teams.items())
    )


def _certainty_tile(conclusions: Conclusions) -> Tile:
    decided = conclusions.decided
    decisions = [d.decision for d in decided if d.decision.first is not None]
    if not decisions:
        none = "this machine was busy" if conclusions.busy is not None else "no team declares these workloads"
        return Tile("Certainty", "–", f"no decision: {none}" if not decided else "no provider is eligible")
    clear = sum(len(leaders_of(d)) == 1 for d in decisions)
    probabilities = [d.winner.probability_first for d in decisions if d.winner is not None and d.winner.probability_first is not None]
    range_text = (
        f"; P(first) from {format_probability(min(probabilities))} to {format_probability(max(probabilities))}" if probabilities else ""
    )
    return Tile(
        "Certainty", f"{clear} of {len(decisions)}", f"decisions have a clear winner{range_text}", "good" if clear == len(decisions) else ""
    )


def _actions(conclusions: Conclusions, moves: Sequence[Switch]) -> tuple[Action, ...]:
    campaign, actions = conclusions.campaign, list[tuple[float, str, Action]]()
    for finding in campaign.history.open_findings:
        usd = finding.usd_per_month or 0.0
        if (finding.severity == "info" and usd <= 0) or _finding_word(finding) in ("improvement", "price cut"):
            continue
        verb = {"price": "Negotiate or accept the price of", "performance": "Claim from, or rerun on,"}.get(finding.kind, "Check")
        actions.append((usd, finding.severity, Action(f"{verb} {finding.provider}", finding.headline, finding.owner or OPERATIONS, usd)))
    for move in moves:
        certainty = f", P(cheapest) {format_probability(move.probability)}" if move.probability is not None else ""
        reason = f"saves {format_money(move.usd)} a month ({format_percent(move.saving)} less{certainty}){_other_first_choices(conclusions, move)}"
        title = f"To save, run {move.workload} on {move.to} instead of {move.provider}"
        actions.append((move.usd, "warn", Action(title, reason, join_words(move.teams), move.usd)))
    for d in conclusions.decided:
        if _verdict(d, campaign) == "unclear":
            names = [r.provider for r in leaders_of(d.decision)]
            title = f"Repeat {d.preference.workloads[0]} on {join_words(names[:3])}"
            actions.append((0.0, "info", Action(title, f"no clear winner among {len(names)}", d.decision.team)))
    if not campaign.history.volumes:
        reason = "without volumes neither losses nor savings have an amount"
        actions.append((0.0, "", Action("Declare monthly volumes in alerts.yaml", reason, OPERATIONS)))
    ranked = sorted(actions, key=lambda a: (-a[0], gravity(a[1]), a[2].title))
    return tuple(action for *_, action in ranked[:ACTIONS])
