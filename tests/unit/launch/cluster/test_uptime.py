"""The uptime of a rented cluster, on one that answers over HTTP: what is up, what is proven down, and what is neither."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest
from pydantic import ValidationError
from tests.fakes.fake_kubernetes import FakeKubernetes
from tests.fakes.trials import H100, cluster_provider, declared, local_provider

from plumbline.analysis.availability import whose_fault
from plumbline.declarations import Provider
from plumbline.launch.cluster.api import ApiAnswer, ClusterApi
from plumbline.launch.failures import InMaintenance, TrialFailure
from plumbline.launch.registry import launcher_for
from plumbline.results.availability_check import MAINTENANCE

NOT_READY = [{"type": "Ready", "status": "Unknown"}]


@pytest.fixture
def kube(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKubernetes]:
    with FakeKubernetes() as running:
        monkeypatch.setenv("AIRFLOW_CONN_K8S_A", running.connection_json())
        yield running


def watched(nodes: int = 2, **uptime: Any) -> Provider:
    data = json.loads(cluster_provider(accelerator=H100).model_dump_json())
    return Provider.model_validate_json(json.dumps(data | {"nodes": nodes, "watch": {"uptime": {"every": "5min", **uptime}}}))


def check(provider: Provider) -> float:
    return float(launcher_for(provider).check_uptime(declared(), provider, datetime.now(timezone.utc)))


def cause(provider: Provider) -> tuple[str, str, str]:
    """Class of a miss, whose it is, and its text."""
    try:
        check(provider)
    except InMaintenance as closed:
        return MAINTENANCE, whose_fault(MAINTENANCE), str(closed)
    except TrialFailure as failure:
        return failure.failure_class, whose_fault(failure.failure_class), str(failure)
    raise AssertionError("it answered")


def put(kube: FakeKubernetes, name: str, *, ready: bool = True, cordoned: bool = False, taint: str | None = None, gpus: int = 8) -> None:
    row = kube.node(name, gpus=8)
    if not ready:
        row["status"]["conditions"] = NOT_READY
    row["status"]["allocatable"] = {**row["status"]["allocatable"], "nvidia.com/gpu": str(gpus)}
    row["spec"] = {"unschedulable": cordoned, "taints": [{"key": taint, "effect": "NoSchedule"}] if taint else []}
    kube.put("nodes", "", row)


def test_an_api_that_lists_ready_nodes_is_up_and_one_question_is_asked(kube: FakeKubernetes) -> None:
    put(kube, "node-1")
    put(kube, "b")
    assert check(watched()) > 0
    assert [(c.method, c.path) for c in kube.requests] == [("GET", "/api/v1/nodes")]


def test_a_node_that_is_not_ready_is_the_providers_and_a_cordoned_one_is_neither_up_nor_down(kube: FakeKubernetes) -> None:
    put(kube, "node-1")
    put(kube, "b", ready=False)
    assert cause(watched()) == ("provider_fault", "provider", "1 of 2 nodes ready; b: is not ready")
    assert check(watched(ready_nodes=1)) > 0
    put(kube, "b", ready=False, cordoned=True)  # as a reboot in a maintenance looks
    assert cause(watched())[:2] == (MAINTENANCE, "operator")
    put(kube, "b", taint="node.kubernetes.io/maintenance")
    assert cause(watched())[:2] == (MAINTENANCE, "operator")
    put(kube, "node-1", ready=False)  # with the closed node there would still be one too few
    assert cause(watched())[:2] == ("provider_fault", "provider")


def test_a_gpu_that_fell_off_its_bus_takes_its_node_down(kube: FakeKubernetes) -> None:
    put(kube, "node-1")
    put(kube, "b", gpus=7)
    assert cause(watched())[::2] == ("provider_fault", "1 of 2 nodes ready; b: one GPU is gone: 7 of 8 nvidia.com/gpu are allocatable")


@pytest.mark.parametrize(
    ("labels", "conditions", "expected"),
    [
        ({"nvidia.com/mig.config.state": "rebooting"}, [], MAINTENANCE),
        ({"nvidia.com/mig.config.state": "failed"}, [], "bad_declaration"),
        ({"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"}, [], "bad_declaration"),
        ({}, [{"type": "XIDErrors", "status": "True", "reason": "XIDErrorsDetected"}], "provider_fault"),
        ({}, [{"type": "NetworkingReady", "status": "False", "reason": "IPAMDNotReady"}], "unreachable"),
        ({}, [{"type": "KubeletProblem", "status": "True"}, {"type": "Ready", "status": "False"}], "provider_fault"),
        ({"nvidia.com/mig.config.state": "failed"}, [{"type": "NVLinkStatusInactive", "status": "True"}], "provider_fault"),
    ],
)
def test_what_our_own_gpu_operator_does_is_no_outage_and_what_the_clouds_agent_says_is_one(
    labels: dict[str, str], conditions: list[dict[str, str]], expected: str, kube: FakeKubernetes
) -> None:
    put(kube, "node-1")
    row = kube.node("b")
    row["metadata"]["labels"] |= labels
    said = {each["type"]: each for each in (*row["status"]["conditions"], *conditions)}
    row["status"]["conditions"] = list(said.values())
    kube.put("nodes", "", row)
    assert cause(watched())[0] == expected


def test_nodes_that_are_not_there_prove_nothing(kube: FakeKubernetes) -> None:
    assert cause(watched()) == (
        "unreachable",
        "unproven",
        "1 of 2 nodes ready; 1 node not there, removed or lost: the API does not say which",
    )
    put(kube, "node-1", ready=False)  # of two, one is lost, wherever the other is
    assert cause(watched())[:2] == ("provider_fault", "provider")
    assert check(watched(ready_nodes=0)) > 0


@pytest.mark.parametrize(
    ("status", "expected"),
    [(503, ("server_error", "provider")), (429, ("unreachable", "unproven")), (403, ("bad_declaration", "operator"))],
)
def test_the_api_itself(kube: FakeKubernetes, status: int, expected: tuple[str, str]) -> None:
    put(kube, "node-1")
    put(kube, "b")
    kube.answer_next(status, times=5)
    assert cause(watched())[:2] == expected


def test_an_expired_token_is_ours(kube: FakeKubernetes) -> None:
    put(kube, "node-1")
    kube.token = "rotated"
    assert cause(watched(1))[:2] == ("bad_declaration", "operator")


def test_a_refused_connection_is_the_providers(kube: FakeKubernetes, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # a port that is taken, and on which nothing listens
        port = str(held.getsockname()[1])
        monkeypatch.setenv("AIRFLOW_CONN_K8S_A", kube.connection_json().replace(kube.url.rsplit(":", 1)[1], port))
        assert cause(watched())[:2] == ("server_error", "provider")


def test_only_a_cluster_has_nodes_to_count() -> None:
    data = json.loads(local_provider().model_dump_json())
    launcher = {"kind": "endpoint", "url": "http://127.0.0.1:1/v1", "protocol": "openai", "model": "chat", "timeout": "60s"}
    watch = {"uptime": {"every": "5min", "ready_nodes": 2}}
    with pytest.raises(ValidationError, match=r"watch\.uptime\.ready_nodes, but launcher\.kind is endpoint; expected a cluster"):
        Provider.model_validate_json(json.dumps(data | {"name": "hosted", "launcher": launcher, "watch": watch}))


def test_a_page_of_a_proxy_is_no_answer_of_the_api(kube: FakeKubernetes, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ApiAnswer(200, b"<html>sign in</html>", {}, 0.01)
    monkeypatch.setattr(ClusterApi, "ask", lambda *_, **__: page)
    assert cause(watched(ready_nodes=0))[:2] == ("unreachable", "unproven")
