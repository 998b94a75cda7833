"""The launcher's kubeconfig: its own token, nothing of the administrator's."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.fakes.fake_kubernetes import FakeKubernetes

from plumbline.launch.cluster.launcher_account import SERVICE_ACCOUNT, TOKEN_SECRET, AccessError, admin_client, grant_access

DAY_S = 86400.0


@pytest.fixture
def kube() -> Iterator[FakeKubernetes]:
    with FakeKubernetes() as running:
        running.put("serviceaccounts", "plumbline", {"metadata": {"name": SERVICE_ACCOUNT}})
        yield running


def admin(kube: FakeKubernetes, folder: Path) -> Any:
    held = kube.kubeconfig()
    held["contexts"].append({"name": "elsewhere", "context": {"cluster": "fake", "user": "nobody"}})
    file = folder / "admin.yaml"
    file.write_text(yaml.safe_dump(held))
    return admin_client(file)


def test_a_token_that_ends(kube: FakeKubernetes, tmp_path: Path) -> None:
    access = grant_access(admin(kube, tmp_path), "plumbline", lifetime_s=30 * DAY_S)
    assert access.expires is not None and not access.shortened
    assert timedelta(days=29) < access.expires - datetime.now(timezone.utc) <= timedelta(days=30)
    context = access.kubeconfig["contexts"][0]["context"]
    assert context["namespace"] == "plumbline" and context["user"] == SERVICE_ACCOUNT
    assert access.kubeconfig["clusters"][0]["cluster"] == {"server": kube.url}
    (asked,) = kube.called("POST */serviceaccounts/plumbline-launcher/token")
    assert asked.body["spec"]["expirationSeconds"] == 30 * DAY_S


def test_a_cluster_that_grants_less_is_told(kube: FakeKubernetes, tmp_path: Path) -> None:
    kube.longest_token_s = DAY_S
    assert grant_access(admin(kube, tmp_path), "plumbline", lifetime_s=90 * DAY_S).shortened
    assert not grant_access(admin(kube, tmp_path), "plumbline", lifetime_s=DAY_S).shortened


def test_a_token_without_an_end_is_made_once_and_found_again(kube: FakeKubernetes, tmp_path: Path) -> None:
    first = grant_access(admin(kube, tmp_path), "plumbline", lifetime_s=None)
    again = grant_access(admin(kube, tmp_path), "plumbline", lifetime_s=None)
    assert first.kubeconfig == again.kubeconfig and first.expires is None
    assert kube.leftovers() == [f"secrets/{TOKEN_SECRET}"]


def test_the_address_may_differ_and_the_certificate_travels_along(kube: FakeKubernetes, tmp_path: Path) -> None:
    authority = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()
    client = admin(kube, tmp_path)
    (tmp_path / "ca.crt").write_bytes(b"-----BEGIN CERTIFICATE-----")
    client.configuration.ssl_ca_cert = str(tmp_path / "ca.crt")  # what the loader makes of an https server's authority
    access = grant_access(client, "plumbline", lifetime_s=DAY_S, server="https://lb.example.com:6443")
    assert access.kubeconfig["clusters"][0]["cluster"] == {"server": "https://lb.example.com:6443", "certificate-authority-data": authority}


def test_as_an_airflow_connection(kube: FakeKubernetes, tmp_path: Path) -> None:
    access = grant_access(admin(kube, tmp_path), "plumbline", lifetime_s=DAY_S)
    row = access.as_connection()
    extra = json.loads(row["extra"])
    assert row["conn_type"] == "kubernetes" and json.loads(extra["kube_config"]) == access.kubeconfig and extra["namespace"] == "plumbline"


def test_a_namespace_that_was_not_prepared(kube: FakeKubernetes, tmp_path: Path) -> None:
    for lifetime_s in (DAY_S, None):
        with pytest.raises(AccessError, match=f"{SERVICE_ACCOUNT} .*default.*k8s/provider"):
            grant_access(admin(kube, tmp_path), "default", lifetime_s=lifetime_s)
    assert kube.leftovers("default") == []


def test_credentials_that_are_no_administrators(kube: FakeKubernetes, tmp_path: Path) -> None:
    kube.answer_next(403, match="POST */token")
    with pytest.raises(AccessError, match="serviceaccounts/token in plumbline"):
        grant_access(admin(kube, tmp_path), "plumbline", lifetime_s=DAY_S)


@pytest.mark.fault("a cluster does not answer", ends="unreachable", keeps="the declaration is not blamed")
def test_a_cluster_that_is_away(kube: FakeKubernetes, tmp_path: Path) -> None:
    client = admin(kube, tmp_path)
    client.configuration.retries = False
    kube.down()
    with pytest.raises(AccessError, match=kube.url):
        grant_access(client, "plumbline", lifetime_s=DAY_S)


def test_no_kubeconfig_and_no_such_context(kube: FakeKubernetes, tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="KUBECONFIG"):
        admin_client(tmp_path / "nothing.yaml")
    admin(kube, tmp_path)
    with pytest.raises(AccessError, match="context nowhere"):
        admin_client(tmp_path / "admin.yaml", "nowhere")
