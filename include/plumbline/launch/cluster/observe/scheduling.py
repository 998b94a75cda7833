"""Why a pod got no node: failure class and hint, from the messages of scheduler and autoscaler. Pure.

The scheduler counts nodes by the reason that its first refusing plugin gives (`0/5 nodes are available: 2 Insufficient nvidia.com/gpu, …`):
taints, affinity and ports come before resources, volumes and spreading after them. So a node that lacks GPUs matches the declaration, and a node
whose volume conflicts had GPUs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from plumbline.launch.cluster.node_gpus import PASSING_TAINT
from plumbline.launch.cluster.observe.observation import Row, event_time, unscheduled_reason
from plumbline.launch.cluster.observe.pod_records import events_of
from plumbline.launch.failures import NODES_FULL
from plumbline.results import FailureClass

Judged = tuple[FailureClass, str]
"""Failure class and hint."""

_REFUSAL = re.compile(r"\d+/(?P<all>\d+) nodes are (?:un)?available:?\s*(?P<reasons>.+)", re.IGNORECASE | re.DOTALL)
_MORE = re.compile(r"\.\s.*|\s*preemption: .*", re.DOTALL)
"""The text after the reasons: claims, and why preemption does not help."""
_COUNTED = re.compile(r"(?:^|, )(\d+) (.+?)(?=, \d+ |$)", re.DOTALL)
_LACKS = re.compile(r"insufficient (\S+?)[.,]?$", re.IGNORECASE)
GPU_RESOURCE = re.compile(r"gpu|nvidia|amd\.com|gaudi|neuron|/tpu|accelerator", re.IGNORECASE)
_NETWORK = re.compile(r"rdma|/efa|hugepages|infiniband|roce|/ib|sriov|hostdev|networking", re.IGNORECASE)
_AFTER_RESOURCES = re.compile(r"volume|persistent|topology spread|pods? (anti-)?affinity|claim", re.IGNORECASE)
_OF_DECLARATION = re.compile(r"affinity|selector|taint|match|ports|spread|volume|persistent|claim|node ?name", re.IGNORECASE)
"""Why Kubernetes' own plugins refuse a node because of what the pod declares."""
_ALL_CLAIMED = re.compile(r"cannot allocate all claims", re.IGNORECASE)
_TAINT = re.compile(r"taint \{([^:{}\s]+)")
_NODE_STATE = re.compile(r"were unschedulable|too many pods|node\(s\) (were|had) not ready|out of disk|pressure", re.IGNORECASE)

_AUTOSCALER = re.compile(r"scale.?up|nodepool|nodeclaim|node group|instance type|did not tolerate taint|provisioner", re.IGNORECASE)
_STARTED_NODES = frozenset({"TriggeredScaleUp", "Nominated", "ProvisioningStarted"})
_OWN_LIMIT = re.compile(
    r"quota|limit ?exceeded|exceed\w* (the )?(approved|limit)|max(imum)? (node group|cluster|total|number|size)|CountExceeded|reservation",
    re.IGNORECASE,
)
_OWN_SETTING = re.compile(
    r"ip.?space.?exhausted|FreeAddresses|permission|unauthorized|forbidden|PriceTooLow|invalid (launch|parameter)|InvalidParameter",
    re.IGNORECASE,
)
_CLOUD_IS_EMPTY = re.compile(
    r"out.?of.?resources|resource.?pool.?exhausted|stock.?out|out of stock|insufficient\w*capacity|insufficient \S* ?capacity|unfulfillable"
    r"|not have (sufficient|enough)|sku.?not.?available|allocation ?failed|allocation failure|overconstrained|out of host capacity"
    r"|instance types were unavailable|no \w* ?capacity|capacity (is )?(not|un)available|currently unavailable",
    re.IGNORECASE,
)
_BACKOFF = re.compile(r"backoff|required offering", re.IGNORECASE)
_NO_POOL = re.compile(
    r"didn.t trigger scale-up|wouldn.t fit if a new node is added|incompatible with (nodepool|provisioner)|no instance type|did not tolerate taint"
    r"|no (nodepool|provisioner)s? (found|matched)",
    re.IGNORECASE,
)
"""Of the cluster autoscaler (an older one, too) and of Karpenter: no pool that is declared here could hold the pod."""
_OWN_QUEUE = re.compile(
    r"queue resource quota insufficient|queue \S+ (\w+ )?exceeded its (limit|quota)|over ?quota|reached the allowable limit|queue .{0,60}\b(overused|is not open)|does not fit in\S* \S*queue",
    re.IGNORECASE,
)
"""Volcano, KAI and YuniKorn of a queue of this cluster."""
_GANG_FULL = re.compile(r"didn.t have enough resources?: *(GPUs?|\S*gpu\S*)|node\(s\) resource fit failed", re.IGNORECASE)
"""KAI and Volcano of nodes without room; Volcano does not say of what."""


