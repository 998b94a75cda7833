"""The plugin inside Airflow's own API server app: closed to anonymous users on every route, open to a viewer, in the navigation."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.browser.sample import campaign, record
from tests.fakes.quick_python import search_path

from plumbline.archive import FindingRecord, open_archive
from plumbline.presentation.html.report import write_report

REPOSITORY = Path(__file__).resolve().parents[2]

ASK = r"""
import json, sys, warnings
warnings.filterwarnings("ignore")
from airflow.cli.cli_parser import get_parser
for words in (["db", "migrate"], ["dags", "reserialize"]):  # its tables, also of revoked tokens, and the DAGs that buttons start
    parsed = get_parser().parse_args(words)
    parsed.func(parsed)
from fastapi.testclient import TestClient
from starlette.routing import Mount
from airflow.api_fastapi.app import create_app, get_auth_manager
from tests.data.page_addresses import address_of, routes_of
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

app = create_app()
mount = next(r for r in app.routes if isinstance(r, Mount) and r.path == "/plumbline")
heavy_before = "plumbline.dashboard.app" in sys.modules
known = json.loads(sys.argv[1])
# A team that makes several choices of a kind is asked about one of them.
which = lambda route: "?workload=" + known["workload"] if "/decisions/{team}/{kind}" in route.path else ""
paths = ["/plumbline" + address_of(route, known) + which(route) for route in routes_of(mount.app.app) if "GET" in route.methods]
manager = get_auth_manager()
token = lambda role: manager.generate_jwt(SimpleAuthManagerUser(username="ann", role=role))
client = lambda **more: TestClient(app, raise_server_exceptions=False, follow_redirects=False, **more)
status = lambda c, headers=None: {p: c.get(p, headers=headers).status_code for p in paths}
import re
def post(role, token, action="acknowledge"):
    form = {"form": token, "action": action, "why": "ticket 7"}
    done = client().post("/plumbline/findings/act", data=form, headers={"Authorization": "Bearer " + ("x" if role is None else globals()["token"](role))})
    return [done.status_code, "ann" in done.text]
seen = {r: client().get("/plumbline/findings/f1", headers={"Authorization": "Bearer " + token(r)}).text for r in ("viewer", "op")}
from dataclasses import asdict
from unittest.mock import patch
with patch.object(type(manager), "is_authorized_dag", lambda self, *, method, details=None, **more: details is None or details.id != "drift_review"):
    elsewhere = client().get("/plumbline/findings/f1", headers={"Authorization": "Bearer " + token("op")})
signed = re.findall(r'name="form" value="([^"]+)"', seen["op"])[0]
acts = {
    "shown": {r: 'name="action"' in text for r, text in seen.items()},
    "anonymous": post(None, signed), "viewer": post("viewer", signed), "unsigned": post("op", "nonsense"),
    "first": post("op", signed), "again": post("op", signed),
}
from airflow.models import DagRun
from airflow.utils.session import create_session
with create_session() as session:
    acts["runs"] = [[r.dag_id, r.triggering_user_name, {k: v for k, v in r.conf.items() if k != "signed_request"}, str(r.state)] for r in session.query(DagRun)]
    from plumbline.airflow.signed_requests import starter_of
    acts["starters"] = [asdict(starter_of(r)) for r in session.query(DagRun)]
from airflow import plugins_manager
plugins = plugins_manager.get_plugin_info()
from plumbline.airflow.action_runs import ActionRuns
from plumbline.workflows.plan import RepeatRequest
from plumbline.workflows.finding_action import AlreadyStarted

repeats = RepeatRequest("local-1core", "gpt-tiny-cpu", "training", 6, "2026-11", "x")
started = ActionRuns().start(repeats, repeats.key, "ann")
try:
    ActionRuns().start(repeats, repeats.key, "bob")
    refused = ""
except AlreadyStarted as error:
    refused = error.run.by
