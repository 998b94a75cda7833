"""Uptime of a real cluster with the rights of the shipped role: up, one node of the rented ones without a kubelet, cordoned, and back again."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
import yaml
from tests.cluster.admin import Cluster
from tests.fakes.trials import cluster_provider, declared

from plumbline.analysis.availability import availability, find_outages
from plumbline.archive import Archive, open_archive
from plumbline.declarations import Declarations, Provider
from plumbline.declarations.installation import REPOSITORY
from plumbline.launch.cluster import launcher_account
from plumbline.metrics.time_spans import month_span
from plumbline.results.availability_check import MAINTENANCE, AvailabilityCheck
from plumbline.workflows import check_availability

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

BEGIN = month_span(datetime.now(timezone.utc))[0]
EVERY = timedelta(minutes=5)
LABEL = "plumbline.test/rented"


@pytest.fixture
def cluster(kubeconfig: Path) -> Cluster:
    return Cluster(kubeconfig)


@pytest.fixture
def rented(cluster: Cluster) -> Iterator[str]:
    """A label of the cluster's first node, and of one more that no kubelet keeps alive."""
    mark, first = secrets.token_hex(3), cluster.nodes()[0]["metadata"]["name"]
    cluster.label(first, {LABEL: mark})
    dead = f"e2e-no-kubelet-{mark}"
    try:
        cluster.core.create_node({"metadata": {"name": dead, "labels": {LABEL: mark}}})
        yield mark
    finally:
        cluster.core.delete_node(dead)
        cluster.label(first, {LABEL: None})


@pytest.fixture
def provider(cluster: Cluster, kubeconfig: Path, rented: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    name = f"e2e-uptime-{rented}"
    example = yaml.safe_load((REPOSITORY / "k8s" / "provider" / "overlays" / "example" / "kustomization.yaml").read_text())
    with cluster.namespace(name, {**example, "namespace": name}):
        granted = launcher_account.grant_access(launcher_account.admin_client(kubeconfig), name, lifetime_s=3600.0)
        extra = {"kube_config": json.dumps(granted.kubeconfig), "namespace": name}
        monkeypatch.setenv("AIRFLOW_CONN_K8S_A", json.dumps({"conn_type": "kubernetes", "extra": extra}))
        made = cluster_provider(namespace=name, node_selector={LABEL: rented})
        watch = {"uptime": {"every": "5min", "ready_nodes": 1}}
        yield Provider.model_validate_json(json.dumps(json.loads(made.model_dump_json()) | {"watch": watch}))


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    for name in ("PLUMBLINE_RESULTS_URL", "PLUMBLINE_ARCHIVE_URL"):
        monkeypatch.delenv(name, raising=False)
    with open_archive() as opened:
        yield opened


def test_a_dead_node_is_down_a_cordoned_one_is_apart_and_the_api_alone_answers(
    cluster: Cluster, provider: Provider, archive: Archive, rented: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[AvailabilityCheck] = []

    def ask(ready_nodes: int) -> str | None:
        uptime = provider.watch.uptime
        assert uptime is not None
        watch = provider.watch.model_copy(update={"uptime": uptime.model_copy(update={"ready_nodes": ready_nodes})})
        world: Declarations = replace(declared(), providers={provider.name: provider.model_copy(update={"watch": watch})})
        monkeypatch.setattr(check_availability, "load_in_force", lambda: world)
        done = check_availability.check(provider.name, "uptime", BEGIN + EVERY * len(asked)).observation
        assert done is not None
        asked.append(done)
        return done.cause

    dead = f"e2e-no-kubelet-{rented}"
    assert ask(1) is None, asked[-1].detail
    assert ask(0) is None
    assert [ask(2) for _ in range(3)] == ["provider_fault"] * 3, asked[-1].detail
    assert dead in asked[-1].detail
    assert len(archive.findings_of(provider.name, unsettled=True)) == 1
    cluster.core.patch_node(dead, {"spec": {"unschedulable": True}})
    assert ask(2) == MAINTENANCE, asked[-1].detail
    assert ask(3) == "unreachable", asked[-1].detail
    assert ask(1) is None and ask(1) is None
    assert archive.findings_of(provider.name, unsettled=True) == []
    (outage,) = find_outages(asked, EVERY.total_seconds())
    assert (outage.whose, outage.misses, outage.began, outage.ended) == ("provider", 3, asked[2].at, asked[7].at)
    month = availability(BEGIN, asked, [outage], EVERY.total_seconds(), BEGIN + EVERY * len(asked))
    assert dict(month.own) == {MAINTENANCE: 1} and month.unproven == 1 and month.bounds is not None
