"""Why a container did not start or a kubelet rejected its pod: failure class and hint, from the messages of kubelet, runtime and registry. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

from plumbline.harness.hardware_faults import find_hardware_fault
from plumbline.launch.cluster.observe.observation import CONFIG_FAILURES, CONTAINER, Row, StartFailure, containers_beside, terminated
from plumbline.launch.cluster.observe.scheduling import GPU_RESOURCE, Judged

_NO_SPACE = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_PASSING = re.compile(
    r"\b429\b|too ?many ?requests|\b50[0234] (internal|bad gateway|service|gateway)|(status( code)?|response):? 50[0234]|deadline exceeded"
    r"|time(d )? ?out|code = Canceled|context canceled|connection reset|unexpected EOF|: EOF|RegistryUnavailable|resource temporarily unavailable|too many open files|temporary failure|server misbehaving|name .* is reserved",
    re.IGNORECASE,
)
_PULL_LIMIT = re.compile(r"pull QPS exceeded", re.IGNORECASE)
_NO_WAY = re.compile(r"connection refused|no such host|no route to host|network is unreachable|i/o timeout", re.IGNORECASE)
_NEWER_DRIVER = re.compile(
    r"requirement error|unsatisfied condition|update your driver|driver (version )?is (too old|insufficient)", re.IGNORECASE
)
_GPU_RUNTIME = re.compile(r"nvidia-container|nvml|libnvidia|nvidia\.com/|cdi device|/dev/(kfd|nvidia)", re.IGNORECASE)
_IN_IMAGE = re.compile(r"exec[: ]|no command specified|unable to find (user|group)|chdir to cwd", re.IGNORECASE)
_MOUNT = re.compile(r"error mounting|failed to mount|bind source path", re.IGNORECASE)
CREATION_FAILURES = frozenset({"StartError", "RunContainerError", "ContainerCannotRun", "CreateContainerError"})
"""Reasons with which the container runtime refuses a container, in its own words."""

_FULL_DISK: Judged = ("launch_timeout", "the node's disk is full: whoever runs the node makes room; another node may have it")
_LATER: Judged = ("launch_timeout", "it may pass: a retry may succeed")
_NO_LOCAL_REGISTRY = re.compile(r"(127\.0\.0\.1|\[::1\]|localhost)\S*: (connect: )?connection refused", re.IGNORECASE)
_PULLS: tuple[tuple[re.Pattern[str], Judged], ...] = (
    (
        _NO_LOCAL_REGISTRY,
        ("image_error", "the reference names a registry on the node itself, where none is: load the image there, or name its registry"),
    ),
    (
        _PULL_LIMIT,
        ("launch_timeout", "the kubelet's own limit on pulls (registryPullQPS), which other pods of the node filled: a retry may succeed"),
    ),
    (
        _NO_WAY,
        (
            "launch_timeout",
            "the node does not reach the registry: check its DNS, firewall and proxy, and the registry's address; a retry may succeed",
        ),
    ),
)


def judge_start(failure: StartFailure, cause: str, own: Collection[str]) -> Judged:
    """Class and hint for a container that the kubelet cannot start. `cause`: messages of the events. `own`: names of Plumbline's containers."""
    text = f"{failure.reason}: {failure.message} {cause}"
    if _NO_SPACE.search(text):
        return _FULL_DISK
    if (fault := _hardware(text)) is not None:
        return fault
    pull = next((judged for words, judged in _PULLS if words.search(text)), None)
    if pull is not None and failure.reason not in CONFIG_FAILURES:
        return pull
    if (sandbox := judge_sandbox(text)) is not None:
        return sandbox
    if _PASSING.search(text):
        return _LATER
    if failure.container not in own:
        return "launch_timeout", "ask who operates the cluster"
    if failure.reason in CREATION_FAILURES:
        return judge_creation(text, ("bad_declaration", "check volumes, security context and devices of the pod"))
    if failure.reason in CONFIG_FAILURES:
        return "bad_declaration", "create what it names in the trial's namespace"
    return "image_error", "check reference, digest and launcher.image_pull_secrets"


def _hardware(text: str) -> Judged | None:
    found = find_hardware_fault(text)
    return None if found is None else ("provider_fault", found[0])


