"""A decision for a terminal: ranking, gates, what would change it, the cheapest setup."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from plumbline.cli.output import marked, out, table
from plumbline.drift.winner import certainty
from plumbline.reports.figures import listed, percent, scale, words
from plumbline.reports.sections.decisions import price_sentences, weight_sentences
from plumbline.reports.standing import Decided
from plumbline.reports.tables import rank_rows
from plumbline.scorecards.cheapest import Cheapest, Setup


def show_decided(decided: Decided, trials: bool = False) -> None:
    """Everything that a person decides by; `trials` lists those behind each provider's numbers."""
    _ranking(decided)
    _gates(decided)
    if decided.decision.comparison.line:
        _line(decided.decision.comparison.line)
    if decided.decision.note:
        _line(decided.decision.note)
    _changes("weight", weight_sentences(decided.weight_swings))
    _changes("price", price_sentences(decided.price_swings))
    for answer in decided.cheapest:
        _cheapest(answer)
    for gone in decided.standing.left_out:
        _line(f"left out: {gone.provider} on {gone.workload}: {gone.reason}", "dim")
    if trials:
        for ranked in decided.decision.ranking:
            _line(f"{ranked.provider}, {len(ranked.trials)} trials: {', '.join(ranked.trials) or 'none'}", "dim")
    out.print()


def _ranking(decided: Decided) -> None:
    decision, standing = decided.decision, decided.standing
    several = len(decided.preference.workloads) > 1
    columns = [
        f"{words(c.metric)}{f' on {c.workload}' if several else ''}, weight {c.weight:.2g}{'' if c.valued == 'ratio to the best' else f' ({c.valued})'}"
        for c in decision.columns
    ]
    mark = "SIMULATED · " if standing.simulated else ""
    shown = table(
        f"{mark}Team {decision.team} · {decision.kind} · {' + '.join(decided.preference.workloads)} · as of {standing.day}",
        "rank", "provider", "P(first)", "score", *columns, f"USD/h, {standing.purchase.replace('_', '-')}", "campaign",
        right=("rank", "P(first)", "score"),
    )  # fmt: skip
    for row in rank_rows(decision):
        quote = decided.prices[row.provider]
        shares = row.shares or (None,) * len(row.values)
        values = [v if s is None else f"{v} ({s:.0f} %)" for v, s in zip(row.values, shares, strict=True)]
        campaigns = sorted({campaign for (provider, _), campaign in standing.campaigns.items() if provider == row.provider})
        price = f"{quote.basis.usd_per_hour:,.10g}" if quote.basis else "–"
        shown.add_row(row.place, row.provider, row.chance, row.score, *values, price, ", ".join(campaigns))
    out.print(shown)
    for row in rank_rows(decision):
        if row.why_not:
            _line(f"{row.provider} is not eligible: {'; '.join(row.why_not)}")
    for name, quote in decided.prices.items():
        if quote.basis is None:
            _line(f"{name}: {quote.reason}")


def _gates(decided: Decided) -> None:
    """Each gate with what it was judged on, provider by provider."""
    ranking = decided.decision.ranking
    for gates in zip(*(ranked.gates for ranked in ranking), strict=True):
        shown = scale(gates[0].unit, [gates[0].limit, *(g.value for g in gates)])
        told = [
            f"{ranked.provider} {'not measured' if g.value is None else shown.text(g.value)}{'' if g.passed else ' (fails)'}"
            for ranked, g in zip(ranking, gates, strict=True)
        ]
        on = f" on {gates[0].workload}" if len(decided.preference.workloads) > 1 else ""
        _line(f"Gate {gates[0].text}{on}: {', '.join(told)}")


def _changes(what: str, sentences: Sequence[str]) -> None:
    """What would change the first place, in the report's own sentences."""
    if sentences:
        _line(f"What another {what} would change:")
        for sentence in sentences:
            _line(f"  {sentence}")


def _cheapest(answer: Cheapest) -> None:
    asked = listed(answer.requirements) or "nothing is required"
    best = answer.answer
    if best is None:
        _line(f"The cheapest setup that meets the requirement of {answer.workload} ({asked}): {answer.note}")
    else:
        sure = certainty(best.probability_cheapest)
        _line(
            marked(
                "The cheapest setup that meets the requirement of {} ({}): [bold]{}[/]{}, {} {}",
                *(answer.workload, asked, best.provider, sure, words(answer.metric), _cost(answer, best)),
            )
        )
    for setup in answer.setups:
        if setup is not best:
            _line(f"  {setup.provider}: {_cost(answer, setup)}{'' if setup.meets else '; ' + '; '.join(setup.why_not)}")


def _cost(answer: Cheapest, setup: Setup) -> str:
    if setup.cost is None:
        return "cost unknown"
    shown = scale("USD", [s.cost for s in answer.setups], answer.metric, significant=4)
    between = ""
    if setup.low is not None and setup.high is not None and setup.coverage is not None:
        between = f" ({percent(setup.coverage)}: {shown.number(setup.low)} … {shown.number(setup.high)}, n = {setup.n})"
    return f"{shown.text(setup.cost)}{between}"


def _line(text: str | Text, style: str = "") -> None:
    out.print(text, style=style or None, highlight=False, soft_wrap=True)
