"""`plumbline decide`: rank providers for a team."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Annotated

import typer
from rich.text import Text

from plumbline.analysis.decisions.current_results import TeamDecision
from plumbline.analysis.decisions.experiments import Experiment
from plumbline.analysis.decisions.winner_change import StoredChange
from plumbline.analysis.trial_sample import WorkloadKind
from plumbline.answers.current_results import decide_teams
from plumbline.answers.experiments import next_experiments
from plumbline.answers.winner_change import team_winner_change
from plumbline.cli.output import TONES, Json, clear_errors, emit, fail, marked, out, read_archive, table
from plumbline.cli.tables import TOP, print_table
from plumbline.declarations import DeclarationError, load, parse_weights
from plumbline.declarations.providers.rates import Purchase
from plumbline.metrics.formatting import common_scale, format_amount, format_name, join_words, shorten
from plumbline.metrics.names import names_by_text
from plumbline.presentation.acceptances import OpenNodes
from plumbline.presentation.decisions import (
    CheapestTable,
    SwingRow,
    change_steps,
    change_title,
    cheapest_table,
    current_place,
    decision_view,
    evidence_texts,
    experiment_rows,
    price_rows,
    rank_rows,
    weight_rows,
    what_decides,
)
from plumbline.words.comparisons import comparison_line
from plumbline.words.decisions import answer_sentence, judge_choice, note_text
from plumbline.words.winner_change import why_sentence
from plumbline.workflows.acceptances import winner_nodes
from plumbline.workflows.decide import DecisionsLocked, decide_all


def show_decided(
    decided: TeamDecision,
    *,
    details: bool,
    change: StoredChange | None = None,
    experiments: Sequence[Experiment] = (),
    trials: bool = False,
    everything: bool = False,
    nodes: OpenNodes | None = None,
) -> None:
    """The choice, the ranking and the cheapest provider; `details`: gates, comparison class, what would change it, all costs. `trials`
    lists those behind each provider's numbers, `everything` more than ten providers. `nodes`: of the first choice, those not accepted."""
    out.print(_choice(decided))
    most = None if everything else TOP
    _ranking(decided, most, details)
    for text, names in names_by_text(evidence_texts(decided).items()).items():
        _line(f"{shorten(names)}: {text}", "dim")
    if details:
        _gates(decided, most)
        if compared := comparison_line(decided.decision.comparison):
            _line(compared)
    if note := note_text(decided.decision.note):
        _line(note)
    if today := current_place(decided):
        _line(today)
    if decides := what_decides(decided.decision):
        _line(decides)
    if nodes is not None:
        _line(nodes.text, TONES["warn"])
    if details:
        _changes("weight", weight_rows(decided.weight_swings), None)
        _changes("price", price_rows(decided.price_swings), most)
    if change is not None:
        _winner_change(change)
    if experiments:
        _experiments(experiments)
    for answer in decided.cheapest:
        _cheapest(cheapest_table(answer), most if details else 0)
    left_out = names_by_text((each.provider, f"left out on {each.workload}: {each.reason}") for each in decided.current.left_out)
    for reason, names in left_out.items():
        _line(f"{shorten(names)}: {reason}", "dim")
    if trials:
        for ranked in decided.decision.ranking:
            _line(f"{ranked.provider}, {len(ranked.trials)} trials: {', '.join(ranked.trials) or 'none'}", "dim")
    out.print()


def _choice(decided: TeamDecision) -> Text:
    decision, current = decided.decision, decided.current
    mark = "SIMULATED · " if current.simulated else ""
    of = f"Team {decision.team} · {decision.kind} · {' + '.join(decided.preference.workloads)} · as of {current.day}"
    style = f"bold {TONES[judge_choice(decision).tone]}"
    return Text.assemble((mark, "yellow"), (of, "bold"), "\n", ("→ ", "dim"), (answer_sentence(decision, decided.cheapest), style))


