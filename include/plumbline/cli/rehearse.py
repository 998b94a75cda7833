"""`plumbline rehearse`: simulated months."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Annotated

import typer

from plumbline.alerts.slack.connection import CONNECTION
from plumbline.cli.output import Json, clear_errors, emit, fail, open_archive, out, table
from plumbline.declarations import DeclarationError, installation_paths, load
from plumbline.declarations.installation import override_home
from plumbline.embedded.connections import provide_connections
from plumbline.launch.plan import PlanError
from plumbline.workflows.rehearse import RehearsedCampaign, months_of, rehearse_months, simulated


def rehearse(
    provider: Annotated[list[str] | None, typer.Option(help="simulated providers, also disabled ones; every one if left out")] = None,
    campaigns: Annotated[str | None, typer.Option(help="months, such as 2026-01..2026-10; the twelve that are over if left out")] = None,
    workload: Annotated[list[str] | None, typer.Option(help="workloads; those that run monthly if left out")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, max=50, help="trials a slot instead of the declared number")] = None,
    home: Annotated[
        Path | None, typer.Option(help="where its results and its archive go, apart from measured ones; rehearsal/ in the installation's")
    ] = None,
    alert: Annotated[
        bool, typer.Option("--alert", help="send the findings where real ones go; each message says that it is simulated")
    ] = False,
    as_json: Json = False,
) -> None:
    now = datetime.now(timezone.utc)
    apart = (home or installation_paths().home / "rehearsal").resolve()
    if apart.exists() and not apart.is_dir():
        fail(f"--home: {apart} is a file; expected a folder")
    with clear_errors(DeclarationError, PlanError, RuntimeError):
        declared = simulated(load(), provider or ())
        months = months_of(campaigns or _last_year(now), now)
        if alert:
            provide_connections([CONNECTION])
        shown = table(
            "SIMULATED: no real machine was measured", "campaign", "provider", "trials", "ended", "open findings", right=("trials",)
        )

        def tell(one: RehearsedCampaign) -> None:
            ended = ", ".join(f"{count} {status}" for status, count in sorted(one.statuses.items())) or "silent"
            shown.add_row(one.campaign_id, one.provider, str(one.trials), ended, "\n".join(one.findings) or "none")

        with override_home(apart), open_archive() as archive, archive.alone("rehearsal", 0.0) as mine:
            if not mine:
                fail(f"another rehearsal runs in {apart}; wait for its end, or name another folder: --home")
            done = rehearse_months(declared, months, tell, workloads=workload, repeats=repeats, alerting=alert)

    def show() -> None:
        out.print(shown)
        out.print(f"A rehearsal has an archive of its own: PLUMBLINE_HOME={apart} plumbline findings list --all")

    emit(as_json, done, show)


def _last_year(now: datetime) -> str:
    """The twelve months whose first day is over."""
    last = (now - timedelta(days=1)).astimezone(timezone.utc)
    number = last.year * 12 + last.month - 12
    return f"{number // 12}-{number % 12 + 1:02d}..{last:%Y-%m}"
