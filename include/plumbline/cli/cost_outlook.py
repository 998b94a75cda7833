"""`plumbline cost scenarios|tornado|spot|break-even`: what an outcome will cost, given what economics.yaml says of its use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import Annotated, Any, NoReturn

import typer
from rich.text import Text

from plumbline.cli.cost import How, as_day, as_purchase
from plumbline.cli.opening import open_archive
from plumbline.cli.output import FAILED, Json, clear_errors, emit, err, fail, marked, out, table
from plumbline.declarations import AnyWorkload, DeclarationError, Provider, load
from plumbline.declarations.economics import Economics
from plumbline.reports.charts_cost import DRIVERS, PARTS
from plumbline.reports.outlook import Outlook, outlook
from plumbline.reports.outlook_case import Missing, grouped
from plumbline.reports.outlook_hosted import hosted_outlook
from plumbline.reports.outlook_spot import spot_outlook
from plumbline.scorecards import TrialNumbers

Where = Annotated[str, typer.Argument(help="a provider of the archive, enabled or not", metavar="PROVIDER")]
What = Annotated[str, typer.Argument(help="a workload that was measured there", metavar="WORKLOAD")]
On = Annotated[str | None, typer.Option("--on", help="the day whose prices count, such as 2026-11-21; today if left out")]
Work = Annotated[str | None, typer.Option("--run", help="work of one run without interruptions, such as 500h; as declared if left out")]


@dataclass(frozen=True)
class _Asked:
    """The newest usable campaign of a provider and a workload, and all that its cost rests on."""

    provider: Provider
    workload: AnyWorkload
    trials: Sequence[TrialNumbers]
    economics: Economics
    day: date
    campaign: str
    simulated: bool

    @property
    def case(self) -> tuple[Provider, AnyWorkload, Sequence[TrialNumbers], Economics, date]:
        return self.provider, self.workload, self.trials, self.economics, self.day


def scenarios(provider: Where, workload: What, purchase: How = "on_demand", on: On = None, as_json: Json = False) -> None:
    """Best, expected and worst cost of an outcome, with what it is made of."""
    way, asked = as_purchase(purchase), _asked(provider, workload, on)
    found = outlook(*asked.case, way)
    told = _known(found, as_json, asked)
    points = told.scenarios
    assert points is not None

    def show() -> None:
        numbers = ("best", "expected", "worst")
        shown = table(_title(f"{told.outcome}, {workload} on {provider}, USD", asked), "", *numbers, right=numbers)
        for part, words in PARTS.items():
            values = [getattr(points, name).by_name()[part] for name in numbers]
            if any(value is not None for value in values):
                shown.add_row(words, *(_usd(v) for v in values), end_section=part == "engineering")
        shown.add_row("together", *(_usd(getattr(points, name).total) for name in numbers), style="bold")
        out.print(shown)
        _basis(told, asked)

    totals = {name: getattr(points, name).total for name in ("best", "expected", "worst")}
    emit(as_json, {**_as_data(asked, told), "scenarios": points, "totals": totals}, show)


def tornado(provider: Where, workload: What, purchase: How = "on_demand", on: On = None, as_json: Json = False) -> None:
    """What the cost of an outcome hangs on: each driver over its range, the widest first."""
    way, asked = as_purchase(purchase), _asked(provider, workload, on)
    found = outlook(*asked.case, way)
    told = _known(found, as_json, asked)
    spread = told.tornado
    assert spread is not None

    def show() -> None:
        numbers = ("low", "expected", "high", "USD at low", "USD at high", "moves it by")
        title = _title(f"{told.outcome}, {workload} on {provider}: {_usd(spread.expected)} USD as expected", asked)
        shown = table(title, "driver", *numbers, right=numbers)
        for bar in spread.bars:
            ends = (_driver(bar.driver, value) for value in (bar.range.low, bar.range.expected, bar.range.high))
            shown.add_row(DRIVERS[bar.driver], *ends, _usd(bar.at_low), _usd(bar.at_high), f"{bar.width / spread.expected:.1%}")
        out.print(shown if spread.bars else f"{told.outcome}: {_usd(spread.expected)} USD; nothing that it depends on has a range")
        _basis(told, asked)

    emit(as_json, {**_as_data(asked, told), "tornado": spread}, show)


def spot(provider: Where, workload: What, run: Work = None, on: On = None, as_json: Json = False) -> None:
    """A finished training run on spot against on demand, restarts and work done again included."""
    from plumbline.declarations.units import SECONDS, parse

    asked = _asked(provider, workload, on)
    with clear_errors(ValueError):
        work_s = None if run is None else parse(run, SECONDS, "--run: a duration", "500h")
    if work_s is not None and work_s <= 0:
        fail(f'--run "{run}" is no work; expected a duration such as 500h')
    found = spot_outlook(*asked.case, work_s)
    if found.cost is None:
        _nothing(found.reason, as_json, asked, found)
    cost, expected = found.cost, found.cost.expected

    def show() -> None:
        shown = table(_title(f"A finished run, {workload} on {provider}", asked), "", "on demand", "spot", right=("on demand", "spot"))
        shown.add_row("USD/h of all instances", _usd(found.on_demand_per_hour), _usd(found.spot_per_hour))
        hours = (("work", expected.work_s, expected.work_s), ("checkpoints", expected.checkpoint_s, expected.checkpoint_s))
        for words, quiet, disturbed in (*hours, ("restarting", 0.0, expected.restarting_s), ("done again", 0.0, expected.again_s)):
            shown.add_row(f"hours {words}", grouped(quiet / 3600), grouped(disturbed / 3600))
        shown.add_row("interruptions", "0", grouped(expected.interruptions), end_section=True)
        shown.add_row("USD", _usd(cost.on_demand), _usd(cost.spot), style="bold")
        out.print(shown)
        _say(
            f"spot saves {cost.saving:.1%}; {cost.why}",
            f"run: {found.run_basis}",
            f"restart: {found.restart_basis}",
            f"interruptions: {grouped(found.per_hour or 0.0)} an hour of the run ({found.rate.source if found.rate else ''})",
            *(f"price: {basis}" for basis in found.prices),
            f"trials of {asked.campaign}: {', '.join(found.trials)}",
        )
        _unknown(found.unknown)

    emit(as_json, {**_head(asked), "spot": found, "saving": cost.saving}, show)


def break_even(provider: Where, workload: What, purchase: How = "on_demand", on: On = None, as_json: Json = False) -> None:
    """From which utilisation and which monthly volume on a model of one's own is cheaper than a hosted one."""
    way, asked = as_purchase(purchase), _asked(provider, workload, on)
    found = hosted_outlook(*asked.case, way)
    if found.own is None:
        _nothing(found.reason, as_json, asked, found)

    def show() -> None:
        numbers = ("USD a request there", "USD a month there", "USD a month of one's own", "break-even volume", "break-even utilisation")
        shown = table(_title(f"One's own or hosted, {workload} on {provider}", asked), "hosted", *numbers, right=numbers)
        for each in found.against:
            volume, share = each.volume.value if each.volume else None, each.utilisation.value if each.utilisation else None
            cells = (_usd(each.per_request), _usd(each.hosted_monthly), _usd(each.own_monthly))
            shown.add_row(each.hosted.name, *cells, "–" if volume is None else f"{volume:,.0f}", "–" if share is None else f"{share:.1%}")
        out.print(shown)
        for each in found.against:
            _say(*(f"{each.hosted.name}: {even.sentence}" for even in (each.volume, each.utilisation) if even is not None))
            _say(f"{each.hosted.name}: {each.request or each.reason}; {each.hosted.source}, {each.hosted.since}")
        monthly = "not declared" if found.volume is None else f"{found.volume:,.0f} requests a month"
        _say(f"reckoned with: volume {monthly}, utilisation {found.expected:.0%}, rate {found.rate}", f"price: {found.price}")
        _unknown(found.unknown)

    emit(as_json, {**_head(asked), "break_even": found}, show)


