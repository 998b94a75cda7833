"""`plumbline cost scenarios|tornado|spot|break-even|precision`: the expected cost of an outcome."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.text import Text

from plumbline.analysis.cost.forecast import CostForecast, ForecastInputs, UnknownInput, cost_forecast
from plumbline.analysis.cost.hosted_forecast import hosted_forecast
from plumbline.analysis.cost.payment_options import PaymentOptions, payment_options
from plumbline.analysis.cost.precision import precision_levers
from plumbline.analysis.cost.spot_forecast import spot_forecast
from plumbline.analysis.trial_sample import TrialSample
from plumbline.answers.current_results import current_results
from plumbline.cli.cost import How, cost
from plumbline.cli.cost_plan import Lines, show_plan
from plumbline.cli.declared import as_day, known_provider, load_declared
from plumbline.cli.exit_status import FAILED
from plumbline.cli.output import Json, clear_errors, emit, err, fail, fields_of, marked, out, read_archive, table
from plumbline.declarations import AnyWorkload, Provider
from plumbline.declarations.economics import Economics
from plumbline.declarations.providers.rates import Purchase
from plumbline.metrics.formatting import format_amount, format_name, format_percent, format_significant, unknown_name
from plumbline.metrics.names import names_by_text
from plumbline.metrics.units import GROWTH, SECONDS, parse
from plumbline.presentation.charts.costs import DRIVERS, PARTS
from plumbline.presentation.cost_forecasts import way_sentences
from plumbline.words.costs import (
    break_even_text,
    fleet_text,
    forecast_data,
    format_driver,
    hosted_data,
    option_text,
    options_data,
    rate_text,
    reason_text,
    run_text,
    spot_data,
    spot_even_text,
    spot_reason,
)
from plumbline.words.precision import cost_text, lever_data, no_cost_text, quality_text, saving_text

Where = Annotated[str, typer.Argument(help="a provider of the archive, enabled or not", metavar="PROVIDER")]
What = Annotated[str, typer.Argument(help="a workload that was measured there", metavar="WORKLOAD")]
On = Annotated[str | None, typer.Option("--on", help="the day whose prices count, such as 2026-11-21; today if left out")]
Work = Annotated[str | None, typer.Option("--run", help="work of one run without interruptions, such as 500h; as declared if left out")]


@dataclass(frozen=True)
class _ForecastCase:
    """The newest usable campaign of a provider and a workload, and all that its cost rests on."""

    provider: Provider
    workload: AnyWorkload
    trials: Sequence[TrialSample]
    economics: Economics
    day: date
    campaign: str
    simulated: bool
    others: tuple[Provider, ...]

    @property
    def inputs(self) -> tuple[Provider, AnyWorkload, Sequence[TrialSample], Economics, date]:
        return self.provider, self.workload, self.trials, self.economics, self.day

    @property
    def head(self) -> dict[str, Any]:
        """What `--json` says of every case."""
        return {"provider": self.provider.name, "workload": self.workload.name, **fields_of(self, "campaign", "simulated"), "on": self.day}


@cost.command()
def scenarios(provider: Where, workload: What, purchase: How = "on_demand", on: On = None, as_json: Json = False) -> None:
    """Best, expected and worst cost of an outcome, with what it is made of."""
    case, complete = _cost_forecast(provider, workload, purchase, on, as_json)
    points = complete.scenarios
    assert points is not None

    def show() -> None:
        numbers = ("best", "expected", "worst")
        shown = table(_title(f"{complete.outcome}, {workload} on {provider}, USD", case.simulated), "", *numbers, right=numbers)
        for part, words in PARTS.items():
            values = [getattr(points, name).by_name()[part] for name in numbers]
            if any(value is not None for value in values):
                shown.add_row(words, *(format_amount(v) for v in values))
        shown.add_section()
        shown.add_row("together", *(format_amount(getattr(points, name).total) for name in numbers), style="bold")
        out.print(shown)
        _basis(complete, case)

    totals = {name: getattr(points, name).total for name in ("best", "expected", "worst")}
    emit(as_json, {**_as_data(case, complete), "scenarios": points, "totals": totals}, show)


@cost.command()
def tornado(provider: Where, workload: What, purchase: How = "on_demand", on: On = None, as_json: Json = False) -> None:
    """What the cost of an outcome hangs on: each driver over its range, the widest first."""
    case, complete = _cost_forecast(provider, workload, purchase, on, as_json)
    spread = complete.tornado
    assert spread is not None

    def show() -> None:
        numbers = ("low", "expected", "high", "USD at low", "USD at high", "moves it by")
        title = _title(f"{complete.outcome}, {workload} on {provider}: {format_amount(spread.expected)} USD as expected", case.simulated)
        shown = table(title, "driver", *numbers, right=numbers)
        for bar in spread.bars:
            ends = (format_driver(bar.driver, value) for value in (bar.range.low, bar.range.expected, bar.range.high))
            shown.add_row(
                DRIVERS[bar.driver],
                *ends,
                format_amount(bar.at_low),
                format_amount(bar.at_high),
                format_percent(bar.width / spread.expected, 1),
            )
        out.print(
            shown if spread.bars else f"{complete.outcome}: {format_amount(spread.expected)} USD; nothing that it depends on has a range"
        )
        _basis(complete, case)

    emit(as_json, {**_as_data(case, complete), "tornado": spread}, show)


@cost.command()
def spot(provider: Where, workload: What, run: Work = None, on: On = None, as_json: Json = False) -> None:
    """A finished training run on spot against on demand, restarts and work done again included."""
    case = _forecast_case(provider, workload, on)
    with clear_errors(ValueError):
        work_s = None if run is None else parse(run, SECONDS, "--run: a duration", "500h")
    if work_s is not None and work_s <= 0:
        fail(f'--run "{run}" is no work; expected a duration such as 500h')
    forecast = spot_forecast(*case.inputs, work_s)
    if forecast.cost is None:
        _exit_without_figure(spot_reason(forecast), as_json, case, spot_data(forecast))
    cost, expected = forecast.cost, forecast.cost.expected

    def show() -> None:
        shown = table(
            _title(f"A finished run, {workload} on {provider}", case.simulated), "", "on demand", "spot", right=("on demand", "spot")
        )
        shown.add_row("USD/h of all instances", format_amount(forecast.on_demand_per_hour), format_amount(forecast.spot_per_hour))
        hours = (("work", expected.work_s, expected.work_s), ("checkpoints", expected.checkpoint_s, expected.checkpoint_s))
        for words, quiet, disturbed in (*hours, ("restarting", 0.0, expected.restarting_s), ("done again", 0.0, expected.again_s)):
            shown.add_row(f"hours {words}", format_significant(quiet / 3600), format_significant(disturbed / 3600))
        shown.add_row("interruptions", "0", format_significant(expected.interruptions), end_section=True)
        shown.add_row("USD", format_amount(cost.on_demand), format_amount(cost.spot), style="bold")
        out.print(shown)
        _print_notes(
            f"spot saves {format_percent(cost.saving, 1)}; {spot_even_text(cost.why)}",
            f"run: {run_text(forecast.work)}",
            f"restart: {forecast.restart_basis}",
            f"interruptions: {format_significant(forecast.per_hour or 0.0)} an hour of the run ({forecast.rate.source if forecast.rate else ''})",
            *(f"price: {basis}" for basis in forecast.prices),
            f"trials of {case.campaign}: {', '.join(forecast.trials)}",
        )
        _unknown(forecast.unknown)

    emit(as_json, {**case.head, "spot": spot_data(forecast), "saving": cost.saving}, show)


@cost.command("break-even")
def break_even(
    provider: Annotated[str | None, typer.Argument(help="a provider of the archive, enabled or not", metavar="PROVIDER")] = None,
    workload: Annotated[str | None, typer.Argument(help="a workload that was measured there", metavar="WORKLOAD")] = None,
    purchase: How = "on_demand",
    on: On = None,
    growth: Annotated[str | None, typer.Option("--growth", help="of the volume, such as 5%/month; as declared if left out")] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", help="instead of PROVIDER WORKLOAD, a file of options, each a list of lines")
    ] = None,
    line: Lines = None,
    as_json: Json = False,
) -> None:
    """Own or hosted by utilisation and volume; every way to pay by utilisation, and over twelve months; or a plan's options."""
    if plan is not None or line:
        if provider is not None:
            fail("expected PROVIDER WORKLOAD, --plan or --line, and one of them only")
        if growth is not None or purchase != "on_demand":
            fail("--growth and --purchase are of PROVIDER WORKLOAD; a plan's lines name quantity, price and how they are paid")
        show_plan(plan, line or (), as_json, as_day("--on", on))
        return
    if provider is None or workload is None:
        fail("expected PROVIDER and WORKLOAD, or --plan with a file of options, or --line")
    with clear_errors(ValueError):
        rise = None if growth is None else parse(growth, GROWTH, "--growth: a growth", "5%/month")
    case = _forecast_case(provider, workload, on)
    forecast = hosted_forecast(*case.inputs, purchase)
    ways = payment_options(ForecastInputs(*case.inputs), case.others, rise)
    if forecast.own is None and isinstance(ways, str):
        _exit_without_figure(forecast.reason, as_json, case, hosted_data(forecast))

    def show() -> None:
        if forecast.own is not None:
            show_hosted()
        if not isinstance(ways, str):
            _show_ways(ways, _title(f"Ways to pay, {workload} on {provider}", case.simulated))

    def show_hosted() -> None:
        numbers = ("USD a request there", "USD a month there", "USD a month of one's own", "break-even volume", "break-even utilisation")
        shown = table(_title(f"One's own or hosted, {workload} on {provider}", case.simulated), "hosted", *numbers, right=numbers)
        for each in forecast.against:
            volume, share = each.volume.value if each.volume else None, each.utilisation.value if each.utilisation else None
            cells = (format_amount(each.per_request), format_amount(each.hosted_monthly), format_amount(each.own_monthly))
            shown.add_row(
                each.hosted.name, *cells, "–" if volume is None else f"{volume:,.0f}", "–" if share is None else format_percent(share, 1)
            )
        out.print(shown)
        for each in forecast.against:
            _print_notes(*(f"{each.hosted.name}: {break_even_text(even)}" for even in (each.volume, each.utilisation) if even is not None))
            _print_notes(f"{each.hosted.name}: {each.request or each.reason}; {each.hosted.source}, {each.hosted.since}")
        monthly = "not declared" if forecast.volume is None else f"{forecast.volume:,.0f} requests a month"
        _print_notes(
            f"inputs: volume {monthly}, utilisation {format_percent(forecast.expected)}, rate {rate_text(forecast.rate)}",
            f"price: {forecast.price}",
        )
        _unknown(forecast.unknown)

    data = {"reason": ways} if isinstance(ways, str) else {**options_data(ways), "totals": ways.totals}
    emit(as_json, {**case.head, "break_even": hosted_data(forecast), "ways": data}, show)


