"""A campaign in its shortest form, the one that the report's cover, the mail, the Markdown and the command line show: headline, money,
choices, actions, who leads on each workload, what drifted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Literal

from plumbline.analysis.busy_machine import BusyMachine
from plumbline.analysis.campaign_data import CampaignData, FindingRow, SeriesDrift
from plumbline.analysis.conclusions import Conclusions
from plumbline.analysis.cost.bill import combine_bills
from plumbline.analysis.decisions.certainty import is_clear, rivals_of
from plumbline.analysis.decisions.current_results import TeamDecision
from plumbline.analysis.decisions.savings import Switch, cost_answers, savings_of
from plumbline.analysis.drift.series_state import STATES
from plumbline.analysis.scorecards.scorecard import leaders, leading_metric, leading_row
from plumbline.analysis.trial_sample import USABLE
from plumbline.declarations.purposes import is_monthly
from plumbline.findings.compared import Compared
from plumbline.findings.types import about_price, about_speed, stored_type, type_by_id
from plumbline.findings.types.base import FindingType
from plumbline.judgement import together
from plumbline.metrics.formatting import (
    common_scale,
    format_count,
    format_money,
    format_name,
    format_percent,
    format_probability,
    join_words,
)
from plumbline.metrics.units import Amount
from plumbline.presentation.card_tables import CardTable, card_tables
from plumbline.presentation.tiles import Tile, lost_tile, saving_tile
from plumbline.results.finding import OPEN_STATES, gravity
from plumbline.words.campaigns import request_text
from plumbline.words.decisions import NEEDS_REPEATS, certainty_text, cheapest_text, judge_choice, today_text

Verdict = Literal["move", "choose", "unclear", "only", "none", "stay"]
VERDICTS: dict[Verdict, str] = {
    "move": "move",
    "choose": "first choice",
    "unclear": "no clear winner",
    "only": "nothing to compare with",
    "none": "none eligible",
    "stay": "stay",
}
"""In the order of rows: what a reader must act on comes first."""
ROWS, ACTIONS, FINDINGS = 5, 3, 8
OPERATIONS = "operations"
"""Owner of what concerns no team's workload."""


@dataclass(frozen=True)
class Bar:
    """One provider's number. `share`: of the largest one, 0 to 1. `best`: no other is shown to be better."""

    provider: str
    text: str
    interval: str
    share: float
    best: bool


@dataclass(frozen=True)
class WorkloadVerdict:
    """One workload: `bars` of its leading metric, best first; `without`: not measured, by provider with why."""

    kind: str
    workload: str
    title: str
    metric: str
    arrow: str
    bars: tuple[Bar, ...]
    without: dict[str, str]

    @property
    def leader(self) -> str:
        """Who leads, in the fewest words."""
        if not self.bars:
            return "not measured"
        if len(self.bars) == 1:
            return f"{self.bars[0].provider} alone"
        ahead = [bar.provider for bar in self.bars if bar.best]
        return ahead[0] if len(ahead) == 1 else f"{len(ahead)} too close to call" if ahead else "no leader"


@dataclass(frozen=True)
class ChoiceRow:
    """One team's choice for one set of workloads. `provider`: the first choice; without a clear winner who leads with what. `before`: of a move,
    where from. `needs`: what gives it a probability, where it has none."""

    team: str
    workloads: str
    verdict: Verdict
    provider: str
    before: str
    certainty: str
    saves: str
    today: str = ""
    needs: str = ""

    @property
    def label(self) -> str:
        return f"{VERDICTS[self.verdict]}{f' from {self.before}' if self.before else ''}"

    @property
    def sentence(self) -> str:
        """The action as text, such as `move from aurora to cirrus, 87 % sure`."""
        between = {"move": " to ", "stay": " with ", "choose": " "}.get(self.verdict, ", ")
        sure, needs = f", {self.certainty} sure" if self.certainty else "", f"; {self.needs}" if self.needs else ""
        return f"{self.label}{between if self.provider else ''}{self.provider}{sure}{needs}"


@dataclass(frozen=True)
class Action:
    """A recommended action, its reason and its owner."""

    title: str
    why: str
    owner: str
    usd: Amount = 0.0


