"""What people log breaks a promise, opens a finding once, and is taken back by a correction."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from airflow.sdk.exceptions import AirflowFailException
from fastapi.testclient import TestClient
from tests.data.result_documents import document, provider, trial
from tests.fakes.cut_writer import full_at_each_page, killed_at_each_change
from tests.fakes.trials import CONFIG
from tests.parsed import Parsed
from typer.testing import CliRunner

from plumbline.airflow.tasks.review import note
from plumbline.alerts import render
from plumbline.answers.availability_histories import availability_histories
from plumbline.answers.claim_marks import ClaimState
from plumbline.answers.claims import claimable
from plumbline.answers.ledger import open_ledger
from plumbline.answers.monthly_costs import headlines, monthly_costs
from plumbline.answers.promises import provider_promises
from plumbline.archive import Archive, open_archive
from plumbline.cli.app import app
from plumbline.dashboard import access
from plumbline.dashboard.app import create_app
from plumbline.declarations import Declarations, load
from plumbline.declarations.promises import PROMISES, JudgedPromise, PromiseRow, judge_share
from plumbline.declarations.promises.judging.evidence import excuses_nothing
from plumbline.declarations.providers.provider import MonitoringConfig
from plumbline.declarations.providers.service_level import ServiceLevel
from plumbline.findings.types import type_of
from plumbline.metrics.formatting import format_day
from plumbline.metrics.proportions import wilson_interval
from plumbline.presentation.availability import availability_view
from plumbline.presentation.finding_page import finding_page
from plumbline.presentation.promises import claimed_credits, promise_totals, total_credit
from plumbline.results.availability_check import AvailabilityCheck
from plumbline.results.finding import Finding
from plumbline.results.operations import LogEntry
from plumbline.workflows.alert import alert_of, send_alerts
from plumbline.workflows.baseline_decision import apply_answer
from plumbline.workflows.claim import NothingToClaim, write_claim
from plumbline.workflows.claim_mark import mark_claim
from plumbline.workflows.findings import finding_record
from plumbline.workflows.operations_log import log_operation, report_breaches
from plumbline.workflows.report import campaign_data, write_report

NAME = "local-1core"
FIVE = timedelta(minutes=5)
CLOCK = re.compile(r"(\d+) h (\d+) min(?: (\d+) s)?")
LAST = datetime.now(timezone.utc).replace(day=1, hour=0, minute=0, second=0, microsecond=0) - timedelta(days=20)
INCIDENT = {"provider": NAME, "kind": "incident", "what": "no node answers", "opened": LAST.isoformat(), "whose": "provider"}
SOLVED = (LAST + timedelta(hours=12)).isoformat()
TERMS = "sla: {availability: 99.9%, credits: [{below: 99.9%, credit: 10%}, {below: 99%, credit: 25%}], support_response: 1h}"


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    config = Path(shutil.copytree(CONFIG, tmp_path / "config"))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(config))
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    file = config / "providers" / f"{NAME}.yaml"
    kept = [line for line in file.read_text().splitlines() if not line.startswith(("sla:", "prices:", "  - {purchase"))]
    price = "prices: [{purchase: on_demand, price: 10 USD/h, since: 2020-01-01, source: a test}]"
    file.write_text("\n".join([*kept, TERMS, price, ""]))
    (config / "alerts.yaml").write_text(f"volumes: [{{provider: {NAME}, time_per_month: 100h}}]\n")
    with open_archive() as opened:
        opened.record(document(trial(where=provider(NAME))), uri="file:///store")
        yield opened


def add_entry() -> None:
    with open_archive() as opened:
        log_operation(opened, load(), INCIDENT | {"solved": SOLVED}, "ada")


def completed(url: str) -> None:
    """A writer that was cut left its entry whole or not at all; the next look, or the same command, completes it."""
    with open_archive(url) as left:
        assert left.verify() == []
        if left.operations():
            report_breaches(left, load(), NAME, "upkeep")
        else:
            log_operation(left, load(), INCIDENT | {"solved": SOLVED}, "ada")
        assert len(left.operations()) == len(left.findings_of(NAME, unsettled=True)) == 1 and left.verify() == []


@pytest.mark.fault(
    "SIGKILL before any change of an entry of the operations log",
    ends="the next look completes it",
    keeps="the entry whole or not at all; its finding once",
)
def test_an_entry_that_is_killed_at_any_point(archive: Archive, tmp_path: Path) -> None:
    for url in killed_at_each_change(archive, tmp_path, add_entry):
        completed(url)


@pytest.mark.fault(
    "the disk is full while the operations log is written",
    ends="an error; the next look completes it",
    keeps="the entry whole or not at all",
)
def test_an_entry_on_a_full_disk(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for url in full_at_each_page(archive, tmp_path, add_entry, monkeypatch):
        completed(url)


def test_a_breach_opens_one_finding_and_a_correction_resolves_it(archive: Archive) -> None:
    declared = load()
    for _ in range(2):
        entry = log_operation(archive, declared, INCIDENT | {"solved": SOLVED}, "ada").entry
    (found,) = archive.findings_of(NAME, unsettled=True)
    assert found.kind == "reliability" and found.detail["title"] == f"broke its promise of availability in {LAST:%Y-%m}"
    assert entry.entry_id in found.detail["evidence"] and "USD" not in str(found.detail), "not every reader may see money"
    (row,) = [row for row in provider_promises(archive, declared, NAME).rows if row.verdict == "broken"]
    assert (row.usd, row.credit) == (250.0, "25 % of the month's bill, 250.00 USD"), "12 h are more than 1 % of a month"
    later = (LAST + timedelta(hours=13)).isoformat()
    log_operation(archive, declared, {"id": entry.entry_id, "solved": later}, "ada")
    (changed,) = archive.findings_of(NAME, unsettled=True)
    assert changed.finding_id == found.finding_id and "13.0 h down" in changed.detail["evidence"]
    log_operation(archive, declared, {"id": entry.entry_id, "whose": "us"}, "bob")
    assert archive.findings_of(NAME, unsettled=True) == []
    assert [e.recorded_by for e in archive.operations_history(entry.entry_id)] == ["ada", "ada", "bob"]


MAINTENANCE = INCIDENT | {"kind": "maintenance", "what": "new switches", "solved": SOLVED}


@pytest.mark.fault(
    "maintenance is noted after an outage that it would cover",
    ends="it excuses nothing without a source; what takes back a breach is said",
    keeps="the breach and each state of the log",
)
def test_maintenance_that_is_noted_afterwards_excuses_nothing_without_a_source(archive: Archive) -> None:
    declared = load()
    (opened,) = log_operation(archive, declared, INCIDENT | {"solved": SOLVED}, "ada").opened
    noted = log_operation(archive, declared, MAINTENANCE, "bob", 1000)
    assert noted.taken_back == () and [each for each in noted.notes if "excuses nothing" in each]
    assert [each.finding_id for each in archive.findings_of(NAME, unsettled=True)] == [opened[0]]
    sourced = log_operation(archive, declared, {"id": noted.entry.entry_id, "reference": "mail of 3 November"}, "bob", 1000)
    assert sourced.taken_back == (opened,) and sourced.notes == (f"takes back the finding {opened[0]}: {opened[1]}",)
    assert archive.findings_of(NAME, unsettled=True) == []
    why = next(entry.why for entry in archive.audit(opened[0]) if entry.what == "finding_resolved")
    assert f"bob (uid 1000) changed entry {noted.entry.entry_id} (revision 2)" in why


def test_announced_maintenance_excuses_what_was_announced_and_no_more(archive: Archive) -> None:
    now = datetime.now(timezone.utc)
    entry = archive.log_entry(LogEntry(NAME, "maintenance", "new switches", now + FIVE, solved=now + 3 * FIVE), by="ada")
    assert not excuses_nothing(entry)
    shorter = archive.log_entry(
        replace(LogEntry(NAME, "maintenance", "new switches", now + FIVE), solved=now + 2 * FIVE), by="ada", entry_id=entry.entry_id
    )
    assert shorter.noted_at == entry.recorded_at
    early = archive.log_entry(
        LogEntry(NAME, "maintenance", "new switches", now - FIVE, solved=now + 2 * FIVE), by="ada", entry_id=entry.entry_id
    )
    assert early.noted_at == early.recorded_at and excuses_nothing(early), "a wider window is a new one"
    assert excuses_nothing(archive.operations(NAME)[0])


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"provider": "nowhere"}, "nowhere"),
        ({"kind": "party"}, "kind"),
        ({"opened": "yesterday"}, 'opened is "yesterday"; expected a time with its zone, such as 2026-11-02T10:00Z'),
        ({"opened": "2026-11-02"}, 'opened is "2026-11-02"; expected a time with its zone'),
        ({"whose": "them"}, 'whose is "them"; expected provider, us or unknown'),
        ({"opened": "2026-10-02T10:00"}, "expected a time with its zone"),
        ({"what": ""}, "what"),
        ({"whose": "theirs"}, "whose"),
        ({"id": "unknown"}, "no entry"),
    ],
)
def test_what_does_not_hold_is_refused_by_field(archive: Archive, changed: dict[str, str], expected: str) -> None:
    with pytest.raises((ValueError, LookupError), match=expected):
        log_operation(archive, load(), INCIDENT | changed, "ada")
    assert archive.operations() == []


def test_airflows_form_logs_in_the_name_of_its_user(archive: Archive) -> None:
    form: dict[str, Any] = {"answered": "", "solved": "", "severity": "", "reference": "", "id": "", **INCIDENT}

    def run(by: str | None, kind: str = "manual") -> Any:
        return SimpleNamespace(triggering_user_name=by, run_type=kind, conf=form, dag_id="operations_log", run_id=f"{kind}__1")

    noted = note.function(params=form, dag_run=run("ann"))
    again = note.function(params=form, dag_run=run("ann"))
    assert again == noted | {"notes": []} and "opens the finding" in noted["notes"][0], "a retry adds nothing"
    assert archive.operations_history(noted["entry"])[0].recorded_by == "ann"
    for broken, started in (({**form, "opened": ""}, run("ann")), (form, run(None)), (form, run("ann", "operator_triggered"))):
        with pytest.raises(AirflowFailException):
            note.function(params=broken, dag_run=started)
    assert [e.subject for e in archive.audit() if e.what == "request_refused"] == [f"operations_log/{NAME}"] * 2


def test_an_open_ticket_becomes_late_by_itself(archive: Archive) -> None:
    for n in range(3):
        archive.log_entry(LogEntry(NAME, "ticket", f"question {n}", LAST, whose="provider"), by="ada")
    assert archive.findings_of(NAME, unsettled=True) == []
    send_alerts()
    (found,) = archive.findings_of(NAME, unsettled=True)
    assert found.detail["title"] == "broke its promise of support response"


def test_the_page_shows_log_and_credit_and_money_only_to_those_who_may_see_it(archive: Archive, tmp_path: Path) -> None:
    entry = log_operation(archive, load(), INCIDENT | {"solved": SOLVED, "reference": "4711"}, "ada").entry
    for may_see, credit in ((access.allow_everyone, "25 % of the month's bill, 250.00 USD"), (lambda: False, "")):
        with TestClient(create_app(reports=tmp_path, may_see_money=may_see)) as client:
            page = Parsed(client.get(f"/providers/{NAME}/promises").text)
            given = client.get(f"/providers/{NAME}/promises.json").json()
        row = page.one(f'tr[data-promise="availability in {LAST:%Y-%m}"]').text
        assert credit in row and ("25 %" in row) == ("USD" in row) == bool(credit) and entry.entry_id in row
        assert "4711" in page.one(f"#log-{entry.entry_id}").text and given["log"][0]["recorded_by"] == "ada"
        assert [each["credit"] for each in given["promises"] if each["credit"]] == ([credit] if credit else []), (
            "a share of the bill is money"
        )


def test_the_command_completes_and_lists_entries(archive: Archive) -> None:
    run = CliRunner()
    opened = ["log", "incident", NAME, "--what", "no node answers", "--opened", LAST.isoformat()]
    first = run.invoke(app, opened)
    name = first.output.partition(":")[0]
    assert first.exit_code == 0 and "revision 1" in first.output
    assert "revision 2" in run.invoke(app, ["log", "incident", NAME, "--id", name, "--solved", SOLVED, "--whose", "provider"]).output
    (listed,) = archive.operations()
    assert (listed.what, listed.whose, listed.revision) == ("no node answers", "provider", 2)
    assert name in run.invoke(app, ["log", "--list"]).output and name not in run.invoke(app, ["log", "ticket", "--list"]).output
    lost = run.invoke(app, ["log", "incident", NAME, "--id", "0123456789ab", "--solved", SOLVED])
    assert lost.exit_code == 2 and 'no entry "0123456789ab"' in lost.output
    for wrong in (["log"], ["log", "incident"], ["log", "ticket", NAME, "--id", name, "--solved", SOLVED], [*opened, "--severity", "P2"]):
        refused = run.invoke(app, wrong)
        assert refused.exit_code == 2 and "expected" in refused.output, wrong


def test_the_report_says_which_promise_is_broken_and_what_credit_that_is(archive: Archive) -> None:
    archive.record(document(trial(campaign=f"{LAST:%Y-%m}", where=provider(NAME), planned_at=LAST)), uri="file:///store")
    entry = log_operation(archive, load(), INCIDENT | {"solved": SOLVED}, "ada").entry
    (row,) = [row for row in campaign_data(archive, f"{LAST:%Y-%m}").findings if "broke its promise" in row.headline]
    assert f"broken promise: availability in {LAST:%Y-%m}" in row.explanation and entry.entry_id in row.explanation
    assert row.explanation.endswith("credit: 25 % of the month's bill, 250.00 USD")


def test_the_report_has_the_months_availability_and_broken_promises_as_the_page(archive: Archive, tmp_path: Path) -> None:
    file = tmp_path / "config" / "providers" / f"{NAME}.yaml"
    simulated = {"launcher": {"kind": "simulated"}, "watch": {"uptime": {"every": "5min"}}}
    file.write_text(json.dumps(yaml.safe_load(file.read_text()) | simulated, default=str))
    archive.record(document(trial(campaign=f"{LAST:%Y-%m}", where=provider(NAME), planned_at=LAST)), uri="file:///store")
    archive.save_availability_checks([replace(one, simulated=True) for one in checks(60, 25)])
    report = Path(write_report(f"{LAST:%Y-%m}"))
    page, text = Parsed(report.read_text()), report.with_suffix(".md").read_text()
    line = availability_view(availability_histories(archive, load().providers[NAME], datetime.now(timezone.utc))[0]).months[1]
    assert (line.evidence, line.checks, line.down) == ("35 of 60 checks answered", 60, "2.08 h")
    assert line.low is not None and line.high is not None and line.low < 0.01 < 0.99 < line.high, "five hours of a month were watched"
    row = page.one('tr[data-watch="uptime"]').text
    assert all(
        part in row
        for part in (NAME, f"uptime in {LAST:%Y-%m}", line.share, line.evidence, line.down, " ".join(line.outages[0].text.split()))
    )
    (broken,) = [each for each in provider_promises(archive, load(), NAME).rows if each.verdict == "broken"]
    row = page.one(f'tr[data-promise="{broken.name}"]').text
    assert broken.measured in row and broken.credit == "10 % of the month's bill, 100.00 USD" and broken.credit in row
    assert f"{NAME}, uptime in {line.text}" in text and f"{broken.sentence}; credit: {broken.credit}" in text


def test_a_report_without_watches_and_breaches_has_neither_table(archive: Archive) -> None:
    archive.record(document(trial(campaign=f"{LAST:%Y-%m}", where=provider(NAME), planned_at=LAST)), uri="file:///store")
    report = Path(write_report(f"{LAST:%Y-%m}")).read_text()
    assert "Between campaigns" not in report and "Broken promises" not in report


def watched(**sla: str) -> Declarations:
    """`NAME` with watches and these promises; a month's bill is 1,000 USD."""
    declared = load()
    watch = {"uptime": {"every": "5min"}, "capacity": {"every": "6h"}}
    terms = {"availability": "99.9%", "credits": [{"below": "99.9%", "credit": "10%"}, {"below": "99%", "credit": "25%"}], "credit": "5%"}
    fields: dict[str, Any] = {"sla": ServiceLevel.model_validate_json(json.dumps({**terms, **sla}))}
    fields["watch"] = MonitoringConfig.model_validate_json(json.dumps(watch))
    return replace(declared, providers={**declared.providers, NAME: declared.providers[NAME].model_copy(update=fields)})


