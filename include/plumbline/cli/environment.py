"""`plumbline watch`: check providers' environment, prices, uptime and capacity now."""

from __future__ import annotations

import logging
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Annotated, Any

import typer

from plumbline.analysis.prices.check import PriceVerdict
from plumbline.answers.availability_histories import CHECK_KINDS, availability_histories
from plumbline.cli.declared import declared_providers, load_declared
from plumbline.cli.exit_status import DRIFTED, FAILED, OK
from plumbline.cli.output import Json, clear_errors, emit, err, fail, marked, out, read_archive, table
from plumbline.declarations import Provider
from plumbline.embedded.connections import provide_connections
from plumbline.findings.probe import ProbeVerdict
from plumbline.findings.types.price_change import format_price_name
from plumbline.launch.failures import ApiRefused, TrialFailure
from plumbline.launch.plan import PlanError
from plumbline.metrics.formatting import format_count, format_money_change
from plumbline.metrics.time_spans import month_end
from plumbline.presentation.availability import availability_summary, fleet_month, watched
from plumbline.words.prices import verdict_data, verdict_reason
from plumbline.workflows.check_availability import CheckResult, check
from plumbline.workflows.check_provider import FIRST_CHECK, EnvironmentCheck, check_environment
from plumbline.workflows.pending_changes import monitored_providers
from plumbline.workflows.probe import ProbeReport, probe_provider
from plumbline.workflows.read_prices import PriceCheckResult, read_provider_prices
from plumbline.workflows.rehearse import months_of


@dataclass
class _ProviderReport:
    """The findings about one provider; a part is None if `failures` say why it is unknown."""

    provider: str
    looked: EnvironmentCheck | None = None
    priced: PriceCheckResult | None = None
    probed: ProbeReport | None = None
    checked: tuple[CheckResult, ...] = ()
    failures: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        priced = any(check.status in ("changed", "held") for check in self.priced.checks) if self.priced else False
        missed = any(one.observation is not None and one.observation.cause is not None for one in self.checked)
        return bool(self.looked and self.looked.changes) or bool(self.probed and (self.probed.changes or self.slow)) or priced or missed

    @property
    def view(self) -> dict[str, Any]:
        """The report for JSON, with the reasons of its prices in words."""
        priced = self.priced and {**vars(self.priced), "checks": [verdict_data(check) for check in self.priced.checks]}
        return {**vars(self), "priced": priced}

    @property
    def slow(self) -> list[ProbeVerdict]:
        """Figures that a probe found slower than usual."""
        return [figure for figure in (self.probed.figures if self.probed else ()) if figure.slow]


def watch(
    providers: Annotated[
        list[str] | None, typer.Argument(metavar="[PROVIDER]…", help="declared providers, enabled or not; left out, every watched one")
    ] = None,
    probe: Annotated[
        bool, typer.Option("--probe", help="also measure their arithmetic and memory from inside: two minutes of one GPU at most")
    ] = False,
    facts: Annotated[bool, typer.Option("--facts", help="show everything that was seen, not only what changed")] = False,
    as_json: Json = False,
) -> None:
    """Check environment, prices, and declared uptime and capacity of providers now; store changes as findings.

    Nothing runs on a GPU but with --probe, and nothing is started: `provider_watch` starts the rerun of what changed, also of what was seen here first.
    Exit code 4 if something differs from what was accepted, 1 if something could not be looked at; the others are shown all the same.
    """
    chosen = _chosen(providers)
    adopt_connections(chosen)
    reports = [_check(place, probe) for place in chosen]

    def show() -> None:
        for one in reports:
            _show(one, facts)

    emit(as_json, [one.view for one in reports], show)
    raise typer.Exit(FAILED if any(s.failures for s in reports) else DRIFTED if any(s.changed for s in reports) else OK)


def show_availability(
    provider: Annotated[
        str | None, typer.Argument(help="a declared provider with watch.uptime or watch.capacity; all that are watched if none is named")
    ] = None,
    month: Annotated[str | None, typer.Option("--month", metavar="YYYY-MM", help="this month if left out")] = None,
    as_json: Json = False,
) -> None:
    """Show a month's availability and outages of a provider, from the checks of `availability_watch` and `plumbline watch`."""
    declared = load_declared()
    places = watched(declared.providers.values()) if provider is None else declared_providers(declared, [provider])
    now = datetime.now(timezone.utc)
    with clear_errors(PlanError):
        until = month_end(months_of(month, now)[-1], now) if month else now
    with read_archive(empty=True) as archive:
        found = fleet_month(until, [(one, availability_histories(archive, one, until, 1, hours=provider is not None)) for one in places])
    if not any(one.watches for one in found.providers):
        fail(
            f"{provider or 'no provider'} declares {'no ' if provider else ''}watch.uptime or watch.capacity; docs/availability.md shows how"
        )

    def show() -> None:
        if provider is None:
            out.print(availability_summary(found), style="bold", soft_wrap=True)
        for one in found.providers:
            if provider is None:
                out.print(one.provider, soft_wrap=True)
            for view in one.watches:
                mark = "SIMULATED " if one.simulated else ""
                out.print(f"{mark}{view.kind} in {view.months[0].text}", highlight=False, soft_wrap=True)
                for outage in view.outages:
                    _line(outage.text)

    emit(as_json, found if provider is None else list(found.providers[0].watches), show)


