"""What users and stored data see, as files: `python -m tests.freeze FOLDER`, before and after a change of the house; `diff -r` shows what differs.

Of a year of three simulated providers (tests/browser/fleet.py): `--json` and text of every command that reads, every page as text and JSON, report, mail and
digest. Of the shipped declarations: hashes and series keys of every pair that a campaign plans. Of each type of finding: id, headline, message, word and
actions. Moments of the day, and folders, have a name in the place of their value.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

from fastapi.testclient import TestClient

from plumbline.alerts import render
from plumbline.alerts.message import render_details
from plumbline.archive import Archive, open_archive
from plumbline.dashboard.app import create_app
from plumbline.declarations import Declarations, load
from plumbline.declarations.installation import override_home
from plumbline.launch.plan import PlanError, RunRequest, plan
from plumbline.workflows.alert import alert_of
from plumbline.workflows.finding_action import possible_actions
from tests.browser import fleet
from tests.data.finding_examples import finding_examples
from tests.data.page_addresses import address_of, routes_of
from tests.fakes import first_texts
from tests.fakes.kept_findings import keep

PROVIDER, WORKLOAD, CAMPAIGN, BASELINE = "borealis-eu-h100", "pretrain-1b-gpu", "2026-10", "2026-09"
JSON_COMMANDS = (
    ("status",),
    ("scorecard",),
    ("decide",),
    ("findings", "list", "--all"),
    ("campaigns",),
    ("compare", BASELINE, CAMPAIGN),
    ("promises",),
    ("prices", "list"),
    ("budget",),
    ("check",),
    ("cost", "month"),
    ("cost", "campaign", CAMPAIGN),
    ("cost", "commitments"),
    ("cost", "scenarios"),
    ("cost", "tornado"),
    ("cost", "break-even"),
    ("alerts", "preview", "--all"),
    ("alerts", "digest"),
)
_MOMENT = re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?")


def frozen(archive: Archive, declared: Declarations, folder: Path, now: datetime) -> dict[str, str]:
    """File name → text."""
    found = {f"texts/{name}": text for name, text in first_texts.texts(archive, declared, folder, now).items()}
    for words in JSON_COMMANDS:
        found[f"commands/{' '.join(words)}.json"] = first_texts.printed((*words, "--json"))
    trial = archive.trials(CAMPAIGN)[0]
    known = {"team": "platform", "kind": "training", "number": "0", "metric": "step_time", "campaign_id": CAMPAIGN, "provider": PROVIDER}
    known |= {
        "workload": WORKLOAD,
        "trial_id": trial.trial_id,
        "series_key": trial.series_key,
        "finding_id": archive.findings()[0].finding_id,
    }
    app = create_app()
    with TestClient(app) as client:
        for route in routes_of(app):
            try:
                address = address_of(route, known)
            except KeyError:
                continue
            answer = client.get(f"{address}.json") if "GET" in route.methods and "." not in address else None
            if answer is not None and answer.status_code == 200:
                found[f"pages/{route.path}.json"] = json.dumps(answer.json(), indent=1, ensure_ascii=False)
    return found


def hashes(declared: Declarations) -> str:
    """Of each pair of a provider and a workload that a campaign of everything plans."""
    request = RunRequest(campaign_id="2026-11", reason="frozen")
    lines = []
    for provider in declared.providers.values():
        with suppress(PlanError):  # one that no workload fits
            trials = plan(declared, provider, request, datetime(2026, 11, 1, tzinfo=timezone.utc))
            lines += [f"{t.series_key} {t.spec_hash} {t.criteria_hash}" for t in trials]
    return "\n".join(sorted(set(lines)))


def of_findings(archive: Archive, declared: Declarations) -> dict[str, str]:
    """Each type's finding as a message, and what a person can do."""
    key = next(t.series_key for t in archive.trials(CAMPAIGN) if PROVIDER in t.series_key and WORKLOAD in t.series_key)
    found = {}
    for name, finding in finding_examples(key, CAMPAIGN, BASELINE).items():
        keep(archive, finding)
        view = archive.finding(finding.finding_id)
        alert = alert_of(archive, declared, view)
        message, details = render(alert.finding, alert.context), render_details(alert.finding, alert.context)
        parts = [finding.finding_id, view.headline, message.text, json.dumps(details.blocks, indent=1, ensure_ascii=False)]
        found[f"findings/{name}"] = "\n".join([*parts, ", ".join(possible_actions(declared, view))])
    return found


def main(folder: Path) -> None:
    now = datetime.now(timezone.utc)
    with tempfile.TemporaryDirectory(prefix="freeze-") as scratch:
        home, config = fleet.rehearsed(Path(scratch))
        found: Mapping[str, str]
        with override_home(home, config), open_archive() as archive:
            declared = load()
            found = {**frozen(archive, declared, Path(scratch) / "out", now), **of_findings(archive, declared)}
        found = {**found, "hashes": hashes(load())}
        for name, text in found.items():
            file = folder / name.replace("page /", "pages/").replace("{", "").replace("}", "").strip("/")
            file = file.with_name(f"{file.name or 'index'}.txt" if not file.suffix else file.name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(_MOMENT.sub("<moment>", text.replace(scratch, "<scratch>")))
    sys.stdout.write(f"{len(found)} texts in {folder}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