@dataclass(frozen=True)
class CampaignVerdict:
    """`headline`: what changed, or that a busy machine has no winner. `tiles`: spent, lost, could be saved, certainty. `choices`: moves first.
    `actions`: at most ACTIONS; `also_open`: open findings that none of them names. `trials`: by status. `findings`: the campaign's, open and
    gravest first. `series`: by their state in words, the gravest first. `criteria`: by outcome. `request`: of a campaign on demand, why
    it was requested and what it measured; empty of a monthly one."""

    campaign_id: str
    headline: str
    simulated: Literal["", "some", "all"] = ""
    tiles: tuple[Tile, ...] = ()
    choices: tuple[ChoiceRow, ...] = ()
    actions: tuple[Action, ...] = ()
    also_open: tuple[FindingRow, ...] = ()
    providers: tuple[str, ...] = ()
    trials: dict[str, int] = field(default_factory=dict)
    workloads: tuple[WorkloadVerdict, ...] = ()
    findings: tuple[FindingRow, ...] = ()
    series: dict[str, int] = field(default_factory=dict)
    criteria: dict[str, int] = field(default_factory=dict)
    busy: bool = False
    request: str = ""

    @property
    def trials_text(self) -> str:
        """How many trials there were, and why some do not count."""
        total, usable = sum(self.trials.values()), sum(self.trials.get(status, 0) for status in USABLE)
        bad = ", ".join(f"{n} {status}" for status, n in self.trials.items() if status not in USABLE)
        return (
            f"{usable} of {total} trials usable ({bad})" if bad else f"{format_count(total, 'trial')}, all usable" if total else "no trials"
        )

    @property
    def rows(self) -> tuple[ChoiceRow, ...]:
        """The choices that a first page shows."""
        return self.choices[:ROWS]

    @property
    def more(self) -> str:
        """The other choices, counted in words."""
        return join_words(f"{n} × {label}" for label, n in Counter(VERDICTS[r.verdict] for r in self.choices[ROWS:]).items())


def campaign_verdict(conclusions: Conclusions) -> CampaignVerdict:
    """The summary of a campaign, alike for three providers and for fifty; every number is from bills, scorecards and decisions."""
    campaign, cards = conclusions.campaign, conclusions.cards
    volumes = campaign.history.volumes
    savings = savings_of([a for d in conclusions.decided for a in cost_answers(d)], volumes)
    moves = savings.moves
    order = tuple(VERDICTS)
    choices = sorted(
        (_choice(d, conclusions, moves) for d in conclusions.decided), key=lambda r: (order.index(r.verdict), r.team, r.workloads)
    )
    counts: Counter[str] = Counter()
    for card in cards:
        counts.update({status: n for status, n in card.counts.items() if n})
    simulated_flags = {d.simulated for d in campaign.documents}
    actions = _actions(conclusions, moves)
    named = {action.why for action in actions}
    return CampaignVerdict(
        campaign_id=campaign.campaign_id,
        headline=_headline(conclusions) if conclusions.busy is None else _busy_sentence(conclusions.busy),
        simulated="" if True not in simulated_flags else "some" if False in simulated_flags else "all",
        tiles=(
            _spent_tile(conclusions),
            lost_tile(campaign.history.monthly, Compared(len(_judged(campaign)), len(campaign.drift))),
            saving_tile(savings if conclusions.decided else None),
            _certainty_tile(conclusions),
        ),
        choices=tuple(choices),
        actions=actions,
        also_open=tuple(f for f in campaign.history.open_findings if f.headline not in named)[:FINDINGS],
        providers=tuple(sorted({c.provider for c in cards})),
        trials=dict(counts),
        workloads=tuple(_workload(table, conclusions.busy is None) for table in card_tables(cards)),
        findings=tuple(sorted(campaign.findings, key=lambda f: (f.state not in OPEN_STATES, gravity(f.severity)))),
        series=drift_counts(campaign.drift),
        criteria=dict(Counter(j.outcome for c in cards for j in c.acceptance)),
        busy=conclusions.busy is not None,
        request=request_text(campaign.purpose, campaign.reason, {c.workload for c in cards}, {c.provider for c in cards}),
    )