def _chosen(names: list[str] | None) -> list[Provider]:
    declared = load_declared()
    providers = declared_providers(declared, names) if names else monitored_providers(declared)
    if not providers:
        fail("no enabled provider is watched; name one, or set `enabled: true` (and leave watch.enabled true) in its declaration")
    return providers


def adopt_connections(places: list[Provider]) -> None:
    """Those that Airflow keeps of the clusters; one that is missing is told by the look that needs it."""
    connections = [name for p in places if p.launcher.runs_pods or p.watch.uptime is not None for name in p.launcher.connections[:1]]
    if connections:
        # Airflow sets up its log when it is first imported, on what is then standard output; that is for what was seen alone.
        with redirect_stdout(sys.stderr):
            import airflow.providers.cncf.kubernetes.hooks.kubernetes  # noqa: F401
        # It would also enable all loggers: each opening of the archive would be logged twice.
        logging.getLogger("alembic").setLevel(logging.WARNING)
        with clear_errors(RuntimeError):
            provide_connections(connections)


def _check(place: Provider, inside: bool) -> _ProviderReport:
    provider, report = place.name, _ProviderReport(place.name)
    try:
        report.looked = check_environment(provider)
    except (TrialFailure, ApiRefused) as error:
        report.failures.append(str(error))
    report.priced = read_provider_prices(provider)
    report.failures += report.priced.notes
    if inside:
        try:
            report.probed = probe_provider(provider)
        except (TrialFailure, ApiRefused, OSError) as error:
            report.failures.append(str(error))
    report.checked = tuple(check(provider, kind) for kind in CHECK_KINDS if place.watch.of(kind) is not None)
    return report


def _show(report: _ProviderReport, facts: bool) -> None:
    looked, priced = report.looked, report.priced
    nodes = "" if looked is None else f"{format_count(looked.nodes, 'node')}, "
    prices = f"{len(priced.checks) or 'no'} price{'s' * (len(priced.checks) != 1)}" if priced else "no prices"
    out.print(marked("[bold]{}[/]  [dim]{}{}[/]", report.provider, nodes, prices))
    for row in looked.changes if looked else ():
        novelty = "news" if looked and any(n["fact"] == row["fact"] for n in looked.news) else "known"
        _line(f"{row['fact']} {row['old']} → {row['new']}  ({novelty})")
    _show_probe(report)
    for one in report.checked:
        _line(one.text, style="yellow" if one.observation is None or one.observation.cause else None)
    if priced is not None:
        for check in (check for check in priced.checks if check.status != "unchanged"):
            _line(_price(check, priced.unit))
    for finding in dict.fromkeys(
        (
            *(f for one in report.checked for f in one.findings),
            *(looked.findings if looked else ()),
            *(report.probed.findings if report.probed else ()),
            *(priced.findings if priced else ()),
        )
    ):
        _line(f"plumbline findings show {finding}")
    moving = any(check.status == "seen_once" for check in priced.checks) if priced else False
    if looked is not None and looked.nodes and FIRST_CHECK not in looked.notes and not (report.changed or moving):
        _line("nothing changed")
    for note in looked.notes if looked else ():
        _line(note, style="yellow")
    for failure in report.failures:
        err.print(f"  {failure}", style="red")
    if facts and looked is not None and looked.facts:
        shown = table("", "fact", "value")
        for name, value in looked.facts.items():
            shown.add_row(name, value)
        out.print(shown)


def _show_probe(report: _ProviderReport) -> None:
    probed = report.probed
    if probed is None:
        return
    if probed.put_off is not None:
        _line(probed.put_off, style="yellow")
    known = {row["fact"] for row in report.looked.changes} if report.looked else set()
    for row in (row for row in probed.changes if row["fact"] not in known):
        _line(f"{row['fact']} {row['old']} → {row['new']}")
    for figure in probed.figures:
        _line(figure.text, style="red" if figure.slow else None)
    for note in probed.notes:
        _line(note, style="yellow")


def _price(check: PriceVerdict, unit: str) -> str:
    kind = format_price_name(check.reading.purchase, check.reading.term)
    why = f": {reason}" if (reason := verdict_reason(check)) else ""
    return f"{kind} price {format_money_change(check.accepted, check.price, f'USD per {unit}')}  ({check.status.replace('_', ' ')}{why})"


def _line(text: str, style: str | None = None) -> None:
    out.print(f"  {text}", style=style)
