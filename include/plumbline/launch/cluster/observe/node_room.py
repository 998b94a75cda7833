"""Whether a trial's pods fit on the nodes of a cluster and into its quota."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from plumbline.declarations.devices import device_model
from plumbline.launch.cluster.node_gpus import INSTANCE_TYPE, PRODUCT, NodeGpus, claimed_devices
from plumbline.launch.cluster.observe.observation import Row
from plumbline.launch.doctor_check import DoctorCheck, failed, ok, skipped, unknown
from plumbline.metrics.formatting import format_count, shorten

Amounts = Mapping[str, Decimal]
_ENDED = ("Succeeded", "Failed")


def amounts(quantities: Mapping[str, object] | None) -> dict[str, Decimal]:
    """Kubernetes quantities ("500m", "64Gi") as numbers."""
    from kubernetes.utils.quantity import parse_quantity

    return {name: parse_quantity(str(value)) for name, value in (quantities or {}).items()}


def requested_resources(pod: Row) -> dict[str, Decimal]:
    """Total requests of a pod's containers and sidecars. (Other init containers request less than the trial.)"""
    total: defaultdict[str, Decimal] = defaultdict(Decimal)
    sidecars = [c for c in pod["spec"].get("initContainers") or () if c.get("restartPolicy") == "Always"]
    for container in [*pod["spec"]["containers"], *sidecars]:
        for name, value in amounts((container.get("resources") or {}).get("requests")).items():
            total[name] += value
    return dict(total)


@dataclass(frozen=True)
class NodeRoom:
    """The checks of a trial's pod against the nodes, of which the last decides. `selected`: nodes with the declared labels; `free`: those that can
    hold the pod now, beside the pods that are visible; `lost`: one could, had it all its GPUs."""

    checks: list[DoctorCheck]
    selected: Sequence[NodeGpus] = ()
    free: int = 0
    lost: bool = False


def check_nodes(
    nodes: Sequence[Row],
    pod: Row,
    running: Iterable[Row],
    gpu_resource: str,
    product: str | None = None,
    slices: Sequence[Row] = (),
) -> list[DoctorCheck]:
    """The checks of `examine_nodes`."""
    return examine_nodes(nodes, pod, running, gpu_resource, product, slices).checks


def examine_nodes(
    nodes: Sequence[Row],
    pod: Row,
    running: Iterable[Row],
    gpu_resource: str,
    product: str | None = None,
    slices: Sequence[Row] = (),
) -> NodeRoom:
    """Whether a trial's pod selects, tolerates and fits on a node with GPUs of the declared `product`. `running`: pods of the namespace, the only
    visible ones. `slices`: the cluster's ResourceSlices."""
    selector: Mapping[str, str] = pod["spec"].get("nodeSelector") or {}
    labels = ", ".join(f"{k}={v}" for k, v in selector.items()) or "any labels (launcher.node_selector is empty)"
    every = [NodeGpus(n, gpu_resource, claimed_devices(slices, n["metadata"]["name"])) for n in nodes]
    selected = [n for n in every if selector.items() <= n.labels.items()]
    if not selected:
        return NodeRoom([nothing_selected(every, selector, labels, gpu_resource, product)])
    requested, tolerated = requested_resources(pod), pod["spec"].get("tolerations") or []
    gpus = bool(requested.get(gpu_resource))
    lines = [ok("nodes", f"{_count_nodes(len(selected))} with {labels}{_products(selected)}")]
    usable = [n for n in selected if not n.unready(gpus)]
    if not usable:
        reasons = _by_node((n.name, n.unready(gpus) or "") for n in selected)
        found = f"none of {_count_nodes(len(selected))} is ready and schedulable: {reasons}"
        remedy = "wait for nodes that start; uncordon or repair the others (kubectl describe node)"
        return NodeRoom([*lines, failed("nodes ready", found, remedy)], selected)
    taints = {n.name: untolerated_taints(n.node, tolerated) for n in usable}
    allowed = [n for n in usable if not taints[n.name]]
    if not allowed:
        found = f"no node without untolerated taints: {_by_node((name, ', '.join(own)) for name, own in taints.items())}"
        fewest = min(taints.values(), key=len)
        remedy = f"if your trials may run there, add one node's to launcher.tolerations: {', '.join(fewest)}"
        return NodeRoom([*lines, failed("taints", found, remedy)], selected)
    starting = "" if len(usable) == len(selected) else f"; {_by_node((n.name, why) for n in selected if (why := n.unready(gpus)))}"
    lines.append(ok("taints", f"{len(allowed)} of {_count_nodes(len(selected))} ready and tolerated{starting}"))
    if gpus:
        whole = [n for n in allowed if n.fault(product) is None]
        if faults := [(n.name, why) for n in allowed if (why := n.fault(product) or n.loss) is not None]:
            parts = any(n.fault(product) for n in allowed)
            lines.append(failed("GPUs", _by_node(faults), _WHOLE if parts else "report the node to the provider (kubectl describe node)"))
        if not whole:
            return NodeRoom(lines, selected)
        allowed = whole
    last, free, lost = _check_room(allowed, requested, list(running))
    return NodeRoom([*lines, last], selected, free, lost)