def checks(count: int, missed: int, cause: str = "server_error", kind: Any = "uptime", every: timedelta = FIVE) -> list[AvailabilityCheck]:
    """Misses first, then answers."""
    return [AvailabilityCheck(NAME, kind, LAST + n * every, None if n >= missed else cause) for n in range(count)]


def breaches(archive: Archive, declared: Declarations, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Open findings of broken promises after the alerts' hourly run: title → evidence."""
    monkeypatch.setattr("plumbline.workflows.alert._declared", lambda _log: declared)
    send_alerts()
    shown = {str(f.detail["title"]): str(f.detail["evidence"]) for f in archive.findings_of(NAME, unsettled=True)}
    return {title.removeprefix("broke its promise of "): evidence for title, evidence in shown.items() if "promise" in title}


def test_measured_outages_alone_break_promises_and_the_log_takes_it_back(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    declared, month = watched(time_to_recover="1h", response_share="50%"), f"availability in {LAST:%Y-%m}"
    archive.save_availability_checks(checks(60, 25))
    found = breaches(archive, declared, monkeypatch)
    assert found.keys() == {month}, "one late recovery of one may be chance"
    assert "2.08 h down" in found[month] and "USD" not in found[month], "not every reader may see money"
    (view,) = archive.findings_of(NAME, unsettled=True)
    assert "Checks between campaigns" in view.detail["explanation"] and view.detail["since"] == f"{LAST:%Y-%m-%d}"
    (each,) = claimable(archive, declared, [view])[view.finding_id].broken
    assert (each.grants, each.row.usd, each.row.evidence) == (0.10, 100.0, ())
    claim = write_claim(archive, declared, view.finding_id, tmp_path / "claim")
    assert "Our checks: " in claim.letter.read_text() and "2.08 h  server error" in claim.letter.read_text()
    with zipfile.ZipFile(claim.pack.file) as pack:
        (outage,) = json.loads(pack.read("promises.json"))["outages"]
    assert (outage["began"], outage["misses"], outage["whose"]) == (LAST.isoformat(), 25, "provider")
    ours = INCIDENT | {"solved": (LAST + timedelta(hours=1)).isoformat(), "whose": "us"}
    entry = log_operation(archive, declared, ours, "ada").entry
    assert breaches(archive, declared, monkeypatch) == {}, "people know better whose fault it was"
    log_operation(archive, declared, {"id": entry.entry_id, "whose": "unknown"}, "ada")
    assert [row.name for row in provider_promises(archive, declared, NAME).rows if row.verdict == "broken"] == [month]


def test_slow_recoveries_and_refused_checks_break_their_promises(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = watched(time_to_recover="1h", response_share="90%", capacity="95%")
    missed = [n % 48 < 13 for n in range(48 * 6)]  # six outages of 65 minutes, at 4 h from one to the next
    archive.save_availability_checks(
        [AvailabilityCheck(NAME, "uptime", LAST + n * FIVE, "timeout" if m else None) for n, m in enumerate(missed)]
    )
    archive.save_availability_checks(checks(40, 12, "insufficient_capacity", "capacity", timedelta(hours=6)))
    found = breaches(archive, declared, monkeypatch)
    assert found.keys() == {f"availability in {LAST:%Y-%m}", "time to recover", "capacity between campaigns"}
    assert "0 of 6 incidents within it, 6 by checks of its uptime" in found["time to recover"]
    assert "28 of 40 checks got their nodes" in found["capacity between campaigns"]
    rows = {row.name: row for row in provider_promises(archive, declared, NAME).rows}
    assert (rows["time to recover"].usd, rows["capacity between campaigns"].usd) == (50.0, 50.0)
    logged = INCIDENT | {"opened": LAST.isoformat(), "solved": (LAST + timedelta(minutes=50)).isoformat()}
    log_operation(archive, declared, logged, "ada")
    (row,) = [row for row in provider_promises(archive, declared, NAME).rows if row.name == "time to recover"]
    assert row.measured.startswith("1 of 6 incidents within it, 5 by checks"), "an outage that the log has counts once, as logged"
    assert rows["time to recover"].last == LAST + 5 * 48 * FIVE


@pytest.mark.parametrize("cause", ["bad_declaration", "unreachable", "quota_exceeded"])
def test_outages_that_are_ours_or_unproven_break_nothing(archive: Archive, monkeypatch: pytest.MonkeyPatch, cause: str) -> None:
    declared = watched(time_to_recover="1h", response_share="50%", capacity="95%")
    for kind, every in (("uptime", FIVE), ("capacity", timedelta(hours=6))):
        archive.save_availability_checks(checks(60, 40, cause, kind, every))
    assert breaches(archive, declared, monkeypatch) == {}
    assert all(row.verdict != "broken" for row in provider_promises(archive, declared, NAME).rows)


def test_outages_that_checks_measured_count_too_and_once(archive: Archive) -> None:
    name, minutes = "simulated-2core", timedelta(minutes=5)
    declared = load()
    place = declared.providers[name].model_copy(
        update={"sla": declared.providers[NAME].sla, "watch": MonitoringConfig.model_validate_json('{"uptime": {"every": "5min"}}')}
    )
    declared = replace(declared, providers={**declared.providers, name: place})
    checks = [AvailabilityCheck(name, "uptime", LAST + n * minutes, None if n > 24 else "server_error", simulated=True) for n in range(30)]
    archive.save_availability_checks(checks)
    (row,) = [row for row in provider_promises(archive, declared, name).rows if row.verdict == "broken"]
    assert row.tries.failures == 25 * 300 and row.evidence == ()
    noted = INCIDENT | {"provider": name, "solved": (LAST + timedelta(hours=1)).isoformat()}
    log_operation(archive, declared, noted, "ada")
    (row,) = [row for row in provider_promises(archive, declared, name).rows if row.verdict == "broken"]
    assert row.tries.failures == 25 * 300 and len(row.evidence) == 1


def contradiction(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> tuple[Declarations, str]:
    """Twelve hours down by the log, all of them answered by the checks; the declarations, and the entry's id."""
    declared = watched(time_to_recover="1h", response_share="50%")
    archive.save_availability_checks(checks(300, 0))
    entry = log_operation(archive, declared, INCIDENT | {"solved": SOLVED}, "ada").entry
    assert breaches(archive, declared, monkeypatch) == {}
    return declared, entry.entry_id


def test_an_incident_that_every_check_contradicts_breaks_nothing_until_a_person_decides(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    declared, name = contradiction(archive, monkeypatch)
    (asked,) = archive.findings_of(NAME, unsettled=True)
    assert type_of(Finding.of(asked.detail)).id == "contradicted_incident" and name in asked.detail["explanation"]
    assert "says 12.0 h down" in asked.headline and "checks were answered in 11.9 h of it" in asked.headline
    row = {row.name: row for row in provider_promises(archive, declared, NAME).rows}[f"availability in {LAST:%Y-%m}"]
    assert (row.verdict, row.usd, row.evidence) == ("not_shown", None, ()) and "300 of 300 checks answered" in row.measured
    with pytest.raises(NothingToClaim):
        write_claim(archive, declared, asked.finding_id, tmp_path / "claim")
    done = apply_answer(archive, declared, asked.finding_id, "accept", "bob", "the provider's own status page says so")
    assert done.log and archive.finding(asked.finding_id).state == "accepted"
    (broken,) = archive.findings_of(NAME, unsettled=True)
    assert broken.detail["title"] == f"broke its promise of availability in {LAST:%Y-%m}"
    (each,) = claimable(archive, declared, [broken])[broken.finding_id].broken
    assert (each.row.usd, each.row.evidence) == (250.0, (name,))
    later = (LAST + timedelta(hours=20)).isoformat()
    log_operation(archive, declared, {"id": name, "solved": later}, "ada")
    assert [type_of(Finding.of(v.detail)).id for v in archive.findings_of(NAME, unsettled=True)] == ["contradicted_incident"]


def test_a_corrected_entry_ends_the_contradiction(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    declared, name = contradiction(archive, monkeypatch)
    (asked,) = archive.findings_of(NAME, unsettled=True)
    with pytest.raises(ValueError, match="nothing rejects"):
        apply_answer(archive, declared, asked.finding_id, "keep", "bob", "no")
    log_operation(archive, declared, {"id": name, "solved": (LAST + timedelta(minutes=4)).isoformat()}, "ada")
    assert archive.findings_of(NAME, unsettled=True) == [] and archive.finding(asked.finding_id).state == "resolved"


def test_a_breach_that_was_taken_back_and_shown_again_is_claimed_again(archive: Archive) -> None:
    declared = load()
    entry = log_operation(archive, declared, INCIDENT | {"solved": SOLVED}, "ada").entry
    (first,) = archive.findings_of(NAME, unsettled=True)
    log_operation(archive, declared, {"id": entry.entry_id, "whose": "us"}, "ada")
    log_operation(archive, declared, {"id": entry.entry_id, "whose": "provider"}, "ada")
    (again,) = archive.findings_of(NAME, unsettled=True)
    assert again.finding_id != first.finding_id and again.headline == first.headline
    archive.set_finding_state(again.finding_id, "resolved", by="ada", why="credited")
    log_operation(archive, declared, {"id": entry.entry_id, "severity": "P1"}, "ada")
    assert archive.findings_of(NAME, unsettled=True) == [], "what a person settled stays settled"


def test_the_first_line_of_a_broken_promise_has_credit_and_deadline_and_no_amount_for_others(archive: Archive, tmp_path: Path) -> None:
    declared = watched(claim_within="30d")
    log_operation(archive, declared, INCIDENT | {"solved": SOLVED}, "ada")
    (view,) = archive.findings_of(NAME, unsettled=True)
    end = (LAST + timedelta(days=32)).replace(day=1)
    until = f"to claim until {format_day(f'{end + timedelta(days=29):%Y-%m-%d}')}"
    line = headlines(archive, declared, [view])[view.finding_id]
    assert f"broke its promise of availability in {LAST:%Y-%m}, 98." in line and " instead of 99.9 %: " in line
    assert "250.00 USD (25 % of the month's bill) " + until in line
    hidden = headlines(archive, replace(declared, alerts=declared.alerts.model_copy(update={"volumes": ()})), [view])[view.finding_id]
    assert "USD" not in hidden and "25 % of the month's bill " + until in hidden
    commands = finding_page(archive, declared, view.finding_id, datetime.now(timezone.utc)).commands
    assert commands[0][1] == f"plumbline findings claim {view.finding_id}"
    assert not any("baseline" in purpose or " accept " in command or " reject " in command for purpose, command in commands)
    alert = alert_of(archive, declared, view)
    message = render(alert.finding, alert.context)
    assert line in message.text and dict(message.fields)["Claim until"] == f"{end + timedelta(days=29):%Y-%m-%d}"


def test_once_the_last_day_has_passed_no_sentence_says_that_it_is_to_claim(archive: Archive) -> None:
    """First line, message, ledger and page of promises read one day."""
    declared = watched(claim_within="1s")
    early = LAST - timedelta(days=31)
    log_operation(archive, declared, INCIDENT | {"opened": early.isoformat(), "solved": (early + timedelta(hours=12)).isoformat()}, "ada")
    (view,) = archive.findings_of(NAME, unsettled=True)
    day = view.detail["credit"]["until"]
    (line,) = headlines(archive, declared, [view]).values()
    assert line.endswith(f"250.00 USD (25 % of the month's bill), too late to claim since {format_day(day)} has passed")
    alert = alert_of(archive, declared, view)
    message = render(alert.finding, alert.context)
    assert "to claim until" not in message.text and dict(message.fields)["Claim until"] == f"{day} (that day has passed)"
    page = finding_page(archive, declared, view.finding_id, datetime.now(timezone.utc))
    assert f"too late to claim, the last day was {day}" in page.counted and page.words == line
    promises = provider_promises(archive, declared, NAME)
    assert promise_totals([promises]).lapsed == 1 and open_ledger(archive, declared).total().to_claim == 0.0


def test_one_finding_claims_a_promise_and_period_and_the_letters_list_adds_up(archive: Archive, tmp_path: Path) -> None:
    declared = load()
    log_operation(archive, declared, INCIDENT | {"solved": SOLVED}, "ada")
    (own,) = archive.findings_of(NAME, unsettled=True)
    outage = replace(Finding.of(own.detail), finding_id="0123456789ab", subject="outage/uptime", title="down", credit=None)
    archive.save_findings([finding_record(outage)])
    both = claimable(archive, declared, archive.findings_of(NAME, unsettled=True))
    assert len(both[own.finding_id].broken) == 1 and both[outage.finding_id].broken == ()
    assert f"is claimed with finding {own.finding_id}" in both[outage.finding_id].why
    archive.set_finding_state(own.finding_id, "resolved", by="ada", why="credited")
    (again,) = claimable(archive, declared, [archive.finding(outage.finding_id)]).values()
    assert again.broken == (), "what was claimed is not claimed a second time"


def test_credits_of_a_letter_are_listed_once_and_add_up() -> None:
    def of(name: str, month: datetime | None, usd: float | None, grants: float = 0.05) -> JudgedPromise:
        row = PromiseRow(name, "99 %", "98 %", "", "", judge_share(wilson_interval(0, 40), 0.99), (), "a share", usd, LAST)
        return JudgedPromise(PROMISES[0], row, "log", grants, month)

    listed = [of("availability in 2026-09", LAST - timedelta(days=40), 10.0), of("availability in 2026-10", LAST, 20.0)]
    listed += [of("time to recover", None, 5.0), of("support response", None, 5.0)]
    credits = claimed_credits(listed)
    assert [names for names, *_ in credits] == [
        "availability in 2026-09",
        "availability in 2026-10",
        "time to recover and support response",
    ]
    assert total_credit(listed) == sum(usd or 0 for *_, usd in credits) == 35.0
    assert total_credit([*listed, of("availability in 2026-08", LAST - timedelta(days=70), None)]) is None and total_credit([]) is None


def test_one_month_is_billed_on_every_surface_and_a_term_that_is_over_is_not_to_claim(archive: Archive) -> None:
    """A promise that is about no month: its finding and its row take the bill of the month of the breach, at that month's price."""
    declared = watched(claim_within="1s", credit="10%", support_response="1h")
    turn = (LAST + timedelta(days=32)).replace(day=1)  # the begin of the present month
    old, new = ({"purchase": "on_demand", "price": f"{usd} USD/h", "source": "a test"} for usd in (10, 50))
    prices = [{**old, "since": "2020-01-01", "until": f"{turn:%Y-%m-%d}"}, {**new, "since": f"{turn:%Y-%m-%d}"}]
    raised = provider(NAME, prices=prices).prices
    declared = replace(declared, providers={**declared.providers, NAME: declared.providers[NAME].model_copy(update={"prices": raised})})
    early = LAST - timedelta(days=31)  # the last day of its claim is over on each day of the present month
    late = {
        **INCIDENT,
        "kind": "ticket",
        "opened": early.isoformat(),
        "answered": (early + timedelta(hours=5)).isoformat(),
        "solved": SOLVED,
    }
    for n in range(6):
        log_operation(archive, declared, late | {"what": f"question {n}", "reference": f"47{n}"}, "ada")
    judged = provider_promises(archive, declared, NAME)
    (broken,) = [each for each in judged.judged if each.broken]
    (view,) = archive.findings_of(NAME, unsettled=True)
    assert broken.month is None
    assert broken.row.usd == monthly_costs(archive, declared, [view])[view.finding_id].credit == 100.0
    assert broken.lapsed and promise_totals([judged]).usd is None
    assert broken.row.to_do.startswith("too late to claim since ")
    assert promise_totals([judged]).text().startswith("1 broken, 1 of them too late to claim; ")
    timely = replace(judged, judged=tuple(replace(each, lapsed=False) for each in judged.judged))
    assert promise_totals([timely]).text().startswith("1 broken, 100.00 USD to claim; ")


def test_a_letter_lists_the_time_that_was_down_with_its_sum(archive: Archive, tmp_path: Path) -> None:
    declared = watched(clause="Annex B")
    log_operation(archive, declared, INCIDENT | {"solved": SOLVED}, "ada")
    (view,) = archive.findings_of(NAME, unsettled=True)
    text = write_claim(archive, declared, view.finding_id, tmp_path / "claim").letter.read_text()
    lines = text[text.index("- Down in") :].split("EVIDENCE")[0].splitlines()
    spans = [line for line in lines[1:] if " h " in line]
    *listed, total = [int(h) * 3600 + int(m) * 60 + int(s or 0) for line in spans for h, m, s in CLOCK.findall(line)]
    (broken,) = [each for each in provider_promises(archive, declared, NAME).judged if each.broken]
    assert listed and sum(listed) == total == pytest.approx(broken.row.tries.failures, abs=1)
    assert "    Sum " in text


@pytest.mark.parametrize(("state", "after"), [("claimed", "acknowledged"), ("credited", "resolved"), ("refused", "resolved")])
def test_a_marked_claim_is_not_to_claim_on_any_surface(archive: Archive, state: ClaimState, after: str) -> None:
    declared = watched(credit="10%")
    log_operation(archive, declared, INCIDENT | {"solved": SOLVED}, "ada")
    (view,) = archive.findings_of(NAME, unsettled=True)
    assert open_ledger(archive, declared).total().to_claim == 250.0
    with pytest.raises(ValueError, match="needed"):
        mark_claim(archive, declared, view.finding_id, state, "ada", " ")
    for _ in range(2):
        assert mark_claim(archive, declared, view.finding_id, state, "ada", "ticket 4711").state == after
    assert [e.what for e in archive.audit(view.finding_id)].count(f"claim_{'sent' if state == 'claimed' else state}") == 1
    promises = provider_promises(archive, declared, NAME)
    (broken,) = [each for each in promises.judged if each.broken]
    assert "ticket 4711" in broken.row.claim and promise_totals([promises]).usd is None
    assert promise_totals([promises]).text().startswith("1 broken, 1 of them claimed already; ")
    assert open_ledger(archive, declared).total().to_claim == 0.0
    page = finding_page(archive, declared, view.finding_id, datetime.now(timezone.utc))
    assert page.mark is not None and page.mark.state == state and "ticket 4711" in page.mark.text
    report_breaches(archive, declared, NAME, "ada")
    assert archive.finding(view.finding_id).state == after, "the breach goes on; its claim was made"


def test_what_claims_nothing_cannot_be_marked(archive: Archive) -> None:
    declared = watched()
    log_operation(archive, declared, INCIDENT | {"solved": SOLVED}, "ada")
    (view,) = archive.findings_of(NAME, unsettled=True)
    outage = replace(Finding.of(view.detail), finding_id="0123456789ab", subject="outage/uptime", title="down", credit=None)
    archive.save_findings([finding_record(outage)])
    with pytest.raises(NothingToClaim):
        mark_claim(archive, declared, outage.finding_id, "claimed", "ada", "ticket 4711")
