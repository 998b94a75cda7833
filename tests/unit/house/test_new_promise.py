"""A promise is one file: dropped beside the others, a toy is declared, judged, shown, reported and claimed, and without it nothing knows it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import Field
from tests.documented import ROOT, page
from tests.fakes.installation import CONFIG
from tests.fakes.quick_python import search_path
from typer.testing import CliRunner

import plumbline
from plumbline.cli.app import app
from plumbline.declarations.promises import PROMISES, Promise, register
from plumbline.declarations.promises.judging import promise as room

PACKAGE = Path(plumbline.__file__).parent
TOY = """
from typing import ClassVar

from pydantic import Field

from plumbline.declarations.promises import JudgedPromise, Promise, PromiseRow, format_seconds, judge_share, register
from plumbline.metrics.proportions import wilson_interval
from plumbline.metrics.units import Duration


@register
class MaintenanceLength(Promise[float]):
    id = "maintenance_length"
    fields: ClassVar = {"maintenance_length": (Duration | None, Field(None, description="of each announced window, such as 2h"))}
    noun = "maintenance length"
    unit = "s"

    def judge(self, terms, seen):
        longest = self.promised(terms)
        if longest is not None:
            windows = [((e.solved or seen.now) - e.opened).total_seconds() for e in seen.log if e.kind == "maintenance"]
            kept = judge_share(wilson_interval(sum(lasted <= longest for lasted in windows), len(windows)), 0.95)
            measured = f"{kept.share.successes} of {len(windows)} windows within it"
            row = PromiseRow.of_tries(self.noun, f"at most {format_seconds(longest)}", measured, kept, "window", "longer one")
            yield JudgedPromise(self, row, "log", terms.credit)
"""
NAME = "local-1core"
SLA = "sla: {maintenance_length: 2h, credit: 10%, clause: Annex C}"
USE = """\
import json, os, sys
from pathlib import Path
from fastapi.testclient import TestClient
from tests.data.result_documents import document, provider, trial
from tests.parsed import Parsed
from typer.testing import CliRunner
from plumbline.archive import open_archive
from plumbline.cli.app import app
from plumbline.dashboard.app import create_app

def run(*words):
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, (words, done.output, done.stderr)
    return done.stdout

name, month = "local-1core", sys.argv[1]
with open_archive() as archive:
    archive.record(document(trial(where=provider(name))), uri="file:///store")
shown = {"check": run("check")}
for day in (3, 4, 5):
    begin, end = f"{month}-0{day}T01:00Z", f"{month}-0{day}T09:00Z"
    run("log", "maintenance", name, "--what", "new switches", "--opened", begin, "--solved", end, "--whose", "provider")
shown["promises"] = json.loads(run("promises", name, "--json"))[0]["promises"]
(finding,) = json.loads(run("findings", "list", "--json"))["findings"]
shown["finding"] = finding
with TestClient(create_app(reports=Path.cwd())) as client:
    for key, path in (("provider", f"/providers/{name}"), ("page", f"/providers/{name}/promises"), ("claimable", f"/findings/{finding['finding_id']}")):
        shown[key] = Parsed(client.get(path).text).text
run("findings", "claim", finding["finding_id"], "claim")
shown["letter"] = Path("claim/claim.txt").read_text()
print(json.dumps(shown))
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package with a file more among the promises, everything else a link to its own; an installation whose provider makes that promise."""
    inner = tmp_path / "site" / "plumbline" / "declarations" / "promises"
    for folder, copy in ((PACKAGE, inner.parents[1]), (PACKAGE / "declarations", inner.parent), (PACKAGE / "declarations/promises", inner)):
        copy.mkdir(parents=True)
        for each in folder.iterdir():
            if each.name not in ("declarations", "promises", "promises.py", "__pycache__") or (each.is_file() and folder != PACKAGE):
                (copy / each.name).symlink_to(each)
    (inner / "maintenance_length.py").write_text(TOY)
    shutil.copytree(CONFIG, tmp_path / "config")
    provider = tmp_path / "config" / "providers" / f"{NAME}.yaml"
    provider.write_text(re.sub(r"^sla:.*$", SLA, provider.read_text(), flags=re.MULTILINE))
    for name in [name for name in os.environ if name.startswith("PLUMBLINE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(tmp_path / "config"))
    return tmp_path / "site"


@pytest.mark.integration
def test_a_new_promise_is_declared_judged_shown_reported_and_claimed_from_one_file(site: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", USE, "2026-09"]
    env = {**os.environ, "PYTHONPATH": search_path(site, ROOT)}
    printed = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, cwd=tmp_path, check=True).stdout
    shown: dict[str, Any] = json.loads(printed.splitlines()[-1])
    (row,) = [row for row in shown["promises"] if row["name"] == "maintenance length"]
    assert (row["promised"], row["measured"], row["tries"]["verdict"]) == ("at most 2.00 h", "0 of 3 windows within it", "broken")
    assert row["credit"].startswith("10 % of the month's bill")
    assert "broke its promise of maintenance length" in shown["finding"]["headline"]
    assert "maintenance length 2.00 h" in shown["provider"] and "Contract none declared" not in shown["provider"]
    assert "Maintenance length at most 2.00 h 0 of 3 windows within it" in " ".join(shown["page"].split())
    assert "Maintenance length: promised at most 2.00 h" in shown["claimable"]
    assert (
        "Your promise of maintenance length is broken" in shown["letter"]
        and "Credit for maintenance length: 10 % of the month's bill" in shown["letter"]
    )


def test_without_its_file_the_promise_is_no_field(site: Path) -> None:
    gone = CliRunner().invoke(app, ["check"])
    assert gone.exit_code == 2 and "sla.maintenance_length" in " ".join(gone.stderr.split())


def test_a_promise_is_one_file_of_its_name() -> None:
    files = {path.stem for path in (PACKAGE / "declarations" / "promises").glob("*.py")} - {"__init__"}
    assert files == {one.id for one in PROMISES} == {type(one).__module__.rpartition(".")[2] for one in PROMISES}


def test_a_field_is_of_one_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    class Second(Promise[float]):
        id = "second"
        noun = "second"
        fields: ClassVar = {"second": (float | None, None), "credits": (float | None, Field(None))}

    class Nameless(Second):
        id = "third"

    monkeypatch.setattr(room, "REGISTERED", list(room.REGISTERED))
    with pytest.raises(ValueError, match="second declares credits of the promise availability"):
        register(Second)
    with pytest.raises(ValueError, match="third declares second, credits; expected a field third"):
        register(Nameless)
    assert {one.id for one in room.REGISTERED} == {one.id for one in PROMISES}


def test_the_toy_of_the_page_is_the_one_that_is_tried() -> None:
    assert TOY.strip() in page("extend")
