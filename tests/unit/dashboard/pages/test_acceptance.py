"""The page of acceptances: which nodes go back, what to try first, and the same from the command that measures nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.fakes.trials import CONFIG
from tests.parsed import Parsed
from typer.testing import CliRunner

from plumbline.archive import open_archive
from plumbline.cli.app import app
from plumbline.dashboard.app import create_app
from plumbline.declarations import load
from plumbline.workflows.accept_nodes import write_kept_sheet
from plumbline.workflows.acceptances import winner_nodes

PROVIDER = "simulated-h100"
PENDING = '    - {kind: node_fault, since: "2026-01", on_nodes: [2], counters: {row_remap_pending: 1}}\n'


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """Two acceptances of four simulated nodes, of which one has a memory row that waits for a reset."""
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "var"))
    monkeypatch.chdir(tmp_path)
    shutil.copytree(CONFIG, tmp_path / "config")
    file = tmp_path / "config" / "providers" / f"{PROVIDER}.yaml"
    text = file.read_text().replace("enabled: false", "enabled: true")
    head, _, rest = text.partition("  drift:\n")
    file.write_text(f"{head}  drift:\n{PENDING}{rest[rest.index('prices:') :]}")
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(tmp_path / "config"))
    for campaign in ("accept-1", "accept-2"):
        done = CliRunner().invoke(app, ["accept", PROVIDER, "--campaign", campaign, "--nodes", "4"])
        assert done.exit_code == 4, done.output
    with TestClient(create_app()) as opened:
        yield opened


def test_the_sheet_of_the_dag_is_on_its_campaigns_page_and_can_be_written_again(client: TestClient, tmp_path: Path) -> None:
    assert "sheet.zip" not in client.get("/campaigns/accept-2").text and client.get("/campaigns/accept-2/sheet.zip").status_code == 404
    for _ in range(2):
        _, where = write_kept_sheet("accept-2", load().providers[PROVIDER], load().references)
    assert where == str(tmp_path / "var" / "acceptance" / "accept-2.zip")
    assert Parsed(client.get("/campaigns/accept-2").text).one('a[href="/campaigns/accept-2/sheet.zip"]').text == "Signed sheet"
    sent = client.get("/campaigns/accept-2/sheet.zip")
    assert sent.content == Path(where).read_bytes() and sent.headers["Content-Disposition"] == 'attachment; filename="accept-2.zip"'
    assert client.get("/campaigns/accept-1/sheet.zip").status_code == 404


def test_page_and_command_say_which_node_goes_back_and_what_to_try_first(client: TestClient) -> None:
    page = Parsed(client.get("/acceptance").text)
    printed = CliRunner().invoke(app, ["accept", PROVIDER, "--last", "--json"])
    (data,) = client.get("/acceptance.json").json()["deliveries"]
    assert printed.exit_code == 4 and json.loads(printed.stdout) == data
    assert (data["campaign_id"], data["judgement"]["verdict"], len(data["nodes"]), len(data["history"])) == ("accept-2", "broken", 4, 2)
    (bad,) = (node for node in data["nodes"] if node["verdict"] == "send back")
    row = page.one(f'tr[data-node="{bad["node"]}"]').text
    assert "reset first" in row.replace("\u00a0", " ") and "accept-1 : send back" in row and "nvidia-smi --gpu-reset" in bad["remedy"]
    assert "not measured" in data["network"] and "The network between nodes was not measured" in page.text
    assert page.one(".answer").text == f"Reset first 1 of 4 nodes: {bad['node']}."
    assert ("page", "/acceptance") in {(place["kind"], place["path"]) for place in client.get("/jump").json()}
    judged = [event for event in client.get("/since.json?since=1d").json()["events"] if event["kind"] == "acceptance"]
    assert [(event["campaign_id"], event["what"], event["simulated"]) for event in judged] == [
        (f"accept-{n}", "broken", True) for n in (2, 1)
    ]
    assert all(f"Delivery of {PROVIDER}: 3 of 4 nodes accepted" in event["text"] for event in judged)
    printed = CliRunner().invoke(app, ["accept", PROVIDER, "--last"])
    assert printed.exit_code == 4 and "reset its GPUs first" in " ".join(printed.stdout.split())

    own = Parsed(client.get("/campaigns/accept-1").text)
    assert own.one("#about").text.startswith("An acceptance judges nodes") and own.one(f'tr[data-node="{bad["node"]}"]')
    assert "first time" in own.one(f'tr[data-node="{bad["node"]}"]').text, "as it was judged then"
    assert "Decisions based on this campaign" not in own.text and "Headline metrics" not in own.text
    (shown,) = client.get("/campaigns/accept-1.json").json()["deliveries"]
    assert (shown["campaign_id"], len(shown["nodes"])) == ("accept-1", 4)
    found = client.get("/jump/ids", params={"part": bad["node"]}).json()
    assert [place["kind"] for place in found[:2]] == ["node", "node"] and found[0]["path"].startswith(f"/acceptance#{PROVIDER}-")
    assert client.get(found[1]["path"]).status_code == 200 and "accept-2" in found[1]["path"]
    for command in (["scorecard", "accept-1"], ["report", "accept-1"]):
        refused = CliRunner().invoke(app, command)
        assert refused.exit_code == 2 and "judges nodes, not providers" in refused.stderr, refused.output

    none = CliRunner().invoke(app, ["accept", "local-1core", "--last"])
    assert none.exit_code == 2 and "no acceptance of local-1core is recorded" in none.stderr


def test_the_nodes_that_a_first_choice_did_not_get_accepted_are_named(client: TestClient) -> None:
    with open_archive() as archive:
        nodes = winner_nodes(archive, load(), PROVIDER)
        assert winner_nodes(archive, load(), "local-1core") is None and winner_nodes(archive, load(), None) is None
    assert nodes is not None and (nodes.campaign_id, nodes.send_back, len(nodes.reset_first), nodes.undecided) == ("accept-2", (), 1, ())
    assert (
        nodes.text.startswith(f"Nodes of {PROVIDER}, by its acceptance of ")
        and f"reset first 1 of 4 nodes: {nodes.reset_first[0]}." in nodes.text
    )


def test_without_an_acceptance_nothing_is_accepted(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    with open_archive(url), TestClient(create_app(archive_url=url)) as empty:
        assert Parsed(empty.get("/acceptance").text).all("#no-acceptance")