def drift_counts(drift: Sequence[SeriesDrift]) -> dict[str, int]:
    """How many series have each state, in words, the most severe first."""
    words = [format_name(d.state.state) if d.baseline else _WITHOUT_BASELINE for d in drift]
    return {name: words.count(name) for name in (*map(format_name, STATES), _WITHOUT_BASELINE) if name in words}


_WITHOUT_BASELINE = "without an earlier baseline"


def _busy_sentence(busy: BusyMachine) -> str:
    close = f"close {join_words(busy.programs)} and run again" if busy.programs else "run again when it is idle"
    return f"this machine was busy (others used {format_percent(busy.share)}): no winner; {close}"


def _workload(table: CardTable, ranked: bool) -> WorkloadVerdict:
    metric = leading_metric(table.cards)
    rows = {c.provider: row for c in table.cards if (row := leading_row(c, metric)) is not None and row.value is not None}
    first_row = next(iter(rows.values()), None)
    leading_providers = leaders(dict(rows)) if len(rows) > 1 and ranked else ()
    higher = first_row is not None and first_row.direction == "higher_is_better"
    ordered = sorted(rows.items(), key=lambda item: ((-1 if higher else 1) * (item[1].value or 0.0), item[0]))
    scale = common_scale(first_row.unit if first_row else "", [row.value for _, row in ordered], metric)
    largest = max((row.value or 0.0 for _, row in ordered), default=0.0)
    bars = tuple(
        Bar(
            provider,
            scale.text(row.value),
            scale.interval(row.low, row.high),
            (row.value or 0.0) / largest if largest > 0 else 0.0,
            provider in leading_providers,
        )
        for provider, row in ordered
    )
    return WorkloadVerdict(
        kind=table.kind,
        workload=table.workload,
        title=table.title,
        metric=format_name(metric),
        arrow="↑" if higher else "↓" if first_row is not None and first_row.direction == "lower_is_better" else "",
        bars=bars,
        without={c.provider: c.unusable or "not measured in any usable trial" for c in table.cards if c.provider not in rows},
    )


def choice_key(decided: TeamDecision) -> tuple[str, str, tuple[str, ...]]:
    """Team, kind and workloads, by which a campaign's history names a choice."""
    return decided.decision.team, decided.decision.kind, decided.preference.workloads


def _change(decided: TeamDecision, campaign: CampaignData) -> Literal["", "changes", "stays"]:
    """Whether a clear first choice is another one than the last stored decision's, of a first decision than where the team runs; empty where
    there is no earlier one, or no clear winner."""
    before = campaign.history.choices.get(choice_key(decided)) or decided.preference.current
    if before is None or decided.decision.first is None or (len(decided.decision.eligible) > 1 and not is_clear(decided.decision)):
        return ""
    return "stays" if before == decided.decision.first.provider else "changes"


def _verdict(decided: TeamDecision) -> Verdict:
    # An earlier ranking is a recommendation, not a place where anything runs.
    decision, before = decided.decision, decided.preference.current
    if decision.first is None:
        return "none"
    if len(decision.eligible) > 1 and not is_clear(decision):
        return "unclear"
    # The only eligible provider is no proof that staying is right.
    if len(decision.eligible) == 1 and before in (None, decision.first.provider):
        return "only"
    return "choose" if before is None else "stay" if before == decision.first.provider else "move"


def _choice(decided: TeamDecision, conclusions: Conclusions, moves: Sequence[Switch]) -> ChoiceRow:
    decision, verdict = decided.decision, _verdict(decided)
    before, names = decided.preference.current or "", decided.preference.workloads
    unknown = verdict == "unclear" and decision.first is not None and decision.first.probability_first is None
    best = next((m for m in moves if m.workload in names and m.provider == before and m.to == decision.first_name), None)
    return ChoiceRow(
        team=decision.team,
        workloads=names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else ""),
        verdict=verdict,
        provider=f"{decision.first_name} scores highest"
        if unknown
        else certainty_text(decision)
        if verdict == "unclear"
        else decision.first_name or "",
        before=before if verdict == "move" else "",
        certainty=format_probability(decision.first.probability_first) if decision.first and is_clear(decision) else "",
        saves="" if best is None else _saves(best),
        today=today_text(decision, conclusions.today.get(decision.choice)),
        needs=NEEDS_REPEATS if unknown else "",
    )


