"""`plumbline cost trial|campaign|month|commitments|reconcile|invoices`: bills, line by line, sums by month, reserved hours and invoices."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Sequence
from datetime import datetime, time, timezone
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from plumbline.analysis.cost.bill import ITEMS, Bill, Item, Money
from plumbline.analysis.cost.campaign_bill import ProviderCost, outcome_costs, sum_costs
from plumbline.analysis.cost.commitments import USE
from plumbline.analysis.cost.unit_costs import Cost
from plumbline.analysis.prices.book import OTHER_GPUS_TEXT, share_of
from plumbline.answers.campaign_bill import campaign_bill
from plumbline.answers.commitments import contract_commitments
from plumbline.answers.spend import Spend, spend
from plumbline.cli.declared import Campaign, as_day, load_declared
from plumbline.cli.exit_status import DRIFTED, NOT_SHOWN
from plumbline.cli.output import TONES, Json, clear_errors, completed, emit, fail, fields_of, marked, out, read_archive, table
from plumbline.cli.tables import TOP, print_table
from plumbline.declarations import DeclarationError, load
from plumbline.declarations.providers.rates import Purchase
from plumbline.metrics.formatting import format_name, shorten, unknown_name
from plumbline.metrics.names import names_by_text
from plumbline.metrics.units import SECONDS, parse
from plumbline.presentation.commitments import commitment_table
from plumbline.presentation.costs import share_note
from plumbline.presentation.invoices import COLUMNS, COMPARE, difference_cells, invoice_cells, invoice_list, selection_text
from plumbline.presentation.spend import NOTE, spend_cells, spend_csv, spend_headings, spend_tiles
from plumbline.results import InvalidResult
from plumbline.words.commitments import commitment_data
from plumbline.words.costs import cost_data, formula_text, reason_text
from plumbline.workflows.compare_invoice import Selection, compare_invoice, record_invoice
from plumbline.workflows.report import newest_campaign


def lines_table(title: str | Text, bill: Bill) -> Table:
    """Every line of a bill, and its total."""
    numbers = ("quantity", "unit price", "cost")
    shown = table(title, "item", "what", *numbers, "basis", "since", "source", right=numbers)
    for column in shown.columns:
        column.no_wrap = column.header not in ("what", "source")
        column.min_width = 16 if column.header == "what" else None
    for n, line in enumerate(bill.lines, 1):
        cells = (format_name(line.item), line.what, line.quantity, line.unit_price, line.cost, line.basis, line.since or "–", line.source)
        shown.add_row(*map(str, cells), end_section=n == len(bill.lines))
    shown.add_row("total" if bill.complete else "at least", "", "", "", str(bill.total) if bill.total else "–", style="bold")
    return shown


def incomplete(bill: Bill) -> None:
    """Say which share of what is paid is the trials', and what is not on the bill because nobody can know it."""
    if note := share_note(bill):
        out.print(f"  {note}", style="dim")
    for each in bill.unknown:
        out.print(f"  {each.item.replace('_', ' ')} not known: {each.reason}", style="dim")


def as_data(bill: Bill) -> dict[str, Any]:
    """A bill for `--json`."""
    return {"lines": bill.lines, "by_item": bill.by_item(), **fields_of(bill, "total", "paid", "share", "complete", "unknown")}


cost = typer.Typer(help="Show what trials, campaigns and months cost, line by line.", no_args_is_help=True)

How = Annotated[Purchase, typer.Option("--purchase", help="how the instances are paid for")]
On = Annotated[str | None, typer.Option("--on", help="the day whose prices count, such as 2026-11-21; left out, the day of each trial")]