@cost.command("plan", hidden=True)
def show_plan_as_before(
    file: Annotated[Path | None, typer.Argument(help="a plan's YAML file")] = None, line: Lines = None, as_json: Json = False
) -> None:
    """The same as `plumbline cost break-even --plan FILE`, or with --line."""
    show_plan(file, line or (), as_json)


def _show_ways(ways: PaymentOptions, title: Text) -> None:
    names = [option.name for option in ways.options]
    shown = table(title, "month", "requests", *names, "cheapest", right=("requests", *names))
    for n, month in enumerate(ways.months, 1):
        cells = [
            f"{format_amount(usd)}{f' ({fleet.bought:.3g})' if fleet else ''}" for usd, fleet in zip(month.costs, month.fleets, strict=True)
        ]
        shown.add_row(str(n), f"{month.volume:,.0f}", *cells, names[month.costs.index(min(month.costs))])
    if ways.months:
        best = names[ways.totals.index(min(ways.totals))]
        shown.add_row("USD", "", *(format_amount(usd) for usd in ways.totals), best, style="bold")
        out.print(shown)
        _print_notes(f"growth {format_percent(ways.growth)} a month; in brackets the instances that are paid; {way_sentences(ways)[1]}")
    _print_notes(way_sentences(ways)[0], *(f"{o.name}: {option_text(o)}" for o in ways.options), *ways.left_out)