def _saves(move: Switch) -> str:
    return f"saves {format_money(move.usd)} a month" if move.usd else f"costs {format_percent(move.saving)} less"


def _headline(conclusions: Conclusions) -> str:
    campaign = conclusions.campaign
    changes = Counter(_change(d, campaign) for d in conclusions.decided)
    # Of severity info only what moves a decision is a headline.
    grave = [f for f in campaign.findings if f.severity != "info" or about_speed(f) or about_price(f)]
    parts = _count_by_word(grave)
    if moved := changes["changes"]:
        parts.append(format_count(moved, "decision changes", "decisions change"))
    if not parts:
        stay, minor = changes["stays"], len(campaign.findings)
        parts = [", ".join(filter(None, (format_count(minor, "minor finding"), _gap(campaign)))) if minor else _nothing_changed(campaign)]
        parts += [format_count(stay, "decision stays", "decisions stay")] if stay else []
    return f"{campaign_name(campaign.campaign_id)}: {', '.join(parts)}"


def _judged(campaign: CampaignData) -> list[SeriesDrift]:
    """The series whose comparison with a baseline says something."""
    return [d for d in campaign.drift if d.baseline and d.state.state != "cannot_tell"]


def _gap(campaign: CampaignData) -> str:
    """The series that may have changed unseen; empty without any."""
    blind = sum(not d.baseline for d in campaign.drift)
    unsure = len(campaign.drift) - blind - len(_judged(campaign))
    parts = (f"{blind} {'has' if blind == 1 else 'have'} no baseline yet" if blind else "", f"{unsure} undecided" if unsure else "")
    return ", ".join(filter(None, parts))


def _nothing_changed(campaign: CampaignData) -> str:
    total, judged, gap = len(campaign.drift), len(_judged(campaign)), _gap(campaign)
    if total and judged == total:
        return "nothing changed"
    if judged:
        return f"nothing changed in {judged} of {total} series, {gap}"
    if any(d.baseline for d in campaign.drift):
        return f"cannot tell whether anything changed, of {total} series {gap}"
    return "first measurement, nothing to compare with"


def campaign_name(campaign_id: str) -> str:
    """`October 2026` for a monthly campaign, else its id."""
    if not is_monthly(campaign_id):
        return campaign_id
    return f"{date.fromisoformat(f'{campaign_id}-01'):%B %Y}"


def _type(finding: FindingRow) -> FindingType:
    return type_by_id(finding.type) if finding.type else stored_type(finding.kind, "")


def _word_order(finding: FindingRow) -> tuple[bool, int]:
    """Good news last."""
    of = _type(finding)
    return of.is_good_news(finding.direction, finding.effect), of.order


def _count_by_word(findings: Sequence[FindingRow]) -> list[str]:
    """Such as `2 regressions`, the gravest kind first."""
    nouns: dict[str, str] = {}
    counts = Counter[str]()
    for finding in sorted(findings, key=_word_order):
        word, of = _type(finding).word(finding.direction, finding.effect), _type(finding)
        nouns[word] = of.nouns if word == of.noun else ""
        counts[word] += 1
    return [format_count(n, word, nouns[word]) for word, n in counts.items()]


def _spent_tile(conclusions: Conclusions) -> Tile:
    priced_costs = [c for c in conclusions.provider_costs if c.bill.paid is not None]
    spent = combine_bills(c.bill for c in priced_costs)
    if spent.paid is None or spent.share is None:
        return Tile("Spent", "unknown", "no price declared or no result")
    prefix = "at least; " if len(priced_costs) < len(conclusions.provider_costs) or not all(c.bill.complete for c in priced_costs) else ""
    providers = format_count(len({c.provider for c in priced_costs}), "provider")
    share = "" if spent.share == spent.paid else f"; the trials' share: {format_money(spent.share.amount)}"
    return Tile("Spent", format_money(spent.paid.amount), f"{prefix}paid for machines of {providers}{share}")


