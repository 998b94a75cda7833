"""Why a container did not start or a kubelet rejected its pod: failure class and hint, from the messages of kubelet, runtime and registry. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

from plumbline.launch.cluster.observe.observation import CONFIG_FAILURES, CONTAINER, Row, StartFailure, containers_beside, terminated
from plumbline.launch.cluster.observe.scheduling import GPU_RESOURCE, Judged

_NO_SPACE = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_PASSING = re.compile(
    r"\b429\b|too ?many ?requests|\b50[0234] (internal|bad gateway|service|gateway)|(status( code)?|response):? 50[0234]|deadline exceeded"
    r"|time(d )? ?out|connection reset|unexpected EOF|: EOF|RegistryUnavailable|resource temporarily unavailable|too many open files|temporary failure|server misbehaving|name .* is reserved",
    re.IGNORECASE,
)
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


def judge_start(failure: StartFailure, cause: str, own: Collection[str]) -> Judged:
    """Class and hint for a container that the kubelet cannot start. `cause`: messages of the events. `own`: names of Plumbline's containers."""
    text = f"{failure.reason}: {failure.message} {cause}"
    if _NO_SPACE.search(text):
        return _FULL_DISK
    if _PASSING.search(text):
        return _LATER
    if failure.container not in own:
        return "launch_timeout", "ask who operates the cluster"
    if failure.reason in CREATION_FAILURES:
        return judge_creation(text, ("bad_declaration", "check volumes, security context and devices of the pod"))
    if failure.reason in CONFIG_FAILURES:
        return "bad_declaration", "create what it names in the trial's namespace"
    return "image_error", "check reference, digest and launcher.image_pull_secrets"


def judge_creation(message: str, otherwise: Judged) -> Judged:
    """Class and hint for a container that the runtime could not create or start, by its message."""
    if _NO_SPACE.search(message):
        return _FULL_DISK
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


def judge_rejection(reason: str, message: str, *, ran: bool) -> Judged | None:
    """Class and hint for a scheduled pod that the kubelet rejected; None for another reason. `ran`: its containers had run before."""
    if not _ADMISSION.match(reason):
        return None
    if ran:
        return "interrupted", "it had run: its kubelet restarted and did not take it back; a retry may succeed"
    if (reason == "UnexpectedAdmissionError" or reason.startswith("OutOf")) and GPU_RESOURCE.search(f"{reason} {message}"):
        return "insufficient_capacity", "the node could not give the GPUs that it advertises: check its device plugin"
    if (amounts := _AMOUNTS.search(message)) is not None and int(amounts[1]) > int(amounts[2]):
        return "bad_declaration", "the node never has as much: lower launcher.resources, or select larger nodes"
    return "launch_timeout", "the node was not as the scheduler knew it: its labels, taints or free resources changed"