def _forecast_case(provider: str, workload: str, on: str | None) -> _ForecastCase:
    day = as_day("--on", on) or datetime.now(timezone.utc).date()
    declared = load_declared()
    made_up = provider in declared.providers and declared.providers[provider].simulated
    with read_archive() as archive:
        now = current_results(archive, declared, day, workloads=[workload], simulated=made_up)
        if not now.campaigns:
            known_provider(provider, declared, archive)
    if (provider, workload) not in now.campaigns:
        if not now.campaigns and workload not in declared.workloads:
            fail(unknown_name("workload", workload, declared.workloads))
        gone = [each.reason for each in now.left_out if (each.provider, each.workload) == (provider, workload)]
        there = ", ".join(sorted(name for name, _ in now.campaigns))
        why = f": {gone[0]}" if gone else f"; it was measured on {there}" if there else ": no provider has a usable trial of it"
        fail(f"{workload} on {provider} has no results to compute with{why}")
    campaign = now.campaigns[provider, workload]
    here = now.providers[provider], now.workloads[workload], now.trials, declared.economics, day, campaign
    return _ForecastCase(*here, provider in now.simulated, tuple(now.providers.values()))


def _cost_forecast(provider: str, workload: str, purchase: Purchase, on: str | None, as_json: bool) -> tuple[_ForecastCase, CostForecast]:
    """The case and its forecast; without a figure says why and leaves with 1."""
    case = _forecast_case(provider, workload, on)
    forecast = cost_forecast(*case.inputs, purchase)
    if forecast.model is None:
        _exit_without_figure(reason_text(forecast.reason), as_json, case, forecast_data(forecast))
    return case, forecast