@cost.command()
def trial(
    trial_id: Annotated[str, typer.Argument(help="a trial of the archive", callback=completed("trial"))],
    purchase: How = "on_demand",
    on: On = None,
    as_json: Json = False,
) -> None:
    """What one trial cost: all its attempts, line by line, and what its outcomes cost at the rate that it measured."""
    day = as_day("--on", on)
    with clear_errors(DeclarationError, LookupError, InvalidResult), read_archive() as archive:
        document = archive.document(trial_id)
        if document is None:
            raise LookupError(f'the archive has no trial "{trial_id}"; `plumbline scorecard CAMPAIGN --json` names those of a campaign')
        declared = load()
        campaign_costs = campaign_bill(archive, declared, document.trial.campaign_id)
    bill = campaign_costs.bills(day, purchase)[trial_id].condensed()
    counts = (trial_id, document.trial.attempt) not in campaign_costs.rejected
    provider = campaign_costs.providers[document.trial.provider.name]
    outcomes = outcome_costs(document, provider, day, purchase, declared.economics) if counts else ()
    share = share_of(provider, document.trial.workload.gpus)
    caveats = [share.caveat] if share is not None and share.caveat else []

    def show() -> None:
        simulated = "  SIMULATED: not billed" if document.simulated else ""
        out.print(lines_table(marked("{}[yellow]{}[/]", trial_id, simulated), bill))
        incomplete(bill)
        out.print(_outcome_table(outcomes))
        if caveats:
            out.print(f"  unit costs: {OTHER_GPUS_TEXT}; {provider.name} sells whole instances")

    shown = {
        "trial_id": trial_id,
        "simulated": document.simulated,
        **as_data(bill),
        "outcomes": [cost_data(each) for each in outcomes],
        "caveats": caveats,
    }
    emit(as_json, shown, show)


@cost.command()
def campaign(
    campaign_id: Campaign = None,
    purchase: How = "on_demand",
    on: On = None,
    everything: Annotated[bool, typer.Option("--all", help="every provider instead of the first ten")] = False,
    as_json: Json = False,
) -> None:
    """What a campaign cost at each provider, training and inference apart, by item, with what came to nothing, and what a finished run cost with all of it."""
    day = as_day("--on", on)
    with clear_errors(DeclarationError, LookupError, InvalidResult), read_archive() as archive:
        name = campaign_id or newest_campaign(archive)
        costs = campaign_bill(archive, load(), name).by_provider(day, purchase)
    sums = sum_costs(costs)
    items = [item for item in ITEMS if any(p.bill.of(item) is not None for p in costs)]

    def show() -> None:
        headings = [*(item.replace("_", " ") for item in items), "paid", "share"]
        counts = ("trials", "finished", "lost")
        numbers = (*counts, *headings, "total", "per finished run")
        shown = table(f"Campaign {name}, USD", "provider", "kind", *numbers, right=numbers)
        for p in costs:
            shown.add_row(marked("{}[yellow]{}[/]", p.provider, " SIMULATED" if p.simulated else ""), p.kind, *_figures(p, items))
        print_table(
            shown, None if everything else TOP, sums=[(p.provider, "", *_figures(p, items)[:-1], "") for p in sums if len(costs) > 1]
        )
        if any(share_note(p.bill) for p in costs):
            out.print(f"  paid: whole instances while they are held; share: the trials' part, {OTHER_GPUS_TEXT}", style="dim")
        _gaps(costs)

    columns = ("provider", "kind", "simulated", "trials", "finished", "lost", "per_finished_run", "why_not")
    rows, totals = ([{**fields_of(p, *columns), **as_data(p.bill)} for p in group] for group in (costs, sums))
    emit(as_json, {"campaign": name, "providers": rows, "sums": totals}, show)


def _figures(cost: ProviderCost, items: Sequence[Item]) -> tuple[str, ...]:
    least = "" if cost.bill.complete else "≥ "
    return (
        *(str(n) for n in (cost.trials, cost.finished, cost.lost)),
        *(_amount(cost.bill.of(item)) for item in items),
        _amount(cost.bill.paid),
        _amount(cost.bill.share),
        *("–" if money is None else f"{least}{_amount(money)}" for money in (cost.bill.total, cost.per_finished_run)),
    )


