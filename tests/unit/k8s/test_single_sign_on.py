"""k8s/airflow/webserver_config.py: groups lead to roles that exist."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from plumbline.embedded.team_server import MONEY, READER


def test_groups_lead_to_roles_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OIDC_CLIENT_ID", "OIDC_CLIENT_SECRET"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("OIDC_ISSUER", "https://sso.example.com/realms/team")
    config = runpy.run_path(str(Path(__file__).resolve().parents[3] / "k8s" / "airflow" / "webserver_config.py"))
    assert {role for roles in config["AUTH_ROLES_MAPPING"].values() for role in roles} == {"Admin", "Op", READER, MONEY}
    assert (
        config["OAUTH_PROVIDERS"][0]["remote_app"]["server_metadata_url"]
        == "https://sso.example.com/realms/team/.well-known/openid-configuration"
    )
