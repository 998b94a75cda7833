"""Whose fault it is that a container did not start, or that a pod that had a node was rejected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plumbline.launch.cluster.observe.observation import LaunchObservation, Row, StopCause
from plumbline.launch.cluster.observe.verdict import classify_launch
from plumbline.results import FailureClass, Reason, Validity

VALID = Validity(status="valid")
FAILED = Validity(status="failed", failure_class="server_error", reasons=(Reason(code="server_error", detail="it ended"),))


def pod(*containers: Row, init: tuple[Row, ...] = (), rank: int = 0, **status: Any) -> Row:
    return {
        "metadata": {"name": f"p{rank}", "labels": {"plumbline/rank": str(rank)}},
        "spec": {"nodeName": "n1", "containers": [{"name": "harness"}]},
        "status": {"containerStatuses": list(containers), "initContainerStatuses": list(init), **status},
    }


def ended(name: str, code: int, at: str = "10:20:00", **more: str) -> Row:
    moments = {"startedAt": "2026-11-20T10:00:00Z", "finishedAt": f"2026-11-20T{at}Z"}
    return {"name": name, "state": {"terminated": {"exitCode": code, "reason": "Error", **moments, **more}}}


def stuck(name: str, reason: str, message: str) -> Row:
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}}


def judged(*pods: Row, own: tuple[str, ...] = (), validity: Validity | None = None, **more: Any) -> tuple[FailureClass | None, str]:
    seen = LaunchObservation(len(pods), pods, own=frozenset(own), nodes={"n1": {"metadata": {"name": "n1"}}})
    failure, detail = classify_launch(replace(seen, **more), validity)
    return failure, detail or ""


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        ("ErrImagePull", "401 Unauthorized", "image_error"),
        ("ErrImagePull", "403 Forbidden", "image_error"),
        ("ErrImagePull", "manifest unknown: 404 Not Found", "image_error"),
        ("ErrImagePull", "x509: certificate signed by unknown authority", "image_error"),
        ("ImagePullBackOff", "429 Too Many Requests: toomanyrequests", "launch_timeout"),
        ("ErrImagePull", "unexpected status code 503 Service Unavailable", "launch_timeout"),
        ("ErrImagePull", "net/http: TLS handshake timeout", "launch_timeout"),
        ("ErrImagePull", "dial tcp: i/o timeout", "launch_timeout"),
        ("ErrImagePull", "write /var/lib/containerd/x: input/output error", "provider_fault"),
        ("RegistryUnavailable", "registry is not available", "launch_timeout"),
        ("ErrImagePull", "authorization token has expired", "image_error"),
        ("ErrImagePull", "write /var/lib/containerd/x: no space left on device", "launch_timeout"),
        ("CreateContainerConfigError", 'secret "results" not found', "bad_declaration"),
        ("CreateContainerConfigError", "failed to sync secret cache: timed out waiting for the condition", "launch_timeout"),
        ("CreateContainerError", "context deadline exceeded", "launch_timeout"),
        ("CreateContainerError", "mkdir /run/x: no space left on device", "launch_timeout"),
        ("CreateContainerError", "nvidia-container-cli: initialization error: driver not loaded", "wrong_hardware"),
        ("CreateContainerError", "container has runAsNonRoot and image will run as root", "bad_declaration"),
    ],
)
def test_why_the_trials_container_cannot_start(reason: str, message: str, expected: FailureClass) -> None:
    waiting = pod(stuck("harness", reason, message), phase="Pending")
    assert judged(waiting)[0] == expected
    kind = "config_error" if reason.startswith("Create") else "image_error"
    for pods in ((waiting,), ()):  # the watch stopped it; without a pod its detail is all that is left
        stop = StopCause(kind, f"pod p0 cannot start: {reason}: {message}")  # type: ignore[arg-type]
        found = judged(*pods, stop=stop, expected=1)
        assert found[0] == expected or (not pods and reason == "CreateContainerError"), found


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("failed to create containerd task: mkdir /run/containerd/x: no space left on device", "launch_timeout"),
        ("nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.0, please update your driver", "image_error"),
        ("failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=GPU-0", "wrong_hardware"),
        ('unable to start container process: exec: "python3": executable file not found in $PATH', "image_error"),
        ("exec /usr/bin/python3: exec format error", "image_error"),
        ('error mounting "/data" to rootfs at "/data": not a directory', "bad_declaration"),
        ("fork/exec /usr/bin/runc: resource temporarily unavailable", "launch_timeout"),
        ("unable to apply cgroup configuration: device or resource busy", "launch_timeout"),
    ],
)
def test_what_the_runtime_says_when_it_cannot_start_it(message: str, expected: FailureClass) -> None:
    row = ended("harness", 128, message=message, startedAt="1970-01-01T00:00:00Z")
    row["state"]["terminated"]["reason"] = "StartError"
    found, detail = judged(pod(row, phase="Failed"))
    assert (found, message in detail) == (expected, True)


@pytest.mark.fault("an injected init container fails", ends="launch_timeout", keeps="its name, exit code and message; nobody's statistics")
def test_another_container_is_named_and_whose_it_is() -> None:
    not_begun = {"name": "harness", "state": {"waiting": {"reason": "PodInitializing"}}}
    broken = pod(not_begun, init=(ended("mesh-init", 2, message="iptables: no"),), phase="Failed")
    found, detail = judged(broken)
    assert found == "launch_timeout", "nobody knows whose it is"
    assert "mesh-init (injected by the cluster, not ours) ended with exit code 2: iptables: no" in detail
    found, detail = judged(broken, own=("mesh-init",))
    assert (found, "mesh-init (declared in launcher)" in detail) == ("bad_declaration", True)
    pulling = pod(init=(stuck("mesh-init", "ErrImagePull", "403 Forbidden"),), phase="Pending")
    assert (judged(pulling)[0], judged(pulling, own=("mesh-init",))[0]) == ("launch_timeout", "image_error")
    stop = StopCause("image_error", "pod p0 on n1 cannot start its container mesh-init: ErrImagePull: 403 Forbidden")
    assert "mesh-init is injected by the cluster, not ours" in judged(pulling, stop=stop)[1]


def test_a_sidecar_that_fails_first_is_named_beside_the_harness() -> None:
    crashed = judged(
        pod(ended("harness", 139), init=(ended("nic-daemon", 1, "10:19:00", message="no device"),), phase="Failed"), own=("nic-daemon",)
    )
    assert (
        crashed[0] == "harness_error"
        and "before it its container nic-daemon (declared in launcher) ended with exit code 1: no device" in crashed[1]
    )
    after = judged(pod(ended("harness", 139), init=(ended("nic-daemon", 137, "10:20:30"),), phase="Failed"))
    assert "nic-daemon" not in after[1]


def test_in_a_gang_the_harness_counts_and_no_injected_sidecar() -> None:
    killed = ended("istio-proxy", 137, "10:20:30")
    first = pod(ended("harness", 0), killed, phase="Failed")
    second = pod(ended("harness", 0), killed, rank=1, phase="Failed")
    assert judged(first, second, validity=VALID) == (None, None or "")
    assert judged(first, second, validity=FAILED)[0] == "server_error"
    lost = pod(ended("harness", 3), killed, rank=1, phase="Failed")
    assert judged(first, lost, validity=FAILED)[0] == "server_error"


@pytest.mark.parametrize("reason", ["NodeAffinity", "UnexpectedAdmissionError", "OutOfcpu", "OutOfnvidia.com/gpu", "TopologyAffinityError"])
def test_a_pod_that_had_run_and_is_rejected_was_interrupted(reason: str) -> None:
    ran = pod(ended("harness", 137, reason="ContainerStatusUnknown"), phase="Failed", reason=reason, message="Pod was rejected")
    assert judged(ran)[0] == "interrupted"
    lost_its_containers = pod(phase="Failed", reason=reason, message="Pod was rejected")
    began = {
        "involvedObject": {"name": "p0"},
        "reason": "Started",
        "message": "Started container harness",
        "eventTime": "2026-11-20T10:00:00Z",
    }
    assert judged(lost_its_containers, events=(began,))[0] == "interrupted"
    assert judged(lost_its_containers)[0] != "interrupted"


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        (
            "UnexpectedAdmissionError",
            "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu",
            "insufficient_capacity",
        ),
        (
            "OutOfnvidia.com/gpu",
            "Node didn't have enough resource: nvidia.com/gpu, requested: 8, used: 1, capacity: 8",
            "insufficient_capacity",
        ),
        ("UnexpectedAdmissionError", "Allocate failed due to rpc error of rdma/ib", "launch_timeout"),
        ("OutOfcpu", "Node didn't have enough resource: cpu, requested: 2000, used: 600, capacity: 2000", "launch_timeout"),
        ("OutOfmemory", "Node didn't have enough resource: memory, requested: 9000, used: 0, capacity: 8000", "bad_declaration"),
        ("NodeAffinity", "Predicate NodeAffinity failed", "launch_timeout"),
        ("TopologyAffinityError", "Resources cannot be allocated with Topology locality", "launch_timeout"),
    ],
)
def test_a_pod_that_never_ran_and_is_rejected(reason: str, message: str, expected: FailureClass) -> None:
    rejected = pod(phase="Failed", reason=reason, message=message)
    assert judged(rejected, providers_nodes=True)[0] == expected
    assert judged(rejected)[0] == ("launch_timeout" if expected == "insufficient_capacity" else expected)


@pytest.mark.fault("a node goes down and its pod ends with exit code 0", ends="interrupted", keeps="the reason why the node left; retried")
def test_exit_code_0_without_a_document_on_a_node_that_went_down_is_an_interruption() -> None:
    done = pod(ended("harness", 0), phase="Succeeded")
    assert judged(done)[0] == "harness_error", "its node lives: the pods write elsewhere"
    found, detail = judged(done, leaving={"n1": "its node is not ready (NodeStatusUnknown)"})
    assert (found, "not ready" in detail) == ("interrupted", True)
    assert judged(done, nodes={})[0] == "interrupted", "nobody saw its node"
    left = {"involvedObject": {"name": "p0"}, "reason": "NodeNotReady", "message": "Node is not ready", "eventTime": "2026-11-20T10:19:00Z"}
    assert judged(done, events=(left,))[0] == "interrupted"
    assert judged(done, leaving={"n1": "gone"}, validity=VALID)[0] is None