def _gaps(costs: Sequence[ProviderCost]) -> None:
    """Costs that no bill has, a line for each reason that providers share."""
    unknown = [
        (p.provider, f"{format_name(each.item)} not known: {each.reason.removesuffix(f' for {p.provider}')}")
        for p in costs
        for each in p.bill.unknown
    ]
    without = [(p.label, f"no cost per finished run: {p.why_not}") for p in costs if p.why_not]
    for reason, names in names_by_text([*unknown, *without]).items():
        out.print(f"  {reason}: {shorten(names)}", style="dim")


def _outcome_table(outcomes: tuple[Cost, ...]) -> Any:
    # Costs of an instance rest on its price by the hour; those of a hosted model do not.
    by_the_hour = any(each.basis is not None for each in outcomes)
    title = "Outcomes, at the instance's price alone" if by_the_hour or all(each.value is None for each in outcomes) else "Outcomes"
    shown = table(title, "outcome", "cost", "from", right=("cost",))
    for each in outcomes:
        value = "–" if each.value is None else str(Money(each.value))
        shown.add_row(format_name(each.metric), value, formula_text(each) or reason_text(each.reason) or "")
    return shown if outcomes else "it finished no run: there are no outcomes"


def _amount(money: Money | None) -> str:
    return "–" if money is None else str(money).removesuffix(f" {money.currency}")


@cost.command()
def month(
    of: Annotated[str | None, typer.Option("--month", help="the month in the middle, such as 2026-11; this one if left out")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="as CSV with paid and share of each month")] = False,
    everything: Annotated[bool, typer.Option("--all", help="every row instead of the first ten")] = False,
    as_json: Json = False,
) -> None:
    """What was paid last month and this one so far, and the forecast of the next, by provider and workload, against budgets."""
    now = datetime.now(timezone.utc)
    if of is not None:
        try:
            now = datetime.strptime(of, "%Y-%m").replace(tzinfo=timezone.utc)
        except ValueError:
            fail(f'--month "{of}" is not a month; expected one such as 2026-11')
    with clear_errors(DeclarationError), read_archive(empty=True) as archive:
        found = spend(archive, load(), now)
    if as_csv:
        sys.stdout.write(spend_csv(found))
        return
    emit(as_json, found.view, lambda: _show(found, everything))


def _show(found: Spend, everything: bool) -> None:
    for tile in spend_tiles(found):
        out.print(f"{tile.name}: {tile.value}{f' ({tile.note})' if tile.note else ''}", style="bold", soft_wrap=True)
    numbers = spend_headings(found)
    shown = table("Spend, USD", "provider", "workload", *numbers, "forecast from", right=numbers)
    for row in found.rows:
        name = marked("{}[yellow]{}[/]", row.provider, " SIMULATED" if row.simulated else "")
        shown.add_row(name, row.workload, *spend_cells(row), row.times)
    print_table(shown, None if everything else TOP, sums=[(row.provider, "", *spend_cells(row)) for row in found.sums])
    for why in dict.fromkeys(row.why for row in found.rows if row.why):
        out.print(f"  without a price: {why}", style="dim")
    out.print(f"  {NOTE}", style="dim")
    for balance in found.balances:
        out.print(f"{balance.provider}: {balance}", style="yellow" if balance.exceeded else None)


@cost.command("commitments")
def show_commitments(
    on: Annotated[str | None, typer.Option("--on", help="the day that begins, such as 2026-11-21; now if left out")] = None,
    as_json: Json = False,
) -> None:
    """Reserved hours of contracts: used, unused and ahead, and the price below which renewing pays."""
    day = as_day("--on", on)
    with clear_errors(DeclarationError), read_archive(empty=True) as archive:
        now = datetime.now(timezone.utc) if day is None else datetime.combine(day, time(), timezone.utc)
        found = contract_commitments(archive, load(), now)

    def show() -> None:
        headings, *rows = commitment_table(found) or (("no contract that a provider names has a reserved price with committed",),)
        shown = table("", *headings, right=headings[4:10])
        for cells in rows:
            shown.add_row(*cells)
        out.print(shown, f"  {USE}")

    emit(as_json, {"commitments": [commitment_data(c) for c in found]}, show)