def _certainty_tile(conclusions: Conclusions) -> Tile:
    decided = conclusions.decided
    decisions = [d.decision for d in decided if d.decision.first is not None]
    if not decisions:
        why = "this machine was busy" if conclusions.busy is not None else "no team declares these workloads"
        return Tile("Certainty", "–", f"no decision: {why}" if not decided else "no provider is eligible")
    clear, alone, none = sum(map(is_clear, decisions)), sum(len(d.eligible) == 1 for d in decisions), len(decided) - len(decisions)
    probabilities = [d.winner.probability_first for d in decisions if d.winner is not None and d.winner.probability_first is not None]
    ends = [format_probability(end(probabilities)) for end in (min, max)] if probabilities else []
    chances = f"; P(first) from {ends[0]} to {ends[1]}" if ends else ""
    limits = [f"{alone} with one eligible provider only"] * bool(alone) + [f"{none} without an eligible provider"] * bool(none)
    note = "".join(("decisions have a clear winner", *(f"; {limit}" for limit in limits), chances))
    every = together(judge_choice(d.decision).verdict for d in decided)
    return Tile("Certainty", f"{clear} of {len(decided)}", note, tone="good" if every == "met" else "")


def _other_first_choices(conclusions: Conclusions, move: Switch) -> str:
    """The clear first choices of the table that are not where the move leads: it ranks by the teams' weights, the move by cost alone."""
    teams: dict[str, set[str]] = {}
    for d in conclusions.decided:
        first = d.decision.first
        if move.workload in d.preference.workloads and first is not None and first.provider != move.to and is_clear(d.decision):
            teams.setdefault(first.provider, set()).add(d.decision.team)
    return "".join(
        f"; by the weights of {join_words(sorted(team_names))}, {provider} {'stays' if provider == move.provider else 'is'} first"
        for provider, team_names in sorted(teams.items())
    )


def _actions(conclusions: Conclusions, moves: Sequence[Switch]) -> tuple[Action, ...]:
    campaign, actions = conclusions.campaign, list[tuple[str, Action]]()
    for finding in campaign.history.open_findings:
        usd = finding.usd_per_month or 0.0
        if (finding.severity == "info" and usd <= 0) or _type(finding).is_good_news(finding.direction, finding.effect):
            continue
        actions.append(
            (
                finding.severity,
                Action(
                    f"{_type(finding).advise(finding.direction, finding.effect)} {finding.provider}",
                    finding.headline,
                    join_words(finding.teams) or OPERATIONS,
                    usd,
                ),
            )
        )
    for move in moves:
        title = f"To save, run {move.workload} on {move.to} instead of {move.provider}"
        less = f"{format_percent(move.saving)} less{cheapest_text(move.probability)}"
        saves = f"{_saves(move)} ({less})" if move.usd else f"costs {less}"
        why = f"{saves}{_other_first_choices(conclusions, move)}"
        actions.append(("warn", Action(title, why, join_words(move.teams), move.usd)))
    for d in conclusions.decided:
        if _verdict(d) == "unclear":
            names = [r.provider for r in rivals_of(d.decision)]
            title = f"Repeat {d.preference.workloads[0]} on {join_words(names[:3])}"
            actions.append(("info", Action(title, f"no clear winner among {len(names)}: {certainty_text(d.decision)}", d.decision.team)))
        elif d.decision.first is not None and len(d.decision.eligible) == 1:
            why = f"{d.decision.first_name} is the only eligible provider: nothing says that it is the best"
            actions.append(("", Action(f"Run {d.preference.workloads[0]} on a second provider", why, d.decision.team)))
    if any(not d.baseline for d in campaign.drift) or not campaign.drift:
        some = any(d.baseline for d in campaign.drift)
        rest = "its series without a baseline were" if some else "nothing was"
        why = f"{rest} compared yet; the next campaign is, once a baseline is accepted"
        grave = "" if some else "warn"  # of a first measurement it makes all the rest comparable
        actions.append((grave, Action("Run the campaign again", why, OPERATIONS)))
    if not campaign.history.volumes:
        reason = "without volumes neither losses nor savings have an amount"
        actions.append(("", Action("Declare monthly volumes in alerts.yaml", reason, OPERATIONS)))
    ranked = sorted(actions, key=lambda a: (-a[1].usd, gravity(a[0]), a[1].title))
    return tuple(action for _, action in ranked[:ACTIONS])