_WHOLE = (
    "select nodes with whole GPUs by launcher.node_selector; to measure parts, name them in accelerator.product and launcher.gpu_resource"
)


def nothing_selected(
    nodes: Sequence[NodeGpus], selector: Mapping[str, str], labels: str, gpu_resource: str, product: str | None = None
) -> DoctorCheck:
    """No node has the selector's labels: a failure that names the labels of nodes with GPUs, unknown if no such node exists."""
    near = [n for n in nodes if n.has_gpus]
    if not near:
        return unknown(
            "nodes",
            f"no node among {len(nodes)} has {labels} or {gpu_resource}; an autoscaler must add such nodes on demand",
            "one such node, while its pool is not at zero",
        )
    wrong = {k: Counter(v for n in near if (v := n.labels.get(k)) is not None) for k in selector}
    differs = "; ".join(
        f"{k} is {', '.join(f'{v} ({count})' for v, count in values.most_common(3)) or 'on none'}"
        for k, values in wrong.items()
        if selector[k] not in values
    )
    wanted = device_model(product or selector.get(PRODUCT) or "")
    whole = [n for n in near if n.fault(product or selector.get(PRODUCT)) is None]
    fitting = [n for n in whole if n.model == wanted] or [n for n in whole if n.model is None]
    kinds = Counter(
        selector_text(n.selector, "no label of a product") + (f" ({n.fault(product)})" if n.fault(product) else "") for n in near
    )
    have = "; ".join(f"{count} × {kind}" for kind, count in kinds.most_common(4))
    return failed(
        "nodes",
        f"no node has {labels}; of {_count_nodes(len(near))} with GPUs, {differs or 'none has all of these labels'}; they have: {have}",
        _selector_remedy(fitting, whole),
    )


def _selector_remedy(fitting: Sequence[NodeGpus], whole: Sequence[NodeGpus]) -> str:
    texts = Counter(selector_text(n.selector, "", ": ") for n in fitting or whole)
    selectors = " or ".join(f"{{{text}}}" for text, _ in texts.most_common(2) if text)
    if not selectors:
        return "correct launcher.node_selector or accelerator.product (kubectl get nodes --show-labels)"
    other = "" if fitting else "correct accelerator.product, which these nodes do not have, and "
    return f"{other}write launcher.node_selector: {selectors}"


