"""`plumbline cost`: what trials and campaigns cost, line by line; what plans would has a file of its own."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

import typer

from plumbline.cli.cost_planned import plan
from plumbline.cli.cost_show import as_data, incomplete, lines_table
from plumbline.cli.opening import open_archive
from plumbline.cli.output import Json, clear_errors, emit, fail, marked, out, table
from plumbline.declarations import DeclarationError, load
from plumbline.declarations.purchases import Purchase
from plumbline.prices import ITEMS, Cost, Money
from plumbline.prices.book import OTHER_GPUS_TEXT, share_of
from plumbline.results import BadResult

cost = typer.Typer(help="What trials, campaigns and plans cost, line by line.", no_args_is_help=True)

How = Annotated[str, typer.Option("--purchase", help="how the instances are paid for: on_demand, spot or reserved")]
On = Annotated[str | None, typer.Option("--on", help="the day whose prices count, such as 2026-11-21; left out, the day of each trial")]


@cost.callback()
def group() -> None:
    """What trials, campaigns and plans cost, line by line."""


cost.command()(plan)


@cost.command()
def trial(
    trial_id: Annotated[str, typer.Argument(help="a trial of the archive")],
    purchase: How = "on_demand",
    on: On = None,
    as_json: Json = False,
) -> None:
    """What one trial cost: all its attempts, line by line, and what its outcomes cost at the rate that it measured."""
    from plumbline.reports.bills import outcome_costs
    from plumbline.reports.paid import paid

    way, day = as_purchase(purchase), as_day(on)
    with clear_errors(DeclarationError, LookupError, BadResult), open_archive() as archive:
        document = archive.document(trial_id)
        if document is None:
            raise LookupError(f'the archive has no trial "{trial_id}"; `plumbline scorecard CAMPAIGN` names those of a campaign')
        found = paid(archive, load(), document.trial.campaign_id)
    bill = found.bills(day, way)[trial_id].condensed()
    counts = (trial_id, document.trial.attempt) not in found.rejected
    provider = found.providers[document.trial.provider.name]
    outcomes = outcome_costs(document, provider, day, way) if counts else ()
    share = share_of(provider, document.trial.workload.gpus)
    caveats = [share.caveat] if share is not None and share.caveat else []

    def show() -> None:
        simulated = "  SIMULATED: nobody paid this" if document.simulated else ""
        out.print(lines_table(marked("{}[yellow]{}[/]", trial_id, simulated), bill))
        incomplete(bill)
        out.print(_outcome_table(outcomes))
        if caveats:
            out.print(f"  every cost {OTHER_GPUS_TEXT}: {provider.name} sells whole instances", highlight=False)

    shown = {"trial_id": trial_id, "simulated": document.simulated, **as_data(bill), "outcomes": outcomes, "caveats": caveats}
    emit(as_json, shown, show)


@cost.command()
def campaign(
    campaign_id: Annotated[str | None, typer.Argument(help="campaign id; the newest one if left out")] = None,
    purchase: How = "on_demand",
    on: On = None,
    as_json: Json = False,
) -> None:
    """What a campaign cost at each provider, training and inference apart, by item, with what came to nothing, and what a finished run cost with all of it."""
    from plumbline.orchestration.reporting import newest
    from plumbline.reports.paid import paid

    way, day = as_purchase(purchase), as_day(on)
    with clear_errors(DeclarationError, LookupError, BadResult), open_archive() as archive:
        name = campaign_id or newest(archive)
        found = paid(archive, load(), name).by_provider(day, way)
    items = [item for item in ITEMS if any(p.bill.of(item) is not None for p in found)]

    def show() -> None:
        headings = [item.replace("_", " ") for item in items]
        counts = ("trials", "finished", "lost")
        numbers = (*counts, *headings, "total", "per finished run")
        shown = table(f"Campaign {name}, USD", "provider", "kind", *numbers, right=numbers)
        for p in found:
            least = "" if p.bill.complete else "≥ "
            shown.add_row(
                marked("{}[yellow]{}[/]", p.provider, " SIMULATED" if p.simulated else ""),
                p.kind,
                *(str(n) for n in (p.trials, p.finished, p.lost)),
                *(_amount(p.bill.of(item)) for item in items),
                *("–" if money is None else f"{least}{_amount(money)}" for money in (p.bill.total, p.per_finished_run)),
            )
        out.print(shown)
        for p in found:
            incomplete(p.bill, f"{p.label}: ")
            if p.why_not:
                out.print(f"  {p.label}: no cost per finished run: {p.why_not}", highlight=False, markup=False, soft_wrap=True)

    rows = [
        {
            "provider": p.provider,
            "kind": p.kind,
            "simulated": p.simulated,
            "trials": p.trials,
            "finished": p.finished,
            "lost": p.lost,
            "per_finished_run": p.per_finished_run,
            "why_not": p.why_not,
            **as_data(p.bill),
        }
        for p in found
    ]
    emit(as_json, {"campaign": name, "providers": rows}, show)


def _outcome_table(outcomes: tuple[Cost, ...]) -> Any:
    from plumbline.reports.figures import words

    shown = table("Outcomes, at the instance's price alone", "outcome", "cost", "from", right=("cost",))
    for each in outcomes:
        value = "–" if each.value is None else str(Money(each.value))
        shown.add_row(words(each.metric), value, each.formula or each.reason or "")
    return shown if outcomes else "it finished no run: there are no outcomes"


def _amount(money: Money | None) -> str:
    return "–" if money is None else str(money).removesuffix(f" {money.currency}")


def as_purchase(given: str) -> Purchase:
    ways: dict[str, Purchase] = {"on_demand": "on_demand", "spot": "spot", "reserved": "reserved"}
    if given not in ways:
        fail(f'--purchase "{given}" is not known; expected one of {", ".join(ways)}')
    return ways[given]


def as_day(given: str | None) -> date | None:
    try:
        return None if given is None else date.fromisoformat(given)
    except ValueError:
        fail(f'--on "{given}" is not a day; expected one such as 2026-11-21')
