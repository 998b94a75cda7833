"""`plumbline check`: validate the declarations, show pods and the cost of a month."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

import typer

from plumbline.analysis.cost.budget import SUMS, BudgetUse, sum_known
from plumbline.analysis.prices.book import share_of
from plumbline.answers.availability_histories import CHECK_KINDS
from plumbline.answers.provider_use import forecast_month
from plumbline.cli.exit_status import UNUSABLE
from plumbline.cli.output import Json, emit, err, fields_of, out, table
from plumbline.cli.tables import TOP, print_table
from plumbline.declarations import (
    AnyWorkload,
    DeclarationError,
    Declarations,
    Provider,
    load,
)
from plumbline.declarations.compatibility import never_run_on
from plumbline.declarations.data_places import data_of, describe
from plumbline.declarations.placeholders import Placeholder, find_placeholders
from plumbline.declarations.promises import never_shown
from plumbline.launch.launcher import PatchedField
from plumbline.launch.monthly_estimate import MonthlyEstimate, WorkloadEstimate, estimate_month, estimate_workload, measurement_gaps
from plumbline.launch.registry import launcher_for
from plumbline.metrics.formatting import format_amount, format_count
from plumbline.metrics.names import names_by_text

_LONG = 60


def patched_fields(declared: Declarations, providers: Sequence[Provider]) -> list[PatchedField]:
    """What providers' own patches change of a typical trial there, by provider."""
    now, patched = datetime.now(timezone.utc), sorted((p for p in providers if p.launcher.patched), key=lambda p: p.name)
    return [field for provider in patched for field in launcher_for(provider).patched_fields(declared, provider, now)]


def show_patched_fields(fields: list[PatchedField]) -> None:
    """Print the patched fields as a table; nothing without a patch."""
    if not fields:
        return
    shown = table("What pod_patch changes of a trial's pod", "provider", "field", "before", "after")
    for item in fields:
        after = _short(item.after) if item.known else "no field of a pod: Kubernetes would drop it"
        shown.add_row(item.provider, item.field, _short(item.before), after, style=None if item.known else "red")
    out.print(shown)


def _short(value: Any) -> str:
    text = "–" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _LONG else text[: _LONG - 1] + "…"


def show_defaults(declared: Declarations, shown: Collection[str]) -> None:
    """A line for each field that `defaults.yaml` gives, with those of the providers `shown` that take it."""
    taken = ((provider, field) for provider, fields in sorted(declared.from_defaults.items()) for field in fields if provider in shown)
    for field, providers in names_by_text(taken).items():
        out.print(f"launcher.{field} from defaults.yaml: {', '.join(providers)}")


_PLAIN = ("the whole node", "the endpoint")
"""Charges that need no line: the usual ones, for a whole node or endpoint."""


def check(
    config: Annotated[Path | None, typer.Option(help="folder of declarations; the installation's own if left out")] = None,
    everything: Annotated[bool, typer.Option("--all", help="also what runs only on demand, and disabled providers")] = False,
    as_json: Json = False,
) -> None:
    try:
        declared = load(config)
    except DeclarationError as error:
        invalid = error.problems

        def problems() -> None:
            for problem in invalid:
                err.print(str(problem), style="red")
            count = len(invalid)
            err.print(f"{format_count(count, 'problem')}; nothing was started")

        emit(as_json, {"ok": False, "problems": invalid}, problems)
        raise typer.Exit(UNUSABLE) from None
    today = datetime.now(timezone.utc).date()
    providers = sorted(declared.providers.values(), key=lambda p: (not p.enabled, p.name))
    monthly = {p.name: {w.name for w in declared.monthly_workloads(p)} for p in providers}
    months, conflicts = _archived(declared, providers)
    forecasts = {(m.provider, each.workload): each for m in months for each in m.scheduled}
    rows = [
        _row(p, w, forecasts.get((p.name, w.name)) or estimate_workload(p, w, today), w.name in monthly[p.name])
        for p in providers
        for w in declared.workloads_for(p)
    ]
    trusting = [(f"{n}: server", w.kind == "inference" and w.server.trust_remote_code) for n, w in sorted(declared.workloads.items())]
    trusting += [
        (f"{p.name}: launcher.serving", bool((s := getattr(p.launcher, "serving", None)) and s.trust_remote_code)) for p in providers
    ]
    remote_code = (
        f"{where}.trust_remote_code lets the engine run code of its checkpoint and of modules that its arguments name"
        for where, trusts in trusting
        if trusts
    )
    warnings = (*measurement_gaps(declared), *_never_shown(declared), *remote_code)
    # Kubernetes' client, which knows the fields, takes half a second to import.
    patched = patched_fields(declared, [p for p in providers if everything or as_json or p.enabled])
    examples = find_placeholders(declared)
    ok = all(field.known for field in patched) and not any(one.enabled for one in examples) and not conflicts

    def show() -> None:
        out.print(_verdict(declared, rows, ok), style="bold green" if ok else "bold red")
        show_patched_fields(patched)
        show_defaults(declared, {p.name for p in providers if everything or p.enabled})
        for one in examples:
            if one.enabled:
                err.print(str(one), style="red")
        for conflict in conflicts:
            err.print(conflict, style="red", markup=False)
        disabled = sorted({one.provider for one in examples if not one.enabled})
        _show(declared, rows, months, (*warnings, *_examples(examples, disabled, everything)), everything)

    emit(
        as_json,
        {
            "ok": ok,
            "would_run": rows,
            "months": [_month(m) for m in months],
            "month_sums": [
                {"sum": label, "trials": trials, "node_hours": hours, "usd": use.usd, "share": use.share, "unpriced": use.unpriced}
                for label, trials, hours, use in _sums(declared, months)
            ],
            "warnings": warnings,
            "placeholders": [asdict(one) for one in examples],
            "metric_conflicts": conflicts,
            "pod_patches": patched,
            "from_defaults": declared.from_defaults,
        },
        show,
    )
    if not ok:
        raise typer.Exit(UNUSABLE)


