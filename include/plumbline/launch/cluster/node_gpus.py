"""A node's GPUs by its labels, resources and taints, in the vocabularies of clouds and of the GPU discoveries."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from plumbline.declarations.devices import device_model, mig_profile, part_of_card
from plumbline.launch.cluster.names import Row

PRODUCT = "nvidia.com/gpu.product"
"""Label of NVIDIA's GPU feature discovery."""
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
PRODUCT_LABELS = {
    PRODUCT: "gpu.product",
    "amd.com/gpu.product-name": "gpu.product",
    "beta.amd.com/gpu.product-name": "gpu.product",
    "cloud.google.com/gke-accelerator": "gpu.name.gke",
    "eks.amazonaws.com/instance-gpu-name": "gpu.name.aws",
    "karpenter.k8s.aws/instance-gpu-name": "gpu.name.aws",
    "gpu.nvidia.com/class": "gpu.name.coreweave",
    "nebius.com/gpu-name": "gpu.name.nebius",
}
"""Labels with a product, and the fact of each: a value in another vocabulary is another fact, so a new discovery is no other hardware."""
COUNT_LABELS = (
    "cloud.google.com/gke-accelerator-count",
    "eks.amazonaws.com/instance-gpu-count",
    "karpenter.k8s.aws/instance-gpu-count",
    "gpu.nvidia.com/count",
)
_GFD_COUNT = "nvidia.com/gpu.count"
_PRESENT = re.compile(
    r"nvidia\.com/gpu(\.present|\.clique)?|cloud\.google\.com/gke-gpu|nebius\.com/gpu|(kubernetes\.azure\.com/)?accelerator|"
    r"resource\.nvidia\.com/computeDomain|feature\.node\.kubernetes\.io/pci-(03\d\d_)?(10de|1002)\.present|beta\.amd\.com/gpu\.device-id"
)
PASSING_TAINT = re.compile(
    r"^node\.kubernetes\.io/(not-ready|unreachable|unschedulable|out-of|network-unavailable|\w+-pressure)|^node\.cloudprovider\.kubernetes\.io/|"
    r"not-?ready|unregistered|uninitialized|initializ|startup|disrupt|terminat|shut-?down|ToBeDeleted|DeletionCandidate|spot-itn|drain|upgrad|"
    r"maintenance|unhealthy|repair|remediat|quarantine|cordon",
    re.IGNORECASE,
)
"""Keys of taints that come and go: of a node that starts, is repaired or goes down. A pod that tolerates them runs where nothing works yet."""

GETS, NOT_GOT = "gets its", "did not get its"
"""How `NodeGpus.changes` begins."""
_ROLL_OUTS = (
    ("nvidia.com/gpu-driver-upgrade-state", "driver", ("", "upgrade-done", "upgrade-required")),
    ("nvidia.com/mig.config.state", "MIG layout", ("success",)),
)
"""Label of NVIDIA's GPU operator, what it changes, and the states in which it does not."""
_AILMENT = re.compile(
    r"^(AcceleratedHardware|ContainerRuntime|Kernel|Networking|Storage)Ready$|^GPU(Missing|\w*(Error|Fail|Unhealthy))|GPU\w*Healthy$"
    r"|^(XID|Xid)|^NVLink|^NVSwitch|^IB(Link|Port|Device)|^Unhealthy(Nvidia|Gpu|GPU)|^KernelDeadlock$|^ReadonlyFilesystem$|Problem$"
)
"""Types of node conditions by the health agents of EKS, AKS, GKE and node-problem-detector that make a node unusable. Restarts that are frequent,
announced maintenance and lowered clocks do not."""
_SICK = re.compile(r"^(AcceleratedHardware|GPU|XID|Xid|NVLink|NVSwitch|IB)")
"""Those of the hardware itself; what keeps a kernel, a disk, a network or a kubelet from work may be a pod of ours."""
_CLOSING_TAINT = re.compile("unschedulable|drain|upgrad|maintenance|cordon", re.IGNORECASE)


