"""A short pod on a trial's nodes that checks image, secrets, accelerators and result store. Always deleted."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_core import from_json

from plumbline.declarations import KubernetesLauncher, Provider
from plumbline.harness.environment import accelerator_mismatch, locked_memory_shortage
from plumbline.launch.cluster import names, store_credentials
from plumbline.launch.cluster.api import ClusterApi
from plumbline.launch.cluster.observe.observation import (
    CONFIG_FAILURES,
    PERMANENT_FAILURES,
    Row,
    parse_time,
    scheduled_at,
    start_failure,
    terminated,
)
from plumbline.launch.cluster.short_pod import PodPatience, ShortPodRun, harness_container, run_short_pod, short_pod
from plumbline.launch.doctor_check import DoctorCheck, failed, ok, skipped, unknown
from plumbline.launch.failures import ApiRefused
from plumbline.results import Scalar

_BUILDS = {"nvidia": ("torch.cuda", "CUDA"), "amd": ("torch.rocm", "ROCm")}


def accelerator_checks(
    provider: Provider, taken: int, what: str, facts: Mapping[str, Scalar] | None, cuda_fault: str | None = None
) -> Iterator[DoctorCheck]:
    """Whether the pod saw the accelerators that it held (`taken`); no check for a provider without any. `facts`: the pod's environment, None if
    its harness does not report it. `what`: the kind of trial whose image it runs. `cuda_fault`: why PyTorch could not use the accelerators."""
    if provider.accelerator.kind not in _BUILDS:
        return
    name = f"accelerators ({what})"
    if facts is None:
        yield unknown(name, "the image's harness does not report them", "build the image from this version")
        return
    fact, platform = _BUILDS[provider.accelerator.kind]
    if facts.get("torch.version") is not None and facts.get(fact) is None:
        detail = f"PyTorch {facts['torch.version']} of the image is built without {platform}"
        yield failed(f"image for GPUs ({what})", detail, f"build the image over a base with {platform} (k8s/images/README.md)")
    if not taken:
        yield skipped(name, "not taken, as asked: nothing is said of drivers and devices")
        return
    wrong = accelerator_mismatch(provider, taken, facts)
    if wrong is not None:
        yield failed(name, wrong, "check the node's driver, its device plugin and launcher.runtime_class; --no-gpu skips this check")
    elif facts.get("driver.version") is None:
        yield failed(
            name, "no GPU driver responds in the pod", "install the GPU driver on the node, or declare the runtime class that mounts it"
        )
    elif cuda_fault is not None:
        detail = f"CUDA cannot be used (image {facts.get('torch.cuda')}, driver {facts['driver.version']}): {cuda_fault}"
        yield failed(
            name, detail, "choose an image for the node's driver, or update the driver: docs/clusters.md#which-driver-an-image-needs"
        )
    else:
        yield ok(name, f"{facts['gpu.count']} × {facts.get('gpu.0.product')}, driver {facts['driver.version']}")
    if (short := locked_memory_shortage(provider.launcher.remote_memory, facts)) is not None:
        problem, _, remedy = short.partition("; ")
        yield failed(f"memlock ({what})", problem, remedy)


DOCTOR_PATIENCE = PodPatience(node_s=120.0, start_s=600.0, trouble_s=20.0, gone_s=90.0, poll_s=1.0)


def doctor_pod_manifest(pod: Row, launcher: KubernetesLauncher, now: float, patience: PodPatience, *, gpus: int = 0) -> Row:
    """A trial's pod for a few seconds: with `gpus`, all that a trial requests (adapters, huge pages and sidecars too); without, a small one."""
    name, whole_s = f"pl-doctor-{secrets.token_hex(4)}", patience.node_s + patience.start_s
    row = short_pod(pod, name, command="check", arguments=["--out", launcher.results_url], whole_s=whole_s, expires=now + whole_s)
    row["spec"]["terminationGracePeriodSeconds"] = 1
    container = harness_container(row)
    if not gpus:
        little = {"cpu": "500m", "memory": "512Mi"}
        container["resources"] = {"requests": little, "limits": little}
        row["spec"].pop("initContainers", None)  # daemons for the network between nodes, which it does not use
        row["metadata"]["annotations"] = {names.EXPIRES: row["metadata"]["annotations"][names.EXPIRES]}
    if launcher.results_secret is not None:
        # A trial's own references are optional key by key; here the Secret itself must exist.
        container["envFrom"] = [{"prefix": "PLUMBLINE_CHECKED_", "secretRef": {"name": launcher.results_secret}}]
    row["spec"]["containers"] = [container]
    return row