def _never_shown(declared: Declarations) -> list[str]:
    """Promises of enabled providers that the declared checks can never show kept."""
    found = []
    for provider in declared.enabled_providers():
        watches = {kind: watch for kind in CHECK_KINDS if (watch := provider.watch.of(kind)) is not None}
        texts = never_shown(provider.sla, {kind: watch.every for kind, watch in watches.items()})
        found += [f"{provider.name} promises {text} (watch in providers/{provider.name}.yaml)" for text in texts]
    return found


def _examples(examples: Sequence[Placeholder], providers: Sequence[str], everything: bool) -> list[str]:
    """Examples that disabled providers must replace before they are enabled: each field with `--all`, else how many there are."""
    if everything:
        return [str(one) for one in examples if not one.enabled]
    return [f"{len(providers)} disabled providers hold values of the examples; --all names them"] if providers else []


def _archived(declared: Declarations, providers: Sequence[Provider]) -> tuple[list[MonthlyEstimate], list[str]]:
    """Months with the times of archived trials, and metrics of containers that contradict the archive's; without an archive that answers, months
    from the declarations alone."""
    from sqlalchemy.exc import OperationalError

    from plumbline.archive import NoArchive, SchemaMismatch, open_archive

    now = datetime.now(timezone.utc)
    try:
        with open_archive(create=False) as archive:
            conflicts = [
                f"{workload.name}: {conflict}"
                for workload in declared.workloads.values()
                if workload.declared_metrics
                for conflict in archive.metric_conflicts({n: (m.unit, m.direction) for n, m in workload.declared_metrics.items()}).values()
            ]
            return [forecast_month(archive, declared, p, now) for p in providers], conflicts
    except (NoArchive, SchemaMismatch, OperationalError, ValueError):
        return [estimate_month(declared, p, now.date()) for p in providers], []


def _row(provider: Provider, workload: AnyWorkload, each: WorkloadEstimate, monthly: bool) -> dict[str, Any]:
    """A row of what a provider can run. `trials` and `node_hours` are a month's: 0 of what does not run monthly or not at all."""
    runs = monthly and provider.enabled
    share = share_of(provider, workload.gpus)
    return {
        "provider": provider.name,
        "enabled": provider.enabled,
        "launcher": provider.launcher.kind,
        "kind": workload.kind,
        "workload": workload.name,
        "version": workload.version,
        "slots": list(each.slots),
        "per_slot": each.per_slot,
        "trials": each.trials if runs else 0,
        **fields_of(each, "trial_s", "measured"),
        "node_hours": each.node_hours if runs else 0.0,
        "on_demand_only": not monthly,
        "servers": workload.replicas_on(provider.accelerator.count) if workload.serving is not None else None,
        "charged": _charged(provider, workload),
        "data": describe(data, provider) if (data := data_of(workload)) is not None else None,
        "reads_steps_from": workload.reads_steps_from,
        "caveats": [share.caveat] if share is not None and share.caveat else [],
        # What the archive has trials of was run here.
        "never_run_on": None if each.measured else never_run_on(workload, provider),
    }


def _charged(provider: Provider, workload: AnyWorkload) -> str:
    """The part of the instance that a trial is charged, in words."""
    if (share := share_of(provider, workload.gpus)) is not None:
        return str(share)
    if provider.launcher.hosted:
        return _PLAIN[1]
    servers = workload.replicas_on(provider.accelerator.count)
    return f"the whole node, {servers} servers at once" if servers > 1 else _PLAIN[0]


