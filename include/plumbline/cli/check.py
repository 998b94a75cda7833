"""`plumbline check`: are the declarations right, and what would run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from plumbline.cli.check_pods import patched_fields, show_defaults, show_patched_fields
from plumbline.cli.output import UNUSABLE, Json, emit, err, out, table
from plumbline.declarations import DeclarationError, Declarations, load


def check(
    config: Annotated[Path | None, typer.Option(help="folder of declarations; the installation's own if left out")] = None,
    as_json: Json = False,
) -> None:
    """Check every declaration and show what a monthly rerun would run; nothing starts."""
    try:
        declared = load(config)
    except DeclarationError as error:
        found = error.problems

        def problems() -> None:
            for problem in found:
                err.print(str(problem), style="red", highlight=False, markup=False, soft_wrap=True)
            count = len(found)
            err.print(f"{count} problem{'s' if count != 1 else ''}; nothing was started", highlight=False)

        emit(as_json, {"ok": False, "problems": found}, problems)
        raise typer.Exit(UNUSABLE) from None
    rows = _rows(declared)
    patched = patched_fields(declared)
    ok = all(field.known for field in patched)

    def everything() -> None:
        _show(declared, rows)
        show_defaults(declared)
        show_patched_fields(patched)

    emit(as_json, {"ok": ok, "would_run": rows, "pod_patches": patched, "from_defaults": declared.from_defaults}, everything)
    if not ok:
        raise typer.Exit(UNUSABLE)


def _rows(declared: Declarations) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for provider in sorted(declared.providers.values(), key=lambda p: (not p.enabled, p.name)):
        for workload in declared.workloads_for(provider):
            slots = provider.slots or workload.repeats.slots
            on_demand = workload.on_demand_only
            rows.append(
                {
                    "provider": provider.name,
                    "enabled": provider.enabled,
                    "launcher": provider.launcher.kind,
                    "kind": workload.kind,
                    "workload": workload.name,
                    "version": workload.version,
                    "slots": list(slots),
                    "per_slot": workload.repeats.per_slot,
                    "trials": 0 if on_demand or not provider.enabled else len(slots) * workload.repeats.per_slot,
                    "on_demand_only": on_demand,
                }
            )
    return rows


def _show(declared: Declarations, rows: list[dict[str, object]]) -> None:
    columns = ("provider", "launcher", "kind", "workload", "slots (UTC)", "repeats a slot", "trials")
    shown = table("What a monthly rerun would run", *columns, right=("repeats a slot", "trials"))
    for row in rows:
        why_not = "disabled" if not row["enabled"] else "on demand only" if row["on_demand_only"] else None
        shown.add_row(
            str(row["provider"]),
            str(row["launcher"]),
            str(row["kind"]),
            f"{row['workload']} v{row['version']}",
            ", ".join(map(str, row["slots"])),  # type: ignore[call-overload]
            str(row["per_slot"]),
            why_not or str(row["trials"]),
            style="dim" if why_not else None,
        )
    out.print(shown)
    idle = sorted(p.name for p in declared.providers.values() if not declared.workloads_for(p))
    if idle:
        out.print(f"no declared workload fits: {', '.join(idle)}", highlight=False)
    teams = ", ".join(sorted(declared.teams)) or "none"
    total = sum(int(str(row["trials"])) for row in rows)
    out.print(
        f"{len(declared.providers)} providers, {len(declared.workloads)} workloads, teams {teams}: all right; {total} trials a rerun",
        highlight=False,
    )