latest = ActionRuns().latest()[repeats.key]
from dataclasses import replace
from airflow.models import DagModel
from plumbline.workflows.finding_action import ActionNotStarted
pauses = []
with create_session() as session:
    session.add(DagModel(dag_id="benchmark_paused", bundle_name="dags-folder", is_paused=True, is_stale=False))
for dag_id in ("benchmark_paused", "benchmark_nowhere"):
    try:
        ActionRuns().start(replace(repeats, starts=dag_id), dag_id, "ann")
    except ActionNotStarted as error:
        pauses.append([str(error), error.path])

from datetime import datetime, timezone
from dataclasses import asdict
from airflow.models import TaskInstance
from airflow.models.dag import DagTag
from airflow.utils.types import DagRunType
from plumbline.airflow.action_runs import active_runs
from plumbline.declarations import load
from sqlalchemy import event, insert
began = datetime(2026, 11, 1, 2, tzinfo=timezone.utc)
with create_session() as session:
    for dag_id, tag, state in (("benchmark_local_1core", "plumbline", "running"), ("other", "theirs", "running"), ("baseline_decision", "plumbline", "running"), ("upkeep_daily", "plumbline", "success")):
        session.add(DagModel(dag_id=dag_id, bundle_name="dags-folder", tags=[DagTag(name=tag, dag_id=dag_id)]))
        session.flush()
        session.add(DagRun(dag_id=dag_id, run_id="manual__2026-11-01T02:00:00+00:00", run_type=DagRunType.MANUAL, state=state, start_date=began, run_after=began))
        session.flush()
    known_tasks = (("run", 0, "success"), ("run", 1, "failed"), ("run", 2, "running"), ("other", 0, "success"), ("run", -1, "skipped"))
    for number, (task, index, state) in enumerate(known_tasks):
        lane = "inference" if index < 0 else "training"
        values = {"task_id": f"{lane}.trial.{task}", "dag_id": "benchmark_local_1core", "run_id": "manual__2026-11-01T02:00:00+00:00", "map_index": index, "pool": "p", "state": state}
        session.execute(insert(TaskInstance).values(**values))
asked = []
engine = session.get_bind()
note = lambda *given: asked.append(given[2])
event.listen(engine, "before_cursor_execute", note)
running = [asdict(run) for run in active_runs()]
event.remove(engine, "before_cursor_execute", note)
strip = client(cookies={"_token": token("viewer")}).get("/plumbline/").text
with create_session() as session:
    session.execute(DagTag.__table__.delete())
idle = client(cookies={"_token": token("viewer")}).get("/plumbline/").text
with engine.begin() as connection:
    connection.exec_driver_sql("DROP TABLE dag_tag")
broken = client(cookies={"_token": token("viewer")}).get("/plumbline/")
tile = lambda text: (re.findall(r'href="([^"]*)"[^>]*><span class="kind">((?:Running now|Newest campaign))</span><b>([^<]*)</b><small>([^<]*)', text) or [None])[0]