def judge_unscheduled(waiting: Sequence[Row], events: Iterable[Row], detail: str, *, providers_nodes: bool = False) -> Judged | None:
    """Class and hint for pods without a node; None if neither scheduler nor autoscaler gave a reason. `detail`: the message that the watch quoted;
    `providers_nodes`: see LaunchObservation.

    insufficient_capacity only where the cloud gave an autoscaler none, or every node that matches lacks GPUs and the provider alone fills them."""
    own = sorted((event for pod in waiting for event in events_of(pod, events)), key=event_time, reverse=True)
    spoken = [(str(event.get("reason")), str(event.get("message") or "")) for event in own]
    said = [unscheduled_reason(pod) for pod in waiting] + [message for _, message in spoken] + [detail]
    refused = next((match for text in said if (match := _REFUSAL.search(text))), None)
    if any(_OWN_QUEUE.search(text) for text in said):
        return "quota_exceeded", "the scheduler's queue is full, which is ours: raise its limit, or wait for what runs in it"
    for reason, message in (*spoken, ("", detail)):
        if (judged := _by_autoscaler(reason, message)) is not None:
            return judged
    if refused is not None and not _GANG_FULL.search(refused["reasons"]):
        no_pool = any(_no_pool(text) for text in said)
        full = _NO_POOL_FITS if no_pool else _full(providers_nodes)
        return _by_scheduler(int(refused["all"]), _MORE.sub("", refused["reasons"]), _accelerators(waiting), full)
    if any(_no_pool(text) for text in said):
        return _NO_POOL_FITS
    if (unfit := next((match for text in said if (match := _GANG_FULL.search(text))), None)) is not None:
        return (
            _full(providers_nodes)
            if unfit[1]
            else ("launch_timeout", "no node had room, of what the scheduler does not say: see its own log")
        )
    return None


def _no_pool(text: str) -> bool:
    return _NO_POOL.search(text) is not None and not _BACKOFF.search(text)


_NO_POOL_FITS: Judged = (
    "bad_declaration",
    "no free node, and no pool of the autoscaler, can hold the pod: check launcher.node_selector, launcher.tolerations, volumes and "
    "launcher.resources against the pools (a pool that is not scaled is full)",
)
_WHOSE_ROOM = "whose pods hold them is not shown; declare launcher.operated_by: provider where the provider alone fills this cluster"


def _full(providers_nodes: bool) -> Judged:
    return ("insufficient_capacity", NODES_FULL) if providers_nodes else ("launch_timeout", f"{NODES_FULL}, and {_WHOSE_ROOM}")


def _accelerators(waiting: Sequence[Row]) -> Collection[str]:
    """Requested resources that are named like accelerators, else all extended ones but the network's."""
    limits = [(c.get("resources") or {}).get("limits") or {} for pod in waiting for c in (pod.get("spec") or {}).get("containers") or ()]
    extended = {name for each in limits for name in each if "/" in name and not _NETWORK.search(name)}
    return {name for name in extended if GPU_RESOURCE.search(name)} or extended


