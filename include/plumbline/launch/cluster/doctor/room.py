"""Is there room for a trial: nodes that its pods may and can use, and quota. Pure: rows of the API in, lines out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from plumbline.launch.cluster.base import Row
from plumbline.launch.cluster.doctor.line import Line, failed, ok, unknown

Amounts = Mapping[str, Decimal]
_ENDED = ("Succeeded", "Failed")
_PRODUCT = "nvidia.com/gpu.product"


def amounts(quantities: Mapping[str, object] | None) -> dict[str, Decimal]:
    """Kubernetes quantities ("500m", "64Gi") as numbers."""
    from kubernetes.utils.quantity import parse_quantity

    return {name: parse_quantity(str(value)) for name, value in (quantities or {}).items()}


def requested(pod: Row) -> dict[str, Decimal]:
    """What the containers of a pod ask for together, its sidecars included. (An init container that ends asks for less than the trial.)"""
    total: defaultdict[str, Decimal] = defaultdict(Decimal)
    sidecars = [c for c in pod["spec"].get("initContainers") or () if c.get("restartPolicy") == "Always"]
    for container in [*pod["spec"]["containers"], *sidecars]:
        for name, value in amounts((container.get("resources") or {}).get("requests")).items():
            total[name] += value
    return dict(total)


def nodes(found: Sequence[Row], pod: Row, running: Iterable[Row], gpu_resource: str) -> list[Line]:
    """Are there nodes that a trial's pod selects, may use, and fits on? `running`: the pods of the namespace, the only ones visible."""
    selector: Mapping[str, str] = pod["spec"].get("nodeSelector") or {}
    shown = ", ".join(f"{k}={v}" for k, v in selector.items()) or "any labels (launcher.node_selector is empty)"
    selected = [n for n in found if selector.items() <= (n["metadata"].get("labels") or {}).items()]
    if not selected:
        return [nothing_selected(found, selector, shown, gpu_resource)]
    lines = [ok("nodes", f"{_nodes(len(selected))} with {shown}{_products(selected)}")]
    usable = [n for n in selected if ready(n)]
    why = Counter(taint for n in usable for taint in untolerated(n, pod["spec"].get("tolerations") or []))
    allowed = [n for n in usable if not untolerated(n, pod["spec"].get("tolerations") or [])]
    if not usable:
        return [
            *lines,
            failed(
                "nodes ready", f"none of {_nodes(len(selected))} is ready and open for pods", "kubectl get nodes; uncordon or repair one"
            ),
        ]
    if not allowed:
        taints = ", ".join(why)
        return [
            *lines,
            failed("taints", f"no node tolerates a trial: {taints}", f"add to launcher.tolerations what your trials may bear of: {taints}"),
        ]
    lines.append(ok("taints", f"{len(allowed)} of {_nodes(len(selected))} ready and open to trials"))
    return [*lines, _fits(allowed, requested(pod), list(running))]


def nothing_selected(found: Sequence[Row], selector: Mapping[str, str], shown: str, gpu_resource: str) -> Line:
    """A selector that fits nothing is a misspelling where there are such nodes; where there are none, an autoscaler may bring them."""
    near = [n for n in found if gpu_resource in (n["status"].get("allocatable") or {})]
    if not near:
        return unknown(
            "nodes",
            f"none of {_nodes(len(found))} has {shown}, nor {gpu_resource}: right only where an autoscaler adds such nodes on demand",
        )
    wrong = {k: Counter((n["metadata"].get("labels") or {}).get(k, "absent") for n in near) for k in selector}
    differs = "; ".join(
        f"{k} is {', '.join(f'{v} ({count})' for v, count in values.most_common(3))}"
        for k, values in wrong.items()
        if selector[k] not in values
    )
    return failed(
        "nodes",
        f"no node has {shown}; of {_nodes(len(near))} with {gpu_resource}, {differs or 'none has all of these labels at once'}",
        "correct launcher.node_selector (or accelerator.product) to what the nodes say: kubectl get nodes --show-labels",
    )


