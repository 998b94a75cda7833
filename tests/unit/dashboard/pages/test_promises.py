"""The page of promises, the button that claims, and the same verdicts on the command line."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.data.result_documents import document, failed, provider, trial
from tests.fakes.trials import CONFIG
from tests.parsed import Parsed
from typer.testing import CliRunner

from plumbline.archive import FindingRecord, open_archive
from plumbline.cli.app import app
from plumbline.dashboard.app import create_app
from plumbline.declarations import load
from plumbline.findings.headline import headline
from plumbline.metrics.formatting import format_money
from plumbline.results.finding import Finding
from plumbline.workflows.findings import finding_record
from plumbline.workflows.operations_log import log_operation

STARTED = trial(where=provider("local-1core"))
FOUND = Finding(
    finding_id="f1",
    series_key=STARTED.series_key,
    campaign_id=STARTED.campaign_id,
    kind="reliability",
    severity="warn",
    evidence="4 of 5 attempts failed",
    explanation="",
    provider="local-1core",
    workload_kind="training",
    workload=STARTED.workload.name,
    subject="reliability",
    title="4 of 5 attempts failed",
    series=(STARTED.series_key,),
)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(shutil.copytree(CONFIG, tmp_path / "config")))
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    return tmp_path / "config" / "providers" / "local-1core.yaml"


@pytest.fixture
def client(tmp_path: Path, config: Path) -> Iterator[TestClient]:
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    with open_archive(url) as archive:
        archive.record(document(STARTED), uri="file:///store")
        for repeat in range(2, 6):
            archive.record(failed(trial(where=provider("local-1core"), repeat=repeat), "insufficient_capacity"), uri="file:///store")
        records = [
            FindingRecord(f.finding_id, f.series_key, f.campaign_id, f.provider, f.kind, f.severity, headline(f), detail=f.to_dict())
            for f in (FOUND, replace(FOUND, finding_id="f2", kind="performance", subject="performance"))
        ]
        archive.save_findings(records)
    with TestClient(create_app(archive_url=url, reports=tmp_path)) as found:
        yield found


def promised(file: Path, sla: str) -> None:
    file.write_text(re.sub(r"^sla:.*$", sla, file.read_text(), flags=re.MULTILINE))


@pytest.mark.parametrize(
    ("sla", "listed"),
    [
        ("{availability: 99.9%}", "availability 99.9 %"),
        (
            "{availability: 99.9%, capacity: 95%, time_to_recover: 4h, support_response: 2h}",
            "availability 99.9 %, capacity 95 %, time to recover 4.00 h, support response 2.00 h",
        ),
        ("{clause: Annex B}", "none declared"),
    ],
)
def test_the_page_of_a_provider_lists_its_promises(client: TestClient, config: Path, sla: str, listed: str) -> None:
    promised(config, f"sla: {sla}")
    assert f"Contract {listed} " in Parsed(client.get("/providers/local-1core").text).text


def test_a_broken_promise_leads_to_its_claim(client: TestClient, config: Path) -> None:
    page = client.get("/providers/local-1core/promises").text
    said = Parsed(page).one('tr[data-promise="launch success"]').text
    assert "99.0 %" in said and "1 of 5 launches" in said and "broken" in said
    assert 'href="/findings/f1#claim"' in page and "/findings/f2#claim" not in page
    assert "/providers/local-1core/promises" in client.get("/providers/local-1core").text
    finding = client.get("/findings/f1").text
    assert 'action="/findings/f1/claim.eml"' in finding and 'id="no-claim"' not in finding
    answer = client.get("/findings/f1/claim.eml")
    mail = message_from_bytes(answer.content, policy=policy.default)
    assert answer.headers["content-disposition"] == "attachment; filename=claim-f1.eml" and "launch success" in mail["Subject"]
    assert [part.get_filename() for part in mail.iter_attachments()] == ["evidence-f1.zip"]


def test_page_and_command_read_the_same_rows(client: TestClient, config: Path) -> None:
    said = json.loads(CliRunner().invoke(app, ["promises", "local-1core", "--json"]).stdout)
    page = Parsed(client.get("/providers/local-1core/promises").text)
    (provider_rows,) = said
    for row in provider_rows["promises"]:
        shown = page.one(f'tr[data-promise="{row["name"]}"]').texts("th, td, td *")
        assert {row[field] or "–" for field in ("promised", "measured", "interval", "needed")} <= set(shown)
    unknown = CliRunner().invoke(app, ["promises", "nobody"])
    assert unknown.exit_code == 2 and 'no provider is called "nobody"' in unknown.stderr


def entry_of(data: list[dict[str, Any]], name: str = "local-1core") -> dict[str, Any]:
    (entry,) = (each for each in data if each["provider"] == name)
    return entry


def test_all_promises_begin_with_their_sum_and_name_what_is_broken(client: TestClient, config: Path) -> None:
    page, data = Parsed(client.get("/promises").text), client.get("/promises.json").json()
    sums = {name: sum(each["totals"][name] for each in data) for name in ("broken", "kept", "open")}
    assert page.one("#summary").text.startswith("1 broken") and [sums["broken"], sums["kept"]] == [1, 0] and sums["open"] > 1
    assert f"{sums['open']} open" in page.one("#summary").text and page.one("tfoot").texts("td .value")[:3] == [
        str(n) for n in sums.values()
    ]
    verdicts = [row["tries"]["verdict"] for row in entry_of(data)["promises"]]
    own = [entry_of(data)["totals"][name] for name in ("broken", "kept", "open")]
    assert own == [verdicts.count(v) for v in ("broken", "kept", "not_shown")]
    assert f"{own[2]} open" in Parsed(client.get("/providers/local-1core/promises").text).one("#summary").text
    assert "1 of 5 launches" in page.one('tr[data-broken="local-1core"]').text
    assert (
        page.one('tr[data-provider="local-1core"]').texts("td")[0] == "1"
        and page.values("tr[data-provider]", "data-provider")[0] == "local-1core"
    )
    jumps = {(place["kind"], place["path"]) for place in client.get("/jump").json()}
    assert {("promises", "/providers/local-1core/promises"), ("page", "/promises")} <= jumps


def test_without_any_promise_the_page_says_how_to_declare_one(client: TestClient, config: Path) -> None:
    for file in config.parent.glob("*.yaml"):
        promised(file, "")
    assert 'id="no-promises"' in client.get("/promises").text


def test_the_amount_to_claim_is_shown_only_with_access_to_costs(client: TestClient, config: Path, tmp_path: Path) -> None:
    promised(config, "sla: {launch_success: 99%, credit: 10%}")
    (config.parents[1] / "alerts.yaml").write_text("volumes:\n  - {provider: local-1core, time_per_month: 730h}\n")
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    with TestClient(create_app(archive_url=url, reports=tmp_path)) as seeing:
        said = Parsed(seeing.get("/promises").text).one("#summary").text
        entry = entry_of(seeing.get("/promises.json").json())
        assert entry["totals"]["usd"] > 0 and "USD to claim" in said
    with TestClient(create_app(archive_url=url, reports=tmp_path, may_see_money=lambda: False)) as hidden:
        page, data = hidden.get("/promises").text, hidden.get("/promises.json").json()
        assert "USD" not in page and all(each["totals"]["usd"] is None for each in data) and "broken" in Parsed(page).one("#summary").text


def test_what_is_missing_is_one_sentence_and_no_button(client: TestClient, config: Path) -> None:
    promised(config, "sla: {launch_success: 5%}")
    finding = client.get("/findings/f1").text
    assert "claim.eml" not in finding and "Nothing to claim. No promise is proven broken." in finding and "more" in finding
    refused = client.get("/findings/f1/claim.eml")
    assert refused.status_code == 409 and "No promise is proven broken" in refused.text
    assert "no promised speed" in client.get("/findings/f2").text
    assert 'id="no-claims"' in client.get("/providers/local-1core/promises").text
    assert client.get("/findings/f9/claim.eml").status_code == 404


def test_without_promises_the_page_says_how_to_declare_them(client: TestClient, config: Path) -> None:
    promised(config, "")
    page = client.get("/providers/local-1core/promises").text
    assert 'id="no-promises"' in page and "sla: {launch_success: 99%" in page
    assert client.get("/providers/nobody/promises").status_code == 404
    result = CliRunner().invoke(app, ["promises", "local-1core"])
    assert result.exit_code == 0 and "nothing is promised" in result.stdout


def test_a_claim_names_money_so_it_needs_that_right(client: TestClient, tmp_path: Path) -> None:
    hidden = create_app(archive_url=f"sqlite:///{tmp_path / 'archive.db'}", reports=tmp_path, may_see_money=lambda: False)
    with TestClient(hidden) as found:
        assert found.get("/findings/f1/claim.eml").status_code == 403
        assert "claim.eml" not in found.get("/findings/f1").text


def test_the_sum_on_promises_is_that_of_the_ledgers_rows_with_or_without_a_finding(
    client: TestClient, config: Path, tmp_path: Path
) -> None:
    """What trials prove, what the operations log proves, and the credit that both share."""
    promised(config, "sla: {launch_success: 99%, support_response: 1h, credit: 10%, claim_within: 90d}")
    (config.parents[1] / "alerts.yaml").write_text("volumes:\n  - {provider: local-1core, time_per_month: 730h}\n")

    def sums() -> tuple[float, list[tuple[str, tuple[str, ...], float]]]:
        """The sum on the page, and the rows of the ledger, which the inbox, the tile and the command add up alike."""
        inbox = client.get("/findings.json").json()
        rows = [(row["row_id"], tuple(row["counts"]), row["usd"]) for row in inbox["amounts"] if row["claim"] == "to_claim"]
        listed = json.loads(CliRunner().invoke(app, ["findings", "--json"]).stdout)["total"]["to_claim"]
        page = sum(each["totals"]["usd"] or 0.0 for each in client.get("/promises.json").json())
        assert page == pytest.approx(sum(usd for *_, usd in rows)) == pytest.approx(inbox["total"]["to_claim"]) == pytest.approx(listed)
        tile = f"to claim once: {format_money(page)} in {len(rows)} claim"
        assert tile in Parsed(client.get("/findings").text).one("main").text.replace("To claim", "to claim")
        assert tile in client.get("/").text.replace("To claim", "to claim")
        return page, rows

    usd, rows = sums()
    (broken,) = Parsed(client.get("/promises").text).all('tr[data-broken="local-1core"]')
    until = re.search(r"To claim until \d+ \w+ \d{4}", broken.text)
    assert until is not None and until[0] in Parsed(client.get("/providers/local-1core/promises").text).text
    assert until[0].lower() in " ".join(CliRunner().invoke(app, ["promises"], env={"COLUMNS": "300"}).stdout.lower().split())
    assert usd > 0 and rows == [("claim/local-1core/launch success", ("f1",), usd)]
    assert f"A credit of {format_money(usd)}, once: to claim until" in Parsed(client.get("/findings/f1").text).one("#ledger").text.replace(
        ": a credit", ": A credit"
    )
    said = f"; broke its promise of launch success, {format_money(usd)} (10 % of the month's bill) to claim until "
    lines = {f["finding_id"]: f["headline"] for f in client.get("/findings.json").json()["findings"]}
    assert said in lines["f1"] and lines["f1"] == client.get("/findings/f1.json").json()["finding"]["headline"]
    assert said in CliRunner().invoke(app, ["findings", "show", "f1"]).stdout.replace("\n      ", " ").replace("\n", " ")
    with open_archive() as archive:
        archive.set_finding_state("f1", "resolved", by="ada", why="capacity is back")
    assert sums() == (usd, [("claim/local-1core/launch success", (), usd)])
    assert "to claim" not in client.get("/findings/f1.json").json()["finding"]["headline"]
    assert "local-1core broke its promise of launch success" in Parsed(client.get("/findings").text).one("#unclaimed").text
    assert "No open finding claims: local-1core" in CliRunner().invoke(app, ["findings"]).stdout.replace("\n", " ")
    opened = datetime.now(timezone.utc) - timedelta(days=1)
    late = {"provider": "local-1core", "kind": "ticket", "opened": opened.isoformat(), "whose": "provider"}
    late["answered"] = (opened + timedelta(hours=5)).isoformat()
    with open_archive() as archive:
        for n in range(6):
            log_operation(archive, load(), late | {"what": f"question {n}", "reference": f"47{n}"}, "ada")
        (own,) = [view for view in archive.findings_of("local-1core", unsettled=True) if view.finding_id != "f2"]
    shared, (row,) = sums()
    assert row[0] == own.finding_id
    assert shared == pytest.approx(usd), "granted once for the month"
    with open_archive() as archive:
        again = replace(Finding.of(archive.finding("f1").detail), finding_id="f9", state="open")
        archive.save_findings([finding_record(again)])
    assert said not in client.get("/findings/f9.json").json()["finding"]["headline"], "the promise's own finding claims it"


def test_a_reader_without_access_to_costs_sees_no_claim_of_the_ledger(client: TestClient, config: Path, tmp_path: Path) -> None:
    promised(config, "sla: {launch_success: 99%, credit: 10%}")
    (config.parents[1] / "alerts.yaml").write_text("volumes:\n  - {provider: local-1core, time_per_month: 730h}\n")
    hidden = create_app(archive_url=f"sqlite:///{tmp_path / 'archive.db'}", reports=tmp_path, may_see_money=lambda: False)
    with TestClient(hidden) as found, open_archive() as archive:
        assert found.get("/findings.json").json()["amounts"] is None and "laim once" not in found.get("/").text
        archive.set_finding_state("f1", "resolved", by="ada", why="capacity is back")
        assert 'id="unclaimed"' not in found.get("/findings").text


def test_a_credit_of_unknown_amount_is_a_row_without_one(client: TestClient, config: Path) -> None:
    """No volume is declared: neither the page nor the ledger shows 0 USD."""
    promised(config, "sla: {launch_success: 99%, credit: 10%}")
    total = client.get("/findings.json").json()["total"]
    assert (total["claims"], total["claims_unknown"], total["to_claim"]) == (1, 1, 0.0)
    assert "to claim once: 1 credit of unknown amount" in Parsed(client.get("/findings").text).one("#total").text
    assert "a credit of unknown amount from local-1core" in Parsed(client.get("/promises").text).one("#summary").text
    promised(config, "sla: {launch_success: 99%}")
    time.sleep(2.1)  # for so long declarations are read once
    assert client.get("/findings.json").json()["total"]["claims"] == 0, "no credit is declared"