print("ANSWER" + json.dumps({
    "paths": paths,
    "heavy_before": heavy_before,
    "anonymous": status(client()),
    "wrong": status(client(), {"Authorization": "Bearer nonsense"}),
    "viewer": status(client(), {"Authorization": "Bearer " + token("viewer")}),
    "op": status(client(), {"Authorization": "Bearer " + token("op")}),
    "cookie": status(client(cookies={"_token": token("viewer")})),
    "page": client(cookies={"_token": token("viewer")}).get("/plumbline/").text,
    "acts": acts,
    "elsewhere": [elsewhere.status_code, elsewhere.text],
    "running": running,
    "statements": len([s for s in asked if s.lstrip().upper().startswith("SELECT")]),
    "strip": tile(strip), "idle": tile(idle), "broken": [broken.status_code, tile(broken.text)],
    "repeats": [started.path, refused, latest.action, latest.why, latest.state],
    "pauses": pauses,
    "views": [v for p in plugins if p["name"] == "plumbline" for v in p.get("external_views", [])],
}, default=str))
"""


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home = tmp_path_factory.mktemp("airflow")
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "PLUMBLINE"))},
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(REPOSITORY / "plugins"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__CORE__FERNET_KEY": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
        "AIRFLOW__API_AUTH__JWT_SECRET": "a-secret-of-this-test-that-is-long-enough-for-sha512-signatures-0123456789",
        "PYTHONPATH": search_path(REPOSITORY / "include", REPOSITORY),
        "PLUMBLINE_HOME": str(home / "plumbline"),
    }
    data = campaign(home / "plumbline" / "results", repeats=1)
    with open_archive(f"sqlite:///{home / 'plumbline' / 'archive.db'}") as archive:
        record(archive, data)
        first = data.documents[0].trial
        archive.save_findings(
            [FindingRecord("f1", first.series_key, first.campaign_id, first.provider.name, "performance", "warn", "WARN  a test")]
        )
    write_report(data, home / "plumbline" / "reports", ("csv",))
    # A report of this size has its raw data inside; a large one has it beside.
    (home / "plumbline" / "reports" / data.campaign_id / "raw.html").write_text("<!doctype html><title>raw data</title>")
    known = {
        "campaign_id": data.campaign_id,
        "trial_id": first.trial_id,
        "series_key": first.series_key,
        "provider": first.provider.name,
        "workload": first.workload.name,
        "kind": first.workload.kind,
        "team": "platform",
        "metric": "step_time",
        "finding_id": "f1",
        "number": "0",
    }
    (home / "dags").mkdir()
    for name in ("finding_action.py", "rerun.py"):
        shutil.copy(REPOSITORY / "dags" / name, home / "dags")
    done = subprocess.run(
        [sys.executable, "-c", ASK, json.dumps(known)], env=environment, cwd=home, capture_output=True, text=True, timeout=180, check=False
    )
    line = next((line for line in done.stdout.splitlines() if line.startswith("ANSWER")), None)
    assert line is not None, done.stdout[-2000:] + done.stderr[-2000:]
    found: dict[str, Any] = json.loads(line.removeprefix("ANSWER"))
    return found


def test_every_route_is_closed_to_people_without_a_login(answer: dict[str, Any]) -> None:
    assert len(answer["paths"]) >= 20
    assert set(answer["anonymous"].values()) <= {401, 403}
    assert set(answer["wrong"].values()) <= {401, 403}


MONEY = (
    "/prices",
    "/spend",
    "/budgets",
    "/invoices",
    "/owning",
    "/decisions",
    "/reports/",
    "/tables/",
    "/data-docs/",
    "/sheet.zip",
    "/claim.eml",
)


@pytest.mark.fault("a viewer of the simple auth manager asks for prices", ends="refused", keeps="them for operators")
def test_a_viewer_sees_every_page_but_those_of_money_by_token_and_by_cookie(answer: dict[str, Any]) -> None:
    # No check wrote Data Docs, and the campaign is no acceptance.
    missing = [path for path in answer["paths"] if path.endswith(("/data-docs/lab-training/index.html", "/sheet.zip"))]
    assert len(missing) == 2
    assert {path: status for path, status in answer["op"].items() if status != 200} == {
        **dict.fromkeys(missing, 404),
        "/plumbline/budgets": 308,  # moved to /spend
        "/plumbline/decisions/platform/training/negotiate?workload=gpt-tiny-cpu": 308,  # part of the decision's page
        "/plumbline/findings/f1/claim.eml": 404,  # it proves no claim
    }
    for who in ("viewer", "cookie"):
        refused = {path for path, status in answer[who].items() if status == 403}
        assert refused == {path for path in answer["paths"] if any(part in path for part in MONEY)}
        assert set(answer[who].values()) == {200, 403}, answer[who]
    assert 'href="/plumbline/static/report.css?v=' in answer["page"]


@pytest.mark.fault("a viewer, or a form without its token, acts on a finding", ends="refused", keeps="the finding as it was")
def test_who_may_start_runs_may_act_on_findings_and_only_once(answer: dict[str, Any]) -> None:
    acts = answer["acts"]
    assert acts["shown"] == {"viewer": False, "op": True}
    assert acts["anonymous"][0] in {401, 403}
    assert (acts["viewer"][0], acts["unsigned"][0]) == (403, 403)
    assert (acts["first"][0], acts["again"]) == (303, [409, True])
    conf = {"finding": "f1", "action": "acknowledge", "why": "ticket 7", "until": None}
    assert acts["runs"] == [["finding_action", "ann", conf, "queued"]]
    assert acts["starters"] == [{"name": "ann", "from_page": True}]


@pytest.mark.fault("a user who may see plugins, but not Plumbline's DAGs, opens a page", ends="refused", keeps="what the pages show")
def test_who_may_not_read_our_dags_sees_no_page(answer: dict[str, Any]) -> None:
    status, text = answer["elsewhere"]
    assert status == 403 and "a role that may read its DAGs, such as drift_review" in text


def test_repeats_start_the_rerun_once(answer: dict[str, Any]) -> None:
    path, refused, action, why, state = answer["repeats"]
    assert path.startswith("/dags/rerun/runs/repeats_local-1core_gpt-tiny-cpu_2026-11_0")
    assert (refused, action, why, state) == ("ann", "rerun", "next best experiment: x", "queued")


def test_a_run_that_would_wait_for_a_paused_dag_is_not_started(answer: dict[str, Any]) -> None:
    (paused, path), (missing, nowhere) = answer["pauses"]
    assert paused.startswith("benchmark_paused is paused") and "dags unpause benchmark_paused" in paused
    assert (path, nowhere) == ("/dags/benchmark_paused", "") and "not read the DAG benchmark_nowhere" in missing


def test_the_overview_says_what_runs_now_in_one_statement(answer: dict[str, Any]) -> None:
    by_dag = {run["dag_id"]: run for run in answer["running"]}
    assert list(by_dag) == ["benchmark_local_1core", "finding_action", "rerun"], "others' runs, questions and ended runs are left out"
    first = by_dag["benchmark_local_1core"]
    assert (first["state"], first["trials"], first["done"], first["since"]) == ("running", 3, 2, "2026-11-01 02:00:00+00:00")
    assert first["path"] == "/dags/benchmark_local_1core/runs/manual__2026-11-01T02%3A00%3A00%2B00%3A00"
    assert (by_dag["rerun"]["state"], by_dag["rerun"]["trials"]) == ("queued", 0)
    assert answer["statements"] == 1
    link, name, value, note = answer["strip"]
    assert (link, name, value) == (first["path"], "Running now", "1 running, 2 queued")
    assert note.startswith("local-1core 2 of 3 trials since 2026-11-01 02:00 UTC; finding_action queued since ")


@pytest.mark.fault("Airflow's own database refuses the overview's question", ends="the newest campaign instead", keeps="the page")
def test_the_overview_needs_no_answer_of_airflow(answer: dict[str, Any]) -> None:
    assert answer["idle"][:3] == ["/plumbline/campaigns/2026-11", "Running now", "nothing"]
    status, (link, name, value, _) = answer["broken"]
    assert (status, link, name, value) == (200, "/plumbline/campaigns/2026-11", "Newest campaign", "2026-11")


def test_it_stands_in_the_navigation_and_costs_nothing_until_it_is_asked(answer: dict[str, Any]) -> None:
    assert [(v["name"], v["href"], v["destination"]) for v in answer["views"]] == [("Plumbline", "/plumbline/", "nav")]
    assert answer["heavy_before"] is False