@cost.command()
def reconcile(
    invoice: Annotated[Path, typer.Argument(help="a CSV file with FOCUS 1.x columns")],
    provider: Annotated[
        list[str] | None, typer.Option("--provider", help="a declared provider; again for more; every one if left out")
    ] = None,
    slack: Annotated[str, typer.Option("--slack", help="how much longer than it is held an instance may be billed a trial")] = "15min",
    account: Annotated[
        str | None, typer.Option("--account", help="lines of this account alone (SubAccountId, SubAccountName, BillingAccountId)")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", metavar="KEY=VALUE", help="lines with this tag alone; again for more")] = None,
    resource: Annotated[str | None, typer.Option("--resource", help="lines of these resources alone, such as 'i-bench-*'")] = None,
    record: Annotated[bool, typer.Option("--record", help="keep the comparison, and open a finding for each difference")] = False,
    as_json: Json = False,
) -> None:
    """Compare an invoice with the hours that trials held and the accepted prices. Exit 4 with differences, 6 if no line or not the whole sum was compared."""
    with clear_errors(DeclarationError, ValueError), read_archive() as archive:
        declared, names = load(), provider or []
        if unknown := [name for name in names if name not in declared.providers]:
            fail(unknown_name("provider", unknown[0], declared.providers))
        selection = Selection.of(account, tag or (), resource)
        found = compare_invoice(archive, declared, invoice, names, parse(slack, SECONDS, "--slack: a duration", "15min") / 3600, selection)
        recorded = record_invoice(archive, declared, invoice.name, found, names, getpass.getuser()) if record else None

    def show() -> None:
        shown = table(
            f"{len(found.differences)} differences of {invoice.name}", "kind", "provider", "lines", "first line", "cost", "detail"
        )
        for each in found.differences:
            shown.add_row(format_name(each.kind), each.provider, str(each.count), str(each.line or "–"), f"{each.cost:,.2f}", each.detail)
        if found.differences:
            out.print(shown)
        out.print(f"{invoice.name}: {found.judgement.text}", style=TONES[found.judgement.tone], markup=False)
        if text := selection_text(found.selection, found.left_out):
            out.print(text, style="dim", markup=False)
        if recorded is not None and recorded.text:
            out.print(recorded.text, style="dim", markup=False)

    emit(as_json, {**found._asdict(), **({"opened": (), "known": ()} if recorded is None else recorded._asdict())}, show)
    if found.judgement.verdict != "met":
        raise typer.Exit(DRIFTED if found.judgement.verdict == "broken" else NOT_SHOWN)


@cost.command()
def invoices(as_json: Json = False) -> None:
    """Invoices whose comparison was kept (`reconcile --record`): what differs most first, what is not shown, what agrees."""
    with read_archive(listing=True, as_json=as_json) as archive:
        found = invoice_list(archive, load_declared())

    def show() -> None:
        if not found.invoices:
            out.print(f"no comparison of an invoice is kept; {COMPARE} compares one and keeps the result")
            return
        shown = table(
            "Compared invoices", "invoice", "period", "result", *(c.lower() for c in COLUMNS), right=tuple(c.lower() for c in COLUMNS)
        )
        for view in found.invoices:
            shown.add_row(view.file, view.period, Text(view.state, TONES[view.judgement.tone]), *invoice_cells(view))
        out.print(shown)
        for view in found.invoices:
            out.print(f"{view.file}: {view.judgement.text}", style=TONES[view.judgement.tone], markup=False)
            if view.selected:
                out.print(f"  {view.selected}", style="dim", markup=False)
            for line in view.differences:
                kind, provider, _, lines, detail = difference_cells(line)
                finding = f"; finding {line.finding_id} {line.state}" if line.finding_id else ""
                out.print(f"  {kind}, {provider}: {line.text}; {lines}; {detail}{finding}", style="dim")
        out.print(f"{found.summary}.")
        if found.without:
            out.print(f"no invoice that was compared bills {', '.join(found.without)}", style="dim")

    emit(as_json, found, show)