def _by_node(reasons: Iterable[tuple[str, str]]) -> str:
    """Each reason once, behind the nodes that have it, such as `node-1, node-2 and 3 more: is cordoned`."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for name, why in reasons:
        names[why].append(name)
    return "; ".join(f"{shorten(own, 2)}: {why}" for why, own in names.items())


def _check_room(usable: Sequence[NodeGpus], requested: Amounts, running: Sequence[Row]) -> tuple[DoctorCheck, int, bool]:
    """The check, how many nodes can hold the pod now, and whether lost GPUs are why none ever can."""
    allowed = [n.node for n in usable]
    whole = [n for n in allowed if _shortfall(amounts(n["status"].get("allocatable")), requested) == {}]
    if not whole:
        short = [(n, _shortfall(amounts(n.node["status"].get("allocatable")), requested)) for n in usable]
        node, best = min(short, key=lambda one: len(one[1]))
        if node.resource in best and node.missing and node.amount() + node.missing >= requested[node.resource]:
            found = f"no node can hold a trial's pod: {node.name}: {node.loss}"
            return failed("room on a node", found, "report the node to the provider"), 0, True
        lacks = ", ".join(f"{k} {_format_amount(requested[k])} requested, {_format_amount(v)} allocatable" for k, v in best.items())
        remedy = "lower launcher.resources below the allocatable amounts (system pods take a part of them), or select larger nodes"
        return failed("room on a node", f"no node can hold a trial's pod: {lacks}", remedy), 0, False
    now = sum(not _shortfall(_remaining(n, running), requested) for n in whole)
    busy = "" if now == len(whole) else f", {now} of them now, beside the namespace's running pods"
    return ok("room on a node", f"{_count_nodes(len(whole))} can hold a trial's pod{busy}"), now, False


def check_quota(quotas: Sequence[Row], pods: Sequence[Row], trials: int = 1) -> DoctorCheck:
    """Whether the namespace's quota has room now for the pods of `trials`, as many as may run at a time."""
    if not quotas:
        return skipped(
            "quota", "optional: the namespace has no ResourceQuota, so nothing limits the cost of a mistake; k8s/provider sets one"
        )
    requested: defaultdict[str, Decimal] = defaultdict(Decimal, {"pods": Decimal(len(pods)), "count/pods": Decimal(len(pods))})
    for pod in pods:
        for name, value in requested_resources(pod).items():
            for counted in (name, f"requests.{name}", f"limits.{name}"):
                requested[counted] += value
    short, never, left = [], False, []
    for row in quotas:
        hard, used = amounts(row["status"].get("hard")), amounts(row["status"].get("used"))
        for name, most in hard.items():
            want = requested.get(name, Decimal(0))
            if want and want > most - used.get(name, Decimal(0)):
                never = never or want > most
                short.append(
                    f"{name}: {_format_amount(want)} requested, {_format_amount(most - used.get(name, Decimal(0)))} of {_format_amount(most)} left"
                )
            elif want:
                left.append((most - used.get(name, Decimal(0))) / want)
    if not short:
        return ok("quota", f"room for {int(min(left) * trials)} trials" if left else "limits nothing that a trial requests")
    remedy = "raise the ResourceQuota in your overlay of k8s/provider, or lower launcher.resources"
    wanted = "a trial" if trials == 1 else f"{trials} trials at a time (launcher.parallel)"
    return failed("quota", f"no room for {wanted}: " + "; ".join(short), remedy if never else f"wait for running trials, or {remedy}")


def _remaining(node: Row, running: Sequence[Row]) -> dict[str, Decimal]:
    left = amounts(node["status"].get("allocatable"))
    for pod in running:
        if pod["spec"].get("nodeName") == node["metadata"]["name"] and pod["status"].get("phase") not in _ENDED:
            for name, value in requested_resources(pod).items():
                left[name] = left.get(name, Decimal(0)) - value
    return left


def _shortfall(has: Amounts, requested: Amounts) -> dict[str, Decimal]:
    return {name: has.get(name, Decimal(0)) for name, value in requested.items() if has.get(name, Decimal(0)) < value}


def untolerated_taints(node: Row, tolerations: Sequence[Row]) -> list[str]:
    """Taints that keep the pod off the node, such as `dedicated=gpu:NoSchedule`."""
    return [
        f"{taint['key']}{'=' + taint['value'] if taint.get('value') else ''}:{taint['effect']}"
        for taint in node["spec"].get("taints") or []
        if taint["effect"] != "PreferNoSchedule" and not any(_tolerates(t, taint) for t in tolerations)
    ]


def _tolerates(toleration: Row, taint: Row) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return toleration.get("key") == taint["key"] and (toleration.get("value") or "") == (taint.get("value") or "")


def _products(selected: Sequence[NodeGpus]) -> str:
    products = Counter(next(iter(n.selector.values())) for n in selected if set(n.selector) - {INSTANCE_TYPE})
    return f" ({', '.join(f'{count} × {product}' for product, count in products.most_common(3))})" if products else ""


def selector_text(selector: Mapping[str, str], none: str = "", sign: str = "=") -> str:
    return ("," if sign == "=" else ", ").join(f"{label}{sign}{value}" for label, value in selector.items()) or none


def _count_nodes(count: int) -> str:
    return format_count(count, "node")


def _format_amount(value: Decimal) -> str:
    if value >= 2**20:
        return f"{float(value) / 2**30:.4g} GiB"
    return f"{value.normalize():f}"