@dataclass(frozen=True)
class NodeGpus:
    """A node's GPUs, which trials request as `resource`. `devices`: products that its ResourceSlices offer (DRA)."""

    node: Row
    resource: str
    devices: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return str(self.node["metadata"]["name"])

    @cached_property
    def labels(self) -> Mapping[str, str]:
        return self.node["metadata"].get("labels") or {}

    def amount(self, resource: str | None = None, of: str = "allocatable") -> int:
        value = str((self.node["status"].get(of) or {}).get(resource or self.resource, 0))
        return int(value) if value.isdigit() else 0

    @property
    def capacity(self) -> int:
        return max(self.amount(), self.amount(of="capacity"))

    @property
    def has_gpus(self) -> bool:
        names = {*(label for label, value in self.labels.items() if value != "false"), *(self.node["status"].get("allocatable") or {})}
        known = {self.resource, _GFD_COUNT, *COUNT_LABELS, *PRODUCT_LABELS}
        return bool(names & known or self.devices or self.offered_as or any(map(_PRESENT.fullmatch, names)))

    @property
    def offered_as(self) -> dict[str, int]:
        """Other resources by which GPUs or parts of them are offered, such as nvidia.com/mig-1g.10gb."""
        names = (name for name in self.node["status"].get("allocatable") or {} if name != self.resource)
        gpus = [n for n in names if re.match(r"nvidia\.com/(gpu|mig-)|amd\.com/(gpu$|[a-z]+_nps\d)", n)]
        return {name: count for name in gpus if (count := self.amount(name))}

    @property
    def part(self) -> str | None:
        """The part of a card that one `resource` is; None for a whole card."""
        strategy = _first(self.labels, "cloud.google.com/gke-gpu-sharing-strategy", "nvidia.com/gpu.sharing-strategy")
        if (strategy or "none") != "none" or self.replicas > 1:
            clients = f", {self.replicas} clients a card" if self.replicas > 1 else ""
            return f"a card shared by {strategy or 'several programs'}{clients}"
        cut = _first(self.labels, "cloud.google.com/gke-gpu-partition-size", PRODUCT, "nvidia.com/mig.config") or ""
        mode = (_first(self.labels, "amd.com/compute-memory-partition", "amd.com/gpu.compute-memory-partition") or "spx").lower()
        partition = re.search(r"/([cdqt]px)_", f"/{mode}_" if self.resource == "amd.com/gpu" else self.resource)
        if partition:
            return f"a partition of a card ({mode if 'px_' in mode else partition[1]})"
        if self.labels.get("nvidia.com/vgpu.present") == "true":
            return "a vGPU"
        profile = mig_profile(self.resource) or mig_profile(cut)
        named = f"MIG {profile}" if profile else part_of_card(self.resource) or part_of_card(cut)
        return named or (
            f"a part of a card ({self.amount()} are offered of {self.cards})" if 0 < (self.cards or 0) < self.amount() else None
        )

    @property
    def replicas(self) -> int:
        text = _first(self.labels, "cloud.google.com/gke-max-shared-clients-per-gpu", "nvidia.com/gpu.replicas") or "1"
        return int(text) if text.isdigit() else 1

    @property
    def cards(self) -> int | None:
        """Whole cards by the labels. GFD counts MIG instances as GPUs."""
        sliced = mig_profile(self.labels.get(PRODUCT, "")) is not None
        text = _first(self.labels, *COUNT_LABELS, *(() if sliced else (_GFD_COUNT,))) or ""
        return int(text) if text.isdigit() else None

    @property
    def missing(self) -> int:
        """Devices that the node should offer and does not; 0 where a card may be cut into MIG instances of their own resource."""
        counted = 0 if self.offered_as or mig_profile(self.part or "") else (self.cards or 0) * self.replicas
        return max(0, self.capacity - self.amount(), counted - self.amount())

    @property
    def loss(self) -> str | None:
        """Such as `one GPU is gone: 7 of 8 nvidia.com/gpu are allocatable`; None if all are there."""
        if not self.missing:
            return None
        gone = "one GPU is gone" if self.missing == 1 else f"{self.missing} GPUs are gone"
        return f"{gone}: {self.amount()} of {self.amount() + self.missing} {self.resource} are allocatable"

    def fault(self, product: str | None) -> str | None:
        """Why a trial that wants the declared product cannot use these GPUs, which are not lost; None if it can."""
        if self.by_claim:
            devices = f" ({', '.join(f'{n} × {name}' for name, n in Counter(self.devices).items())})" if self.devices else ""
            return f"offers its GPUs by DRA{devices}, not as {self.resource}; claim them by pod_patch (resourceClaims)"
        others = ", ".join(f"{count} × {name}" for name, count in self.offered_as.items())
        if self.part and part_of_card(product) is None:
            return f"one {self.resource} is {self.part}, not a whole GPU" + (f"; it offers {others}" if others else "")
        return f"offers its GPUs as {others}, not as {self.resource}" if others and not self.capacity else None

    @property
    def by_claim(self) -> bool:
        """Whether its GPUs are offered by dynamic resource allocation alone."""
        return bool(self.devices or "resource.nvidia.com/computeDomain" in self.labels) and not self.capacity

    def unready(self, gpus: bool = True) -> str | None:
        """Why nothing can start on the node now, or None. `gpus`: a trial needs some."""
        spec, labels = self.node["spec"], self.labels
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in self.node["status"].get("conditions") or [])
        passing = [t["key"] for t in spec.get("taints") or [] if PASSING_TAINT.search(t["key"]) and t["effect"] != "PreferNoSchedule"]
        state = labels.get("node.coreweave.cloud/state", "production")
        nothing = self.has_gpus and not (self.capacity or self.by_claim or self.offered_as or self.part)
        reasons = {
            "is not ready": not ready,
            "is cordoned": bool(spec.get("unschedulable")),
            f"starts or goes down ({', '.join(passing)})": bool(passing),
            f"is in state {state}": state != "production",
            self.changes or "": gpus and self.changes is not None,
            _unhealthy(self.ailment): gpus and self.ailment is not None,
            f"offers no {self.resource} yet: its driver or device plugin does not run": gpus and nothing,
        }
        return ", ".join(why for why, holds in reasons.items() if holds) or None

    @property
    def maintained(self) -> bool:
        """Whether the node was taken out of service: it is cordoned or drained, or its GPU operator rolls out a driver or a MIG layout."""
        spec = self.node["spec"]
        closed = bool(spec.get("unschedulable")) or any(_CLOSING_TAINT.search(taint["key"]) for taint in spec.get("taints") or [])
        return (closed or self.changes is not None) and not self.sick

    @property
    def changes(self) -> str | None:
        """How a GPU operator of the cluster changes the node's driver or MIG layout, or failed to; None if it does neither."""
        for label, what, done in _ROLL_OUTS:
            if (state := self.labels.get(label, done[0])) not in done:
                return f"{NOT_GOT} {what} ({state})" if "failed" in state else f"{GETS} {what} ({state})"
        return None

    @property
    def change_failed(self) -> bool:
        """Whether a GPU operator of the cluster could not change the node's driver or MIG layout: whoever runs it repairs it."""
        return any("failed" in self.labels.get(label, "") for label, _, _ in _ROLL_OUTS)

    @property
    def ailment(self) -> str | None:
        """What the cloud's own health agent says that makes the node unusable, such as `AcceleratedHardwareReady=False (NvidiaXID79Error)`."""
        for row in self.node["status"].get("conditions") or []:
            kind, status = str(row["type"]), row["status"]
            if status == ("False" if kind.endswith(("Ready", "Healthy")) else "True") and _AILMENT.search(kind):
                reason = row.get("reason")
                return f"{kind}={status}" + (f" ({reason})" if reason and reason != kind else "")
        return None

    @property
    def sick(self) -> bool:
        """Whether its ailment is one of the hardware, which is the provider's."""
        return self.ailment is not None and _SICK.search(self.ailment) is not None

    @property
    def unclear(self) -> bool:
        """Whether an ailment that may be ours is all that keeps it from work."""
        return self.ailment is not None and not self.sick and self.unready() == _unhealthy(self.ailment)

    @property
    def selector(self) -> dict[str, str]:
        """Labels of the node that choose nodes like it: its product in the first vocabulary that it has, and its instance type."""
        product = next((label for label in PRODUCT_LABELS if label in self.labels), None)
        return {label: self.labels[label] for label in (product, INSTANCE_TYPE) if label in self.labels and label is not None}

    @property
    def model(self) -> str | None:
        names = (*(self.labels[label] for label in PRODUCT_LABELS if label in self.labels), *self.devices, *self.selector.values())
        return next((model for name in names if (model := device_model(name))), None)


def _unhealthy(ailment: str | None) -> str:
    return f"is unhealthy: {ailment}"


def claimed_devices(slices: Sequence[Row], node: str) -> tuple[str, ...]:
    """Products of the GPUs and MIG instances that ResourceSlices offer on a node; `basic` wraps a device before resource.k8s.io/v1beta2."""
    devices = (
        d for s in slices if s["spec"].get("nodeName") == node and "gpu" in s["spec"].get("driver", "") for d in s["spec"]["devices"]
    )
    attributes = [device.get("attributes") or (device.get("basic") or {}).get("attributes") or {} for device in devices]
    return tuple(str((own.get("productName") or own.get("type") or {}).get("string", "GPU")) for own in attributes)


def _first(labels: Mapping[str, str], *names: str) -> str | None:
    return next((labels[name] for name in names if name in labels), None)
