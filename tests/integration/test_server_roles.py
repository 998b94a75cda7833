"""The team server's roles and first user in a real database of FAB's: what each may, as Airflow's own auth manager answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.quick_python import search_path

pytestmark = pytest.mark.full  # test_plumbline_plugin.py tries the roles of the simple auth manager
REPOSITORY = Path(__file__).resolve().parents[2]
PASSWORD = "-a-password-of-this-test"

ASK = r"""
import json, os, warnings
warnings.filterwarnings("ignore")
from plumbline.embedded.team_server import MONEY, MONEY_PERMISSION, READER, make_first_user, make_roles, _security

make_roles()
make_roles()
made = [make_first_user("boss", os.environ["PLUMBLINE_ADMIN_PASSWORD"]) for _ in range(2)]
from airflow.api_fastapi.app import create_app, get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity
from fastapi.testclient import TestClient

app = create_app()
manager = get_auth_manager()
answers = {}
with _security() as security:
    for name, roles in {"reader": [READER], "buyer": [READER, MONEY], "operator": ["Op"]}.items():
        security.add_user(name, name, name, name + "@localhost", [security.find_role(role) for role in roles], "x")
    for name in ("boss", "reader", "buyer", "operator"):
        user = security.find_user(name)
        answers[name] = {
            "pages": manager.is_authorized_view(access_view=AccessView.PLUGINS, user=user),
            "dags": manager.is_authorized_dag(method="GET", user=user),
            "trigger": manager.is_authorized_dag(method="POST", access_entity=DagAccessEntity.RUN, user=user),
            "logs": manager.is_authorized_dag(method="GET", access_entity=DagAccessEntity.TASK_LOGS, user=user),
            "xcoms": manager.is_authorized_dag(method="GET", access_entity=DagAccessEntity.XCOM, user=user),
            "connections": manager.is_authorized_connection(method="GET", user=user),
            "variables": manager.is_authorized_variable(method="GET", user=user),
            "configuration": manager.is_authorized_configuration(method="GET", user=user),
            "money": manager.is_authorized_custom_view(method="GET", resource_name=MONEY_PERMISSION[1], user=user),
        }
client = TestClient(app, raise_server_exceptions=False, follow_redirects=False)
login = lambda name, password: client.post("/auth/token", json={"username": name, "password": password})
headers = {"Authorization": "Bearer " + login("reader", "x").json().get("access_token", "")}
print("ANSWER" + json.dumps({
    "made": made,
    "may": answers,
    "login": [login("boss", os.environ["PLUMBLINE_ADMIN_PASSWORD"]).status_code, login("boss", "admin").status_code],
    "reader": {path: client.get(path, headers=headers).status_code for path in (
        "/plumbline/openapi.json", "/plumbline/prices", "/plumbline/prices.json", "/api/v2/connections", "/api/v2/variables", "/api/v2/dags")},
}))
"""


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home = tmp_path_factory.mktemp("fab")
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "PLUMBLINE"))},
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__AUTH_MANAGER": "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(REPOSITORY / "plugins"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__API__SECRET_KEY": "a-secret-of-this-test",
        "AIRFLOW__API_AUTH__JWT_SECRET": "a-secret-of-this-test-that-is-long-enough-for-sha512-signatures-0123456789",
        "PYTHONPATH": search_path(REPOSITORY / "include", REPOSITORY),
        "PLUMBLINE_HOME": str(home / "plumbline"),
        "PLUMBLINE_ADMIN_PASSWORD": PASSWORD,
    }
    migrate = [sys.executable, "-m", "airflow", "db", "migrate"]
    subprocess.run(migrate, env=environment, cwd=home, check=True, capture_output=True, timeout=300)
    done = subprocess.run([sys.executable, "-c", ASK], env=environment, cwd=home, capture_output=True, text=True, timeout=300, check=False)
    line = next((line for line in done.stdout.splitlines() if line.startswith("ANSWER")), None)
    assert line is not None, done.stdout[-2000:] + done.stderr[-3000:]
    found: dict[str, Any] = json.loads(line.removeprefix("ANSWER"))
    return found


@pytest.mark.fault("a reader reaches for credentials, logs or a trigger", ends="refused", keeps="connections, variables and the providers")
def test_a_reader_reads_pages_and_runs_and_nothing_else(answer: dict[str, Any]) -> None:
    may = answer["may"]["reader"]
    assert {name for name, allowed in may.items() if allowed} == {"pages", "dags"}
    found = answer["reader"]
    assert found["/plumbline/openapi.json"] == found["/api/v2/dags"] == 200
    assert {path for path, status in found.items() if status == 403} == set(found) - {"/plumbline/openapi.json", "/api/v2/dags"}


def test_money_is_for_its_own_role_operators_and_administrators(answer: dict[str, Any]) -> None:
    assert {name: may["money"] for name, may in answer["may"].items()} == {"boss": True, "reader": False, "buyer": True, "operator": True}
    assert {name for name, may in answer["may"].items() if may["connections"]} == {"boss", "operator"}


def test_the_first_user_is_made_once_and_logs_in(answer: dict[str, Any]) -> None:
    assert answer["made"] == [True, False]
    assert answer["login"] == [201, 401]