def _month(month: MonthlyEstimate) -> dict[str, Any]:
    """One provider's month; of a disabled provider what it would be."""
    counted = fields_of(month, "provider", "enabled", "trials", "node_hours")
    return {**counted, **fields_of(month.use, "usd", "share"), **fields_of(month, "price", "times")}


def _sums(declared: Declarations, months: Sequence[MonthlyEstimate]) -> list[tuple[str, int, float, BudgetUse]]:
    """(label, trials, node hours, use) of all enabled providers, what is simulated apart."""
    groups = [
        (label, [m for m in months if m.enabled and m.scheduled and declared.providers[m.provider].simulated is made_up])
        for label, made_up in SUMS
    ]
    return [
        (label, sum(m.trials for m in own), sum(m.node_hours for m in own), sum_known(m.use for m in own)) for label, own in groups if own
    ]


def _show(
    declared: Declarations, rows: list[dict[str, Any]], months: list[MonthlyEstimate], warnings: tuple[str, ...], everything: bool
) -> None:
    columns = ("provider", "launcher", "kind", "workload", "slots (UTC)", "repeats a slot", "trials", "node hours")
    shown = table("What a month measures", *columns, right=columns[-3:])
    listed = []
    for row in rows:
        why_not = "disabled" if not row["enabled"] else "on demand only" if row["on_demand_only"] else None
        if why_not is None or everything:
            shown.add_row(
                row["provider"],
                row["launcher"],
                row["kind"],
                f"{row['workload']} v{row['version']}",
                ", ".join(row["slots"]),
                str(row["per_slot"]),
                why_not or str(row["trials"]),
                "" if why_not else f"{row['node_hours']:.2f}",
                style="dim" if why_not else None,
            )
            listed.append(row)
    if shown.row_count:
        print_table(shown, None if everything else TOP)
    for part, workloads in sorted(names_by_text((row["workload"], row["charged"]) for row in listed).items()):
        if part not in _PLAIN:
            out.print(f"charged {part}: {', '.join(sorted(workloads))}")
    scripts = names_by_text((row["workload"], row["reads_steps_from"]) for row in rows if row["reads_steps_from"] is not None)
    for reading, workloads in sorted(scripts.items()):
        out.print(f"steps are read from {reading}: {', '.join(sorted(workloads))}", markup=False)
    for how, workloads in sorted(names_by_text((row["workload"], row["data"]) for row in rows if row["data"] is not None).items()):
        out.print(f"data is {how}: {', '.join(sorted(workloads))}", markup=False)
    untried = names_by_text((row["workload"], row["never_run_on"]) for row in listed if row["never_run_on"] is not None)
    for kinds, workloads in sorted(untried.items()):
        out.print(f"never run on this kind ({kinds}): {', '.join(sorted(workloads))}; look at the first trial with care", style="yellow")
    costs = table(
        "What a month comes to, paid", "provider", "trials", "node hours", "USD", "times", "price", right=("trials", "node hours", "USD")
    )
    for month in months:
        if month.enabled or everything:
            usd = "unknown" if month.use.usd is None else format_amount(month.use.usd)
            name = month.provider if month.enabled else f"{month.provider} (disabled)"
            costs.add_row(
                name, str(month.trials), f"{month.node_hours:.2f}", usd, month.times, month.price, style=None if month.enabled else "dim"
            )
    if costs.row_count:
        sums = [
            (label, str(trials), f"{hours:.2f}", f"{'≥ ' if use.unpriced else ''}{format_amount(use.usd or 0.0)}", "", "")
            for label, trials, hours, use in _sums(declared, months)
        ]
        print_table(costs, None if everything else TOP, sums=sums if costs.row_count > 1 else ())
    if not everything:
        out.print(_left_out(declared))
    for warning in warnings:
        out.print(f"warning: {warning}", style="yellow")
    idle = sorted(p.name for p in declared.providers.values() if not declared.workloads_for(p))
    if idle:
        out.print(f"no declared workload fits: {', '.join(idle)}")


def _verdict(declared: Declarations, rows: list[dict[str, Any]], ok: bool) -> str:
    teams = ", ".join(sorted(declared.teams)) or "none"
    total = sum(row["trials"] for row in rows)
    return (
        f"{len(declared.providers)} providers, {len(declared.workloads)} workloads, teams {teams}: "
        f"{'all right' if ok else 'not all right'}; {total:,} trials a month"
    )


def _left_out(declared: Declarations) -> str:
    monthly = {w.name for p in declared.enabled_providers() for w in declared.monthly_workloads(p)}
    rest, disabled = len(declared.workloads) - len(monthly), len(declared.providers) - len(declared.enabled_providers())
    return f"on demand: {rest} of {len(declared.workloads)} workloads; disabled: {disabled} of {len(declared.providers)} providers (--all lists them)"
