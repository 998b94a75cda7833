"""What a newcomer reads of an archive that shows nothing yet: every page, command, report, mail and message, as text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from email import message_from_bytes
from email.policy import default as parsed_policy
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient
from tests.data.page_addresses import address_of, routes_of
from tests.parsed import Parsed
from typer.testing import CliRunner

from plumbline.alerts.digest import render_digest
from plumbline.analysis.conclusions import conclude
from plumbline.archive import Archive
from plumbline.cli.app import app as commands
from plumbline.dashboard.app import create_app
from plumbline.declarations import Declarations
from plumbline.presentation.html.mail import write_mail
from plumbline.presentation.html.report import write_report
from plumbline.workflows.alert import build_digest
from plumbline.workflows.report import campaign_data

COMMANDS = (
    ("scorecard",),
    ("scorecard", "-v"),
    ("decide",),
    ("decide", "-v"),
    ("findings",),
    ("findings", "--all"),
    ("status",),
    ("promises",),
    ("cost", "month"),
    ("alerts", "preview", "--all"),
    ("alerts", "digest"),
    ("archive", "verify"),
)


def pages(archive: Archive, declared: Declarations) -> dict[str, str]:
    """HTML of each page that this archive has, by its address."""
    team, series = next(iter(declared.teams.values())), archive.series()
    known: dict[str, str] = {"team": team.name, "kind": "training", "number": "0", "metric": "step_time"}
    if series:
        campaign = archive.campaigns(latest=1)[0].campaign_id
        known |= {"campaign_id": campaign, "trial_id": archive.trials(campaign)[0].trial_id, "series_key": series[0].series_key}
        known |= {"provider": series[0].provider, "workload": series[0].workload}
    else:
        known |= {"provider": next(iter(declared.providers)), "workload": next(iter(declared.workloads))}
    found = {}
    app = create_app()
    with TestClient(app) as client:
        for route in routes_of(app):
            try:
                address = address_of(route, known)
            except KeyError:  # of a finding, a report or a pack: there is none
                continue
            answer = client.get(address) if "GET" in route.methods else None
            if answer is not None and answer.status_code == 200 and "text/html" in answer.headers.get("content-type", ""):
                found[route.path] = answer.text
    return found


def texts(archive: Archive, declared: Declarations, folder: Path, now: datetime) -> dict[str, str]:
    """By what shows it: `page /findings`, `plumbline decide`, `report`, `mail`, `digest`."""
    found = {f"page {path}": Parsed(html).text for path, html in pages(archive, declared).items()}
    for words in COMMANDS:
        found[f"plumbline {' '.join(words)}"] = printed(words)
    found["digest"] = render_digest(build_digest(archive, declared, f"{now:%Y-%m}", now)).text
    if campaigns := archive.campaigns(latest=1):
        data = campaign_data(archive, campaigns[0].campaign_id)
        report = write_report(data, folder / "reports")
        found["report"] = Parsed(report.read_text()).text
        found["report.md"] = report.with_suffix(".md").read_text()
        mail: Any = message_from_bytes(write_mail(conclude(data), report).read_bytes(), policy=parsed_policy)
        found["mail"] = f"{mail['Subject']} {Parsed(mail.get_body(('html',)).get_content()).text}"
    return found


def printed(words: Sequence[str]) -> str:
    return CliRunner(env={"COLUMNS": "200"}).invoke(commands, list(words)).output
