"""`plumbline trigger` and `plumbline budget`: start benchmarks on demand in an Airflow that runs, and what providers may still be used for."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Annotated
from urllib.parse import quote

import typer

from plumbline.analysis.cost.budget import Balance, BudgetLimit, BudgetUse, sum_limits
from plumbline.answers.provider_use import budget_balance, forecast_month
from plumbline.cli.campaign import Kinds, Placed, Repeats, Workloads, load_declarations, run_request
from plumbline.cli.declared import declared_providers
from plumbline.cli.exit_status import FAILED
from plumbline.cli.output import Json, emit, fail, fields_of, out, planning_archive, read_archive, table
from plumbline.cli.tables import print_table
from plumbline.embedded import client
from plumbline.embedded.client import AirflowError, StartedRun
from plumbline.embedded.client import start_runs as start_all
from plumbline.launch.plan import PlanError, RunRequest
from plumbline.metrics.formatting import format_amount, format_count
from plumbline.workflows.budget import apply_budgets
from plumbline.workflows.plan import PlannedRun, RunsNotStarted, on_demand_campaign_id, plan_runs


def trigger(
    provider: Annotated[list[str], typer.Argument(help="one or more enabled providers")],
    reason: Annotated[str, typer.Option(help="required: why; it stays with every result")],
    workload: Workloads = None,
    kind: Kinds = None,
    repeats: Repeats = None,
    placement: Placed = "any",
    campaign: Annotated[str | None, typer.Option(help="campaign id; named by its time if left out")] = None,
    as_json: Json = False,
) -> None:
    declared = load_declarations()
    campaign_id = campaign or on_demand_campaign_id(datetime.now(timezone.utc))
    request = run_request(campaign_id, reason, workload, kind, repeats, placement)
    try:
        planned = plan_runs(declared, request, provider)
        with planning_archive() as archive:
            planned = apply_budgets(archive, declared, request, planned)
        airflow = client.connect()
    except (PlanError, RunsNotStarted, AirflowError) as error:
        fail(f"{error}\nnothing was started")
    address = client.airflow_address()
    with airflow:
        try:
            started = start_all(airflow, planned)
        except RunsNotStarted as error:
            fail(f"{error}\nnothing was started")
        except AirflowError as error:
            fail(str(error), FAILED)
    rows = [{"campaign": request.campaign_id, **_row(one, address)} for one in started]
    emit(as_json, rows, lambda: _show(request, started, address))


def budget(
    provider: Annotated[list[str] | None, typer.Argument(help="all that declare a budget if none is named")] = None, as_json: Json = False
) -> None:
    declared, now = load_declarations(), datetime.now(timezone.utc)
    for one in declared_providers(declared, provider or ()):
        if one.budget is None:
            fail(f"{one.name} declares no budget; `budget: {{usd_per_month: 5000}}` in its declaration sets one")
    limited = [p for name, p in sorted(declared.providers.items()) if p.budget is not None and (not provider or name in provider)]
    with read_archive(empty=True) as archive:
        balances = [(budget_balance(archive, p, now), forecast_month(archive, declared, p, now).use) for p in limited]
    sums = sum_limits(b for b, _ in balances)
    emit(as_json, {"budgets": [_figures(*one) for one in balances], "sums": sums}, lambda: _show_balances(balances, sums))


def _row(one: StartedRun, address: str) -> dict[str, object]:
    run = {**fields_of(one.start, "provider", "dag_id"), **fields_of(one, "run_id", "state", "waits_for")}
    return {**run, **fields_of(one.start, "trials", "left_out", "budget"), "url": _url(one, address)}


def _url(one: StartedRun, address: str) -> str:
    return f"{address}/dags/{one.start.dag_id}/runs/{quote(one.run_id, safe='')}"


def _show(request: RunRequest, started: list[StartedRun], address: str) -> None:
    out.print(f"campaign {request.campaign_id}: {request.reason}")
    for one in started:
        start = one.start
        out.print(f"  {start.provider}: {_trials(start)}{_waits(one)}")
        if start.budget is not None:
            out.print(f"      budget: {start.budget} after them, if they take as long as the last ones")
        out.print(f"      {_url(one, address)}")
    out.print(f"then: `plumbline scorecard {request.campaign_id}`, `plumbline findings`")


def _trials(start: PlannedRun) -> str:
    gone = f"; {start.left_out} more are left out: the budget does not carry them" if start.left_out else ""
    return f"{format_count(start.trials, 'trial')}{gone}"


def _waits(one: StartedRun) -> str:
    return f"; begins when run {one.waits_for} has ended" if one.waits_for else ""


def _figures(balance: Balance, rerun: BudgetUse) -> dict[str, object]:
    amounts = ("gpu_hours", "usd", "share")
    return {
        **fields_of(balance, "provider", "month"),
        **fields_of(balance.budget, "gpu_hours_per_month", "usd_per_month"),
        **{f"{name}_used": amount for name, amount in fields_of(balance.used, *amounts).items()},
        **fields_of(balance, "gpu_hours_left", "usd_left"),
        "unpriced": balance.used.unpriced or rerun.unpriced,
        **{f"rerun_{name}": amount for name, amount in fields_of(rerun, *amounts).items()},
    }


def _show_balances(balances: list[tuple[Balance, BudgetUse]], sums: tuple[BudgetLimit, ...]) -> None:
    if not balances:
        out.print("no provider declares a budget; `budget: {usd_per_month: 5000}` in a declaration sets one")
        return
    columns = ("a month", "used", "left", "a whole rerun")
    shown = table(f"Budgets of {balances[0][0].month} (UTC)", "provider", "limit", *columns, right=columns)
    for b, rerun in balances:
        for one in b.limits:
            whole = rerun.usd if one.unit == "USD" else rerun.gpu_hours
            shown.add_row(b.provider, one.unit, *map(format_amount, (one.limit, one.used, one.left, whole)))
    print_table(shown, sums=[("total", one.unit, *map(format_amount, (one.limit, one.used, one.left)), "") for one in sums])
    for b, rerun in balances:
        if why := b.used.unpriced or rerun.unpriced:
            out.print(f"{b.provider}: {why}")
        elif past := replace(b, used=rerun).exceeded:
            warning = f"{b.provider}: a whole monthly rerun is expected to take {past}: the budget will not carry it"
            out.print(warning, style="yellow")