def _exit_without_figure(reason: str | None, as_json: bool, case: _ForecastCase, forecast: Any) -> NoReturn:
    """There is no figure: say why and leave with 1."""
    emit(as_json, {**case.head, "reason": reason, "found": forecast}, lambda: err.print(reason, style="red"))
    raise typer.Exit(FAILED)


def _as_data(case: _ForecastCase, forecast: CostForecast) -> dict[str, Any]:
    numbers = fields_of(forecast, "metric", "what", "amount", "purchase", "model", "price", "rate", "sources", "trials", "fleet")
    return {
        **case.head,
        **numbers,
        "rate": rate_text(forecast.rate),
        "unknown": [fields_of(m, "what", "reason", "remedy") for m in forecast.unknown],
    }


def _basis(forecast: CostForecast, case: _ForecastCase) -> None:
    _print_notes(f"price: {forecast.price}", f"rate: {rate_text(forecast.rate)}; {len(forecast.trials)} trials of {case.campaign}")
    if forecast.fleet is not None:
        _print_notes(fleet_text(forecast.fleet))
    by_source = names_by_text((format_name(what), source) for what, source in forecast.sources if what != "price")
    _print_notes(*(f"{', '.join(what)}: {source}" for source, what in by_source.items()))
    _unknown(forecast.unknown)


def _unknown(missing: Iterable[UnknownInput]) -> None:
    for each in missing:
        out.print(f"  {each}", style="yellow")


def _print_notes(*lines: str) -> None:
    for line in lines:
        out.print(f"  {line}", style="dim")


def _title(text: str, simulated: bool) -> Text:
    return marked("{}[yellow]{}[/]", text, "  SIMULATED" if simulated else "")


@cost.command()
def precision(
    provider: Annotated[str | None, typer.Argument(help="a provider of the archive; every one if left out")] = None,
    purchase: How = "on_demand",
    on: On = None,
    as_json: Json = False,
) -> None:
    """What an outcome costs in each precision of one model, with the measured difference in quality beside it."""
    day, declared = as_day("--on", on) or datetime.now(timezone.utc).date(), load_declared()
    made_up = provider in declared.providers and declared.providers[provider].simulated
    with read_archive(listing=True, as_json=as_json) as archive:
        if provider is not None:
            known_provider(provider, declared, archive)
        now = current_results(archive, declared, day, purchase=purchase, simulated=made_up)
    levers = [each for each in precision_levers(now.trials, now.workloads) if provider in (None, each.provider)]

    def show() -> None:
        for each in levers:
            title = _title(f"{each.outcome}, {each.rows[0].workload} on {each.provider}, {each.load}", each.provider in now.simulated)
            shown = table(title, "precision", "workload", "cost", "saves", "quality", right=("cost", "saves"))
            for row in each.rows:
                shown.add_row(
                    row.precision, f"{row.workload} v{row.version}", cost_text(each, row), saving_text(each, row), quality_text(each, row)
                )
            out.print(shown)
            for row in each.rows:
                if why := no_cost_text(each, row):
                    out.print(f"  {row.precision}: {why}", style="dim")
        if not levers:
            who = f"no campaign of {provider}" if provider else "no provider's campaigns"
            out.print(f"{who} ran two precisions of one model; chat-limits-cpu and chat-limits-int8-cpu are such a pair")

    emit(as_json, {"on": day, "simulated": sorted(now.simulated), "levers": [lever_data(each) for each in levers]}, show)