def _asked(provider: str, workload: str, on: str | None) -> _Asked:
    from plumbline.reports.standing import standing

    day = as_day(on) or datetime.now(timezone.utc).date()
    with clear_errors(DeclarationError):
        declared = load()
    made_up = provider in declared.providers and declared.providers[provider].simulated
    with open_archive() as archive:
        now = standing(archive, declared, day, workloads=[workload], simulated=made_up)
    if (provider, workload) not in now.campaigns:
        gone = [each.reason for each in now.left_out if (each.provider, each.workload) == (provider, workload)]
        there = ", ".join(sorted(name for name, _ in now.campaigns))
        why = f": {gone[0]}" if gone else f"; it was measured on {there}" if there else ": no provider has a usable trial of it"
        fail(f"{workload} on {provider} has nothing to reckon with{why}")
    campaign = now.campaigns[provider, workload]
    return _Asked(
        now.providers[provider], now.workloads[workload], now.trials, declared.economics, day, campaign, provider in now.simulated
    )


def _known(found: Outlook, as_json: bool, asked: _Asked) -> Outlook:
    if found.model is None:
        _nothing(found.reason, as_json, asked, found)
    return found


def _nothing(reason: str | None, as_json: bool, asked: _Asked, found: Any) -> NoReturn:
    """There is no figure: say why and leave with 1."""
    emit(
        as_json, {**_head(asked), "reason": reason, "found": found}, lambda: err.print(reason, style="red", highlight=False, soft_wrap=True)
    )
    raise typer.Exit(FAILED)


def _head(asked: _Asked) -> dict[str, Any]:
    names = {"provider": asked.provider.name, "workload": asked.workload.name, "campaign": asked.campaign}
    return {**names, "simulated": asked.simulated, "on": asked.day}


def _as_data(asked: _Asked, found: Outlook) -> dict[str, Any]:
    told = ("metric", "what", "amount", "purchase", "model", "price", "rate", "sources", "trials")
    unknown = [{"what": m.what, "reason": m.reason, "remedy": m.remedy} for m in found.unknown]
    return {**_head(asked), **{name: getattr(found, name) for name in told}, "unknown": unknown}


def _basis(found: Outlook, asked: _Asked) -> None:
    _say(f"price: {found.price}", f"rate: {found.rate}; {len(found.trials)} trials of {asked.campaign}")
    _say(*(f"{what.replace('_', ' ')}: {source}" for what, source in found.sources if what != "price"))
    _unknown(found.unknown)


def _unknown(missing: Iterable[Missing]) -> None:
    for each in missing:
        out.print(f"  {each}", style="yellow", highlight=False, markup=False, soft_wrap=True)


def _say(*lines: str) -> None:
    for line in lines:
        out.print(f"  {line}", style="dim", highlight=False, markup=False, soft_wrap=True)


def _title(text: str, asked: _Asked) -> Text:
    return marked("{}[yellow]{}[/]", text, "  SIMULATED" if asked.simulated else "")


def _usd(value: float | None) -> str:
    """An amount of USD: to the cent, and with three digits below one."""
    return "–" if value is None else f"{value:,.2f}" if abs(value) >= 1 or value == 0 else f"{value:.3g}"


def _driver(driver: str, value: float) -> str:
    if driver in ("utilisation", "failure_rate"):
        return f"{100 * value:.3g} %"
    return f"{grouped(value)}/s" if driver == "rate" else f"{grouped(value)} USD{'/h' if driver == 'price' else ' a month'}"
