"""A node asked for on a real cluster with the rights of the shipped role: it comes, closed nodes are no capacity, a quota is ours, and back again."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path

import pytest
import yaml
from tests.cluster import images
from tests.cluster.admin import Cluster
from tests.fakes.trials import cluster_provider, declared

from plumbline.analysis.availability import find_outages
from plumbline.archive import Archive, open_archive
from plumbline.declarations import Declarations, Provider
from plumbline.declarations.installation import REPOSITORY
from plumbline.launch.cluster import launcher, launcher_account
from plumbline.results.availability_check import AvailabilityCheck
from plumbline.workflows import check_availability

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]

BEGIN = datetime.now(timezone.utc) - timedelta(hours=6)
QUOTA = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "no-pods"}, "spec": {"hard": {"pods": "0"}}}


@pytest.fixture
def cluster(kubeconfig: Path) -> Cluster:
    return Cluster(kubeconfig)


@pytest.fixture
def provider(cluster: Cluster, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """A namespace of its own, whose pods need one core."""
    name = f"e2e-capacity-{secrets.token_hex(3)}"
    example = yaml.safe_load((REPOSITORY / "k8s" / "provider" / "overlays" / "example" / "kustomization.yaml").read_text())
    image = images.built("cpu", cluster.context, cluster.images())
    with cluster.namespace(name, {**example, "namespace": name}):
        granted = launcher_account.grant_access(launcher_account.admin_client(kubeconfig), name, lifetime_s=3600.0)
        extra = {"kube_config": json.dumps(granted.kubeconfig), "namespace": name}
        monkeypatch.setenv("AIRFLOW_CONN_K8S_A", json.dumps({"conn_type": "kubernetes", "extra": extra}))
        monkeypatch.setattr(launcher, "ask_cluster", partial(launcher.ask_cluster, patience=replace(launcher._PATIENCE, node_s=20.0)))
        made = cluster_provider(operated_by="provider", namespace=name, images={"training": image, "inference": image})
        watch = {"capacity": {"every": "15min"}}
        yield Provider.model_validate_json(json.dumps(json.loads(made.model_dump_json()) | {"watch": watch}))


@pytest.fixture
def archive(tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    for name in ("PLUMBLINE_RESULTS_URL", "PLUMBLINE_ARCHIVE_URL"):
        monkeypatch.delenv(name, raising=False)
    world: Declarations = replace(declared(), providers={provider.name: provider})
    monkeypatch.setattr(check_availability, "load_in_force", lambda: world)
    with open_archive() as opened:
        yield opened


def test_capacity_goes_and_comes_back_and_a_quota_is_ours(cluster: Cluster, provider: Provider, archive: Archive) -> None:
    asked: list[AvailabilityCheck] = []

    def ask() -> str | None:
        done = check_availability.check(provider.name, "capacity", BEGIN + timedelta(minutes=15 * len(asked))).observation
        assert done is not None
        asked.append(done)
        assert cluster.leftovers(namespace) == []
        return done.cause

    namespace = str(getattr(provider.launcher, "namespace", ""))
    assert ask() is None, asked[-1].detail
    assert asked[0].seconds is not None
    names = [node["metadata"]["name"] for node in cluster.nodes()]
    closed = {name: bool(cluster.rows(cluster.core.read_node(name))["spec"].get("unschedulable")) for name in names}
    try:
        for name in names:
            cluster.core.patch_node(name, {"spec": {"unschedulable": True}})
        assert [ask() for _ in range(3)] == ["insufficient_capacity"] * 3
        assert len(archive.findings_of(provider.name, unsettled=True)) == 1
    finally:
        for name, before in closed.items():
            cluster.core.patch_node(name, {"spec": {"unschedulable": before or None}})
    assert ask() is None
    assert archive.findings_of(provider.name, unsettled=True) == []
    cluster.core.create_namespaced_resource_quota(namespace, QUOTA)
    try:
        cluster.eventually(
            lambda: "hard" in (cluster.rows(cluster.core.read_namespaced_resource_quota("no-pods", namespace)).get("status") or {})
        )
        assert [ask() for _ in range(3)] == ["quota_exceeded"] * 3
    finally:
        cluster.core.delete_namespaced_resource_quota("no-pods", namespace)
    assert ask() is None
    (outage,) = find_outages(asked, 900.0)
    assert (outage.whose, outage.misses, outage.ended) == ("provider", 3, asked[4].at)