def _ranking(decided: TeamDecision, most: int | None, details: bool) -> None:
    """A row for each provider; with `details` also scores, weights and campaigns."""
    decision, current = decided.decision, decided.current
    several = len(decided.preference.workloads) > 1
    columns = [f"{format_name(c.metric)}{f' on {c.workload}' if several else ''}" for c in decision.columns]
    weighed = [
        f"{name}, weight {c.weight:.2g}{'' if c.valued == 'ratio to the best' else f' ({c.valued})'}"
        for name, c in zip(columns, decision.columns, strict=True)
    ]
    hourly = f"USD/h, {current.purchase.replace('_', '-')}"
    if details:
        heads = ["rank", "provider", "P(first)", "score", *weighed, hourly, "campaign"]
    else:
        heads = ["rank", "provider", "P(first)", *columns, hourly]
    shown = table("", *heads, right=("rank", "P(first)", "score"))
    for row in rank_rows(decision):
        quote = decided.prices[row.provider]
        price = format_amount(quote.basis.usd_per_hour) if quote.basis else "–"
        if not details:
            shown.add_row(row.place, row.provider, row.chance, *row.values, price)
            continue
        shares = row.shares or (None,) * len(row.values)
        values = [v if s is None else f"{v} ({s:.0f} %)" for v, s in zip(row.values, shares, strict=True)]
        campaigns = sorted({campaign for (provider, _), campaign in current.campaigns.items() if provider == row.provider})
        shown.add_row(row.place, row.provider, row.chance, row.score, *values, price, ", ".join(campaigns))
    print_table(shown, most)
    for reason, names in names_by_text((row.provider, "; ".join(row.why_not)) for row in rank_rows(decision) if row.why_not).items():
        _line(f"{shorten(names)} {'is' if len(names) == 1 else 'are'} not eligible: {reason}")
    for reason, names in names_by_text((name, quote.reason or "") for name, quote in decided.prices.items() if quote.basis is None).items():
        _line(f"{shorten(names)}: {reason}")


def _gates(decided: TeamDecision, most: int | None) -> None:
    """Each gate with what it was judged on, provider by provider."""
    ranking = decided.decision.ranking[:most]
    more = f" and {len(decided.decision.ranking) - len(ranking)} more" if len(ranking) < len(decided.decision.ranking) else ""
    for gates in zip(*(ranked.gates for ranked in ranking), strict=True):
        scale = common_scale(gates[0].unit, [gates[0].limit, *(g.value for g in gates)])
        values = [
            f"{ranked.provider} {'not measured' if g.value is None else scale.text(g.value)}{'' if g.passed else ' (fails)'}"
            for ranked, g in zip(ranking, gates, strict=True)
        ]
        on = f" on {gates[0].workload}" if len(decided.preference.workloads) > 1 else ""
        _line(f"Gate {gates[0].text}{on}: {', '.join(values)}{more}")


def _changes(what: str, rows: Sequence[SwingRow], most: int | None) -> None:
    """Changes that would move the first place, in the report's words."""
    if rows:
        _line(f"What another {what} would change:")
        shown = table("", what, "now", "from there down", "from there up", right=("now",))
        for row in rows:
            shown.add_row(row.name, row.now, row.down, row.up)
        print_table(shown, most)


def _winner_change(change: StoredChange) -> None:
    _line(f"{change_title(change.change)}, since {change.decided_at:%Y-%m-%d}: {why_sentence(change.change)}.")
    if steps := change_steps(change.change):
        shown = table("", "step", "lead, about percent", right=("lead, about percent",))
        for step in steps:
            shown.add_row(step.name, step.text)
        print_table(shown)


def _experiments(experiments: Sequence[Experiment]) -> None:
    _line("Next best experiment:")
    numbers = ("P(right choice)", "cost", "per USD")
    shown = table("", "provider", "workload", "repeats", *numbers, right=numbers)
    for row in experiment_rows(experiments):
        shown.add_row(row.provider, row.workload, row.repeats, row.gain, row.cost, row.per_usd)
    print_table(shown)