_SANDBOXES: tuple[tuple[re.Pattern[str], Judged], ...] = (
    (
        re.compile(
            r"network-attachment-definition\S* (\(\S+\) in namespace|\S+ not found)|cannot find a network-attachment-definition",
            re.IGNORECASE,
        ),
        ("bad_declaration", "create the NetworkAttachmentDefinition that it names, or correct launcher.annotations"),
    ),
    (
        re.compile(r"VF pci addr is required|(deviceID|pciBusID) is required|failed to find vf", re.IGNORECASE),
        ("bad_declaration", "the attached network needs a virtual function: request its resource in launcher.resources.extended"),
    ),
    (
        re.compile(
            r"no runtime for \S+ is configured|RuntimeClass\S* .{0,80}not (found|supported)|failed to find runtime handler", re.IGNORECASE
        ),
        (
            "bad_declaration",
            "the node's container runtime lacks the handler of launcher.runtime_class: correct it, or install it on the nodes",
        ),
    ),
    (
        re.compile(
            r"no IP addresses available|could not allocate IP|no available IP|failed to (allocate|assign an IP)|IPAM.{0,60}(exhausted|full)|ip.?space.?exhausted",
            re.IGNORECASE,
        ),
        ("quota_exceeded", "the range of addresses of the cluster's or of the attached network is used up: enlarge it, or end other pods"),
    ),
)
"""Of the network and the runtime before any container: what the pod asks for is not there. Waiting changes only the last."""


def judge_sandbox(text: str) -> Judged | None:
    """Class and hint for a pod whose sandbox cannot be made, by an event's message; None for what may pass."""
    return next((judged for words, judged in _SANDBOXES if words.search(text)), None)


def judge_creation(message: str, otherwise: Judged) -> Judged:
    """Class and hint for a container that the runtime could not create or start, by its message."""
    if _NO_SPACE.search(message):
        return _FULL_DISK
    if (fault := _hardware(message)) is not None:
        return fault
    if _NEWER_DRIVER.search(message):
        return "image_error", "the image needs a newer driver than the node has: use an image of an older CUDA, or ask for a newer driver"
    if _GPU_RUNTIME.search(message):
        return "wrong_hardware", "check the node's GPU driver and container toolkit"
    if _MOUNT.search(message):
        return "bad_declaration", "check launcher.volumes"
    if _PASSING.search(message):
        return _LATER
    if _IN_IMAGE.search(message):
        return "image_error", "check that the image contains the program and is made for the node's architecture"
    return otherwise


def origin_of(container: str, own: Collection[str]) -> str:
    """Where a container beside the trial's comes from; empty for the trial's own."""
    if container == CONTAINER:
        return ""
    return "declared in launcher" if container in own else "injected by the cluster, not ours"


def failed_beside(pod: Row, own: Collection[str]) -> tuple[str, bool] | None:
    """The failure of another container before the trial's ended: its name, exit code and message, and whether it is ours; None without one."""
    trial_ended = terminated(pod).get("finishedAt")
    for row in containers_beside(pod):
        ended = (row.get("state") or {}).get("terminated") or {}
        name, code = str(row.get("name")), ended.get("exitCode")
        if not code or (trial_ended and str(ended.get("finishedAt") or "~") >= trial_ended):
            continue
        reason = "" if ended.get("reason") in (None, "", "Error") else f", {ended['reason']}"
        said = str(ended.get("message") or "").strip() or "no message"
        return f"its container {name} ({origin_of(name, own)}) ended with exit code {code}{reason}: {said}", name in own
    return None


_ADMISSION = re.compile(
    r"^(UnexpectedAdmissionError|NodeAffinity|NodeName|NodePorts|TaintToleration|\w*AffinityError|\w*AlignmentError|OutOf.+)$"
)
_AMOUNTS = re.compile(r"requested: (\d+).*capacity: (\d+)")


_MIG = re.compile(r"/mig-|\bMIG\b")


def judge_rejection(reason: str, message: str, *, ran: bool, providers_nodes: bool = False) -> Judged | None:
    """Class and hint for a scheduled pod that the kubelet rejected; None for another reason. `ran`: its containers had run before.
    `providers_nodes`: see LaunchObservation."""
    if not _ADMISSION.match(reason):
        return None
    if ran:
        return "interrupted", "it had run: its kubelet restarted and did not take it back; a retry may succeed"
    if (fault := _hardware(message)) is not None:
        return fault
    if (reason == "UnexpectedAdmissionError" or reason.startswith("OutOf")) and GPU_RESOURCE.search(f"{reason} {message}"):
        if _MIG.search(message):
            return (
                "launch_timeout",
                "the MIG instances that the node advertises are not there: its layout changes, or failed (nvidia.com/mig.config.state)",
            )
        why = "the node could not give the GPUs that it advertises: check its device plugin"
        return ("insufficient_capacity", why) if providers_nodes else ("launch_timeout", f"{why}; whose it is, is not shown")
    if (amounts := _AMOUNTS.search(message)) is not None and int(amounts[1]) > int(amounts[2]):
        return "bad_declaration", "the node never has as much: lower launcher.resources, or select larger nodes"
    return "launch_timeout", "the node was not as the scheduler knew it: its labels, taints or free resources changed"