def run_doctor_pod(
    cluster: ClusterApi, pod: Row, what: str, patience: PodPatience, provider: Provider, gpus: int = 0
) -> Iterator[DoctorCheck]:
    """Create the pod, report what happens to it, delete it. `what`: the kind of trial whose image it runs. `gpus`: accelerators it takes.

    Unreachable if the cluster does not answer."""
    try:
        run = run_short_pod(cluster, pod, patience, patience.start_s)
    except ApiRefused as refusal:
        yield failed(f"pod ({what})", f"refused: {refusal.detail}", "see the lines above; a policy of the namespace refuses a trial's pod")
        return
    yield from _outcome(run, pod, what, patience, provider, gpus)
    if run.left:
        name = pod["metadata"]["name"]
        remedy = f"kubectl -n {cluster.namespace} delete pod {name} --force"
        yield failed(f"cleanup ({what})", f"pod {name} still exists", remedy)


def _outcome(run: ShortPodRun, asked: Row, what: str, patience: PodPatience, provider: Provider, gpus: int) -> Iterator[DoctorCheck]:
    seen = run.seen
    image, name, stop = f"image ({what})", asked["metadata"]["name"], seen.stop
    if seen.gone:
        yield failed(image, f"pod {name} was deleted by someone else", "try again; check for a policy or an autoscaler that deletes pods")
    elif stop is None:
        yield from _harness_checks(run, what, provider, gpus)
    elif stop.reason == "schedule_timeout":
        spare = "; if trials hold the accelerators, use --no-gpu" if gpus else ""
        remedy = f"see the lines about nodes, taints and queue{spare}"
        yield failed(f"pod ({what})", f"no node within {patience.node_s:g} s: {stop.detail}", remedy)
    elif (wrong := start_failure(seen.pods[0])) is not None:
        yield _start_failure_check(image, wrong.reason, stop.detail, harness_container(asked)["image"])
    else:
        remedy = "check the speed of the registry and the size of the image"
        yield failed(image, f"not started within {patience.start_s:g} s", remedy)


def _harness_checks(run: ShortPodRun, what: str, provider: Provider, gpus: int) -> Iterator[DoctorCheck]:
    (pod,) = run.seen.pods
    state, node = terminated(pod), pod["spec"].get("nodeName")
    report = _last_object(run.log)
    if report is None:
        tail = " / ".join(run.log.strip().splitlines()[-3:]) or state.get("message") or pod["status"].get("message") or "no log"
        yield failed(
            f"image ({what})",
            f"the harness did not run on {node}: {state.get('reason') or pod['status'].get('reason') or 'failed'}, exit code {state.get('exitCode')}: {tail}",
            "build the image from this repository (k8s/images) and declare its digest",
        )
        return
    started, scheduled = parse_time(state.get("startedAt")), scheduled_at(pod)
    took = f" {max(0.0, started - scheduled):.0f} s after it got its node" if started is not None and scheduled is not None else ""
    # An engine of an inference image may compute without torch; only its probes want it.
    if report.get("torch_fault") and (what == "training" or report.get("torch")):
        yield failed(
            f"image ({what})", str(report["torch_fault"]), "build the image over a base with such a PyTorch (k8s/images/README.md)"
        )
    else:
        yield ok(f"image ({what})", f"runs on {node}{took}; harness {report.get('harness')}, PyTorch {report.get('torch') or 'none'}")
    reported = report.get("accelerators")
    fault = report.get("cuda_fault")
    yield from accelerator_checks(provider, gpus, what, reported if isinstance(reported, dict) else None, fault and str(fault))
    if report.get("fault"):
        yield failed(
            f"store from a pod ({what})",
            str(report["fault"]),
            f"check {store_credentials.pod_key_source(provider)}, the bucket's policy, and the NetworkPolicy",
        )
    else:
        yield ok(f"store from a pod ({what})", f"written, read back and deleted in {float(report['seconds']):.2f} s")
    yield _node_clock(float(report["time"]), run.began, run.ended, str(node))


def _node_clock(there: float, began: float, now: float, node: str, most_s: float = 2.0) -> DoctorCheck:
    """The pod read its clock between its creation and now; a value outside is the difference of the clocks."""
    off = there - now if there > now else there - began if there < began else 0.0
    if abs(off) > most_s:
        return failed(
            "node clock", f"{node} is {abs(off):.0f} s {'ahead' if off > 0 else 'behind'}", "repair the node's time service (chrony)"
        )
    return ok("node clock", f"{node} agrees with this machine")


def _start_failure_check(image: str, reason: str, detail: str, reference: str) -> DoctorCheck:
    if reason in CONFIG_FAILURES:
        return failed("secrets", detail, "create the Secret that launcher.results_secret names, in the trial's namespace")
    by_hand = reference.startswith("localhost/") and reason not in PERMANENT_FAILURES
    return failed(
        image,
        detail,
        f"load {reference} onto every node that a trial may use, or declare an image of a registry"
        if by_hand
        else f"check {reference} and that the nodes may pull it (image_pull_secrets, k8s/provider/components/pull-secret)",
    )


def _last_object(text: str) -> dict[str, Any] | None:
    for line in reversed(text.splitlines()):
        try:
            value = from_json(line)
        except ValueError:
            continue
        if isinstance(value, dict) and "fault" in value:
            return value
    return None