def _cheapest(answer: CheapestTable, most: int | None) -> None:
    required = join_words(answer.requirements) or "nothing is required"
    text = answer.answer if any(row.meets for row in answer.rows) else f"{answer.answer} {answer.note}".rstrip()
    _line(
        marked(
            "The cheapest setup that meets the requirement of {} ({}), by {}: [bold]{}[/]", answer.workload, required, answer.metric, text
        )
    )
    if most == 0:
        return
    shown = table("", "provider", answer.metric, "interval", "n", "P(cheapest)", "", right=(answer.metric, "interval", "n", "P(cheapest)"))
    for row in answer.rows:
        shown.add_row(row.provider, row.cost, row.interval, str(row.n), row.probability, "" if row.meets else "; ".join(row.why_not))
    print_table(shown, most)


def _line(text: str | Text, style: str = "") -> None:
    out.print(text, style=style or None)


def decide(
    team: Annotated[str | None, typer.Option(help="one team; every team if left out")] = None,
    workload: Annotated[str | None, typer.Option(help="this workload alone; else what each team names, together")] = None,
    kind: Annotated[WorkloadKind | None, typer.Option(help="training or inference; both if left out")] = None,
    purchase: Annotated[Purchase, typer.Option(help="how instances are paid for")] = "on_demand",
    weights: Annotated[
        str | None, typer.Option(help="try other weights of one choice: METRIC=0.5,METRIC=0.2; the others are rescaled to fill up to 1")
    ] = None,
    simulated: Annotated[bool, typer.Option("--simulated", help="rank what was simulated, although something was measured")] = False,
    trials: Annotated[bool, typer.Option("--trials", help="list the trials behind each provider's numbers")] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="also gates, comparison class, weights and prices that would change the choice, all costs"),
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="the same, for every provider instead of the first ten")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="store every team's decision as of today too, and open a finding where a first choice changed")
    ] = False,
    why: Annotated[str, typer.Option(help="with --keep: the reason that is stored with it")] = "on the command line",
    as_json: Json = False,
) -> None:
    on = datetime.now(timezone.utc).date()
    with clear_errors(DeclarationError, LookupError, ValueError, DecisionsLocked), read_archive() as archive:
        declared = load()
        if keep and (weights or simulated or purchase != "on_demand"):
            raise ValueError("--keep stores the declared decisions; expected no --weights, --simulated or --purchase with it")
        team_decisions = decide_teams(
            archive,
            declared,
            on,
            team=team,
            kind=kind,
            workload=workload,
            weights=parse_weights(weights or ""),
            purchase=purchase,
            simulated=simulated,
        )
        details = verbose or everything
        changes = [
            team_winner_change(archive, d.decision.team, d.decision.kind, d.preference.workloads) if details or as_json else None
            for d in team_decisions
        ]
        experiments = [next_experiments(declared, d) if details or as_json else () for d in team_decisions]  # seconds with 50 providers
        recorded = decide_all(archive, declared, on, why) if keep else []
        nodes = {name: winner_nodes(archive, declared, name) for name in {d.decision.first_name for d in team_decisions}}
        if not any(decided.decision.ranking for decided in team_decisions):
            there = sorted({part.series.workload for part in archive.newest_usable()})
            wanted = ", ".join(sorted({w for decided in team_decisions for w in decided.preference.workloads}))
            fail(f"no usable results of {wanted}; measured: {', '.join(there) or 'none'}. To measure one: plumbline trigger")
    idle = [decided for decided in team_decisions if not decided.decision.ranking]

    def show() -> None:
        for decided, change, tried in zip(team_decisions, changes, experiments, strict=True):
            if decided.decision.ranking:
                show_decided(
                    decided,
                    details=details,
                    change=change,
                    experiments=tried,
                    trials=trials,
                    everything=everything,
                    nodes=nodes[decided.decision.first_name],
                )
        for decided in idle:
            team_of = f"team {decided.decision.team}, {decided.decision.kind}"
            out.print(f"{team_of}: no results of {', '.join(decided.preference.workloads)}", style="dim")
        for one in recorded:
            out.print(f"{'stored' if one.new else 'unchanged'}: {one.text}")
        if not details:
            out.print("gates, and what would change a choice: -v", style="dim")

    data = [
        decision_view(decided, tried, nodes=nodes[decided.decision.first_name], change=change)
        for decided, tried, change in zip(team_decisions, experiments, changes, strict=True)
    ]
    emit(as_json, {"day": on, "decisions": data, "kept": recorded}, show)