def _fits(allowed: Sequence[Row], asked: Amounts, running: Sequence[Row]) -> Line:
    whole = [n for n in allowed if _lacks(amounts(n["status"].get("allocatable")), asked) == {}]
    if not whole:
        best = min((_lacks(amounts(n["status"].get("allocatable")), asked) for n in allowed), key=len)
        return failed(
            "room on a node",
            "no node can ever hold a trial's pod: "
            + ", ".join(f"{k} {_number(asked[k])} asked, {_number(v)} allocatable" for k, v in best.items()),
            "lower launcher.resources below what the nodes can allocate (the system's own pods take some of it), or select larger nodes",
        )
    now = sum(not _lacks(_left(n, running), asked) for n in whole)
    busy = "" if now == len(whole) else f", {now} of them beside the pods that run in the namespace now"
    return ok("room on a node", f"{_nodes(len(whole))} can hold a trial's pod{busy}")


def quota(quotas: Sequence[Row], pods: Sequence[Row]) -> Line:
    """Does the namespace's quota leave room for one trial now?"""
    if not quotas:
        return unknown("quota", "the namespace has no ResourceQuota: nothing bounds what a mistake can cost; k8s/provider sets one")
    asked: defaultdict[str, Decimal] = defaultdict(Decimal, {"pods": Decimal(len(pods)), "count/pods": Decimal(len(pods))})
    for pod in pods:
        for name, value in requested(pod).items():
            for counted in (name, f"requests.{name}", f"limits.{name}"):
                asked[counted] += value
    short, never, left = [], False, []
    for row in quotas:
        hard, used = amounts(row["status"].get("hard")), amounts(row["status"].get("used"))
        for name, most in hard.items():
            want = asked.get(name, Decimal(0))
            if want and want > most - used.get(name, Decimal(0)):
                never = never or want > most
                short.append(f"{name}: {_number(want)} asked, {_number(most - used.get(name, Decimal(0)))} of {_number(most)} left")
            elif want:
                left.append((most - used.get(name, Decimal(0))) / want)
    if not short:
        return ok("quota", f"room for {int(min(left))} trials" if left else "bounds nothing that a trial asks for")
    remedy = "raise the ResourceQuota in your overlay of k8s/provider, or ask for less in launcher.resources"
    return failed("quota", "no room for a trial: " + "; ".join(short), remedy if never else f"wait for what runs now, or {remedy}")


def _left(node: Row, running: Sequence[Row]) -> dict[str, Decimal]:
    left = amounts(node["status"].get("allocatable"))
    for pod in running:
        if pod["spec"].get("nodeName") == node["metadata"]["name"] and pod["status"].get("phase") not in _ENDED:
            for name, value in requested(pod).items():
                left[name] = left.get(name, Decimal(0)) - value
    return left


def _lacks(has: Amounts, asked: Amounts) -> dict[str, Decimal]:
    """What is there of everything that does not suffice."""
    return {name: has.get(name, Decimal(0)) for name, value in asked.items() if has.get(name, Decimal(0)) < value}


def ready(node: Row) -> bool:
    """Whether pods can start on it now."""
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions") or [])
    return ready and not node["spec"].get("unschedulable")


def untolerated(node: Row, tolerations: Sequence[Row]) -> list[str]:
    """The node's taints that keep such pods away, such as `dedicated=gpu:NoSchedule`."""
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


def _products(selected: Sequence[Row]) -> str:
    seen = Counter(p for n in selected if (p := (n["metadata"].get("labels") or {}).get(_PRODUCT)))
    return f" ({', '.join(f'{count} × {product}' for product, count in seen.most_common(3))})" if seen else ""


def _nodes(count: int) -> str:
    return f"{count} node{'s' if count != 1 else ''}"


def _number(value: Decimal) -> str:
    if value >= 2**20:
        return f"{float(value) / 2**30:.4g} GiB"
    return f"{value.normalize():f}"