def _by_autoscaler(reason: str, message: str) -> Judged | None:
    """Class and hint from an autoscaler's event; None if it reports no more than a pool that does not match."""
    if reason in _STARTED_NODES:
        return "launch_timeout", "the autoscaler started a node, which was not ready in time: raise launcher.schedule_timeout"
    if _REFUSAL.search(message):  # a scheduler's, whose taints and labels may be named after pools
        return None
    if reason not in ("NotTriggerScaleUp", "FailedScaleUp") and not _AUTOSCALER.search(message) and not _CLOUD_IS_EMPTY.search(message):
        return None
    if _OWN_LIMIT.search(message):
        return "quota_exceeded", "a limit of yours, not the provider's room: raise the account's quota or the pool's greatest size"
    if _OWN_SETTING.search(message):
        return "bad_declaration", "the autoscaler may not, or cannot as it is set up: check its permissions, subnet and limits"
    if _CLOUD_IS_EMPTY.search(message):
        return "insufficient_capacity", "the cloud had no such instance for the autoscaler"
    if _BACKOFF.search(message) or reason == "FailedScaleUp":
        return "launch_timeout", "the autoscaler got no node and does not say why: see its own log"
    return None


def _by_scheduler(nodes: int, reasons: str, accelerators: Collection[str], full: Judged) -> Judged:
    """`full`: the judgement where every node that matches lacks GPUs."""
    counted = [(int(count), text.strip(" .")) for count, text in _COUNTED.findall(reasons.strip(" ."))]
    lacking = {found[1]: count for count, text in counted if (found := _LACKS.search(text)) is not None}
    other = [(count, text) for count, text in counted if not _LACKS.search(text)]
    without_gpus = max((count for name, count in lacking.items() if _is_accelerator(name, accelerators)), default=0)
    gpu_taint = next((text for _, text in other if "taint" in text and GPU_RESOURCE.search(text) and not _taint_passes(text)), None)
    if gpu_taint is not None:
        return "bad_declaration", f"nodes with GPUs are tainted ({gpu_taint}): add the taint to launcher.tolerations"
    had_gpus = any(_AFTER_RESOURCES.search(text) for _, text in other)
    others = sum(count for count, _ in other)
    # Where the pod names its node, newer schedulers leave the other nodes out of the reasons.
    considered = nodes if others + sum(lacking.values()) >= nodes else others + max(lacking.values(), default=0)
    if without_gpus and without_gpus >= considered - others and not had_gpus:
        return full
    passing = (bool(_NODE_STATE.search(text) or _ALL_CLAIMED.search(text) or _taint_passes(text)) for _, text in other)
    if any(passing) or "waiting for" in reasons:  # of a node or device, not the declaration
        return "launch_timeout", "nodes start, go down, are closed or full of pods, or their devices are allocated"
    if not counted:
        return (
            "bad_declaration",
            "what the pod declares does not exist or cannot be: check launcher.volumes, resource claims and device classes",
        )
    if short := sorted(name for name in lacking if not _is_accelerator(name, accelerators)):
        return "bad_declaration", f"nodes that match have too little {', '.join(short)}: lower launcher.resources, or select larger nodes"
    if not any(_OF_DECLARATION.search(text) for _, text in other):
        return "launch_timeout", "the scheduler refused the nodes for a reason of its own plugins: see its log"
    return "bad_declaration", (
        "no node matches the declaration: check launcher.node_selector, launcher.tolerations, volumes, and for a fresh_node earlier trials of "
        "the series"
    )


def _is_accelerator(resource: str, requested: Collection[str]) -> bool:
    return resource in requested or (not requested and bool(GPU_RESOURCE.search(resource)) and not _NETWORK.search(resource))


def _taint_passes(text: str) -> bool:
    return any(PASSING_TAINT.search(key) for key in _TAINT.findall(text))
