"""Changes around a workload: an exact diff of flat facts between a campaign's trials and its baseline's, and changes over a fleet.

A fact is reported when the set of its values differs. It *matters* (is a finding by itself, also when performance did not move) when it
is one of the facts listed below as able to explain a change, or the declarations say so (`drift.environment` in thresholds.yaml, which
has the last word), and the campaign shows a value that no trial of the baseline had: a node type that the baseline knew already is no
news. What changed alike on every GPU of a node is one change, of `gpu.*.product` and the like. Comparisons, findings and pages all use
this list.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Literal, get_args

from plumbline.declarations.thresholds import EnvironmentRules
from plumbline.results.sample import Facts, Scalar

Group = Literal[
    "hardware", "driver and firmware", "runtime libraries", "kernel and OS", "kubernetes", "limits and clocks", "location", "image", "other"
]
GROUPS: tuple[Group, ...] = get_args(Group)
"""In the order in which they are shown."""
Cause = Literal["compute", "memory", "storage", "network", "software", "isolation"]
"""Which kind of resource a fact can have changed; attribution compares it with what moved."""


@dataclass(frozen=True)
class FactRule:
    """A rule for the facts whose key matches: `weight` (0–1) is how plausible it is that a change of it moves performance."""

    pattern: str
    group: Group
    matters: bool
    weight: float
    causes: tuple[Cause, ...] = ()
    title: str | None = None


FACT_RULES: tuple[FactRule, ...] = (
    FactRule(r"gpu\.count", "hardware", True, 1.0, ("compute", "memory", "network"), "GPUs"),
    FactRule(r"gpu\.(\d+\.)?(product|model|name\..*)", "hardware", True, 1.0, ("compute", "memory"), "GPU"),
    FactRule(r"gpu\.(\d+\.)?memory.*", "hardware", True, 0.7, ("memory",), "GPU memory"),
    FactRule(r"gpu\.(\d+\.)?mig.*", "hardware", True, 0.9, ("compute", "memory"), "MIG layout"),
    FactRule(r"gpu\.(\d+\.)?(slice|slices|lost|compute_partition|memory_partition)", "hardware", True, 0.9, ("compute", "memory")),
    FactRule(r"gpu\.(\d+\.)?(vbios|firmware|inforom).*", "driver and firmware", True, 0.5, ("compute", "memory")),
    FactRule(r"gpu\.(\d+\.)?(nvlink|pcie).*", "hardware", True, 0.6, ("network",)),
    FactRule(r"gpu\.(\d+\.)?(.*clock.*|power_limit.*|persistence.*|ecc.*)", "limits and clocks", True, 0.95, ("compute", "memory")),
    FactRule(r"gpu\.allocatable", "hardware", True, 0.8, ("compute",), "allocatable GPUs"),
    FactRule(r"gpu\.(replicas|sharing_strategy.*|partitions)", "limits and clocks", True, 0.95, ("compute", "memory")),
    FactRule(r"gpu\..*", "hardware", False, 0.2, ("compute",)),
    FactRule(r"cpu\.usable", "limits and clocks", True, 1.0, ("compute", "memory"), "usable cores"),
    FactRule(r"cpu\.usable_list", "limits and clocks", False, 0.1, ("compute",), "core list"),
    FactRule(r"cpu\.model(_id)?", "hardware", True, 1.0, ("compute", "memory"), "CPU"),
    FactRule(r"cpu\.(logical|physical|sockets)", "hardware", True, 0.6, ("compute",)),
    FactRule(r"cpu\.isa", "hardware", True, 0.8, ("compute",), "CPU instructions"),
    FactRule(r"cpu\.smt", "limits and clocks", True, 0.7, ("compute",), "hyper-threading"),
    FactRule(r"cpu\.microcode", "driver and firmware", True, 0.4, ("compute",), "CPU microcode"),
    FactRule(r"cpu\.vulnerability\..*", "kernel and OS", True, 0.5, ("compute", "software")),
    FactRule(r"cpu\.(governor|frequency.*|boost.*)", "limits and clocks", True, 0.9, ("compute",)),
    FactRule(r"cpu\..*", "hardware", False, 0.3, ("compute",)),
    FactRule(r"memory\.total_bytes", "hardware", True, 0.4, ("memory",), "memory"),
    FactRule(r"memory\.huge_pages", "kernel and OS", True, 0.4, ("memory",), "huge pages"),
    FactRule(r"numa\..*", "hardware", True, 0.5, ("memory",)),
    FactRule(r"memory\..*", "hardware", False, 0.2, ("memory",)),
    FactRule(r"(network|nic|infiniband)\..*", "hardware", True, 0.6, ("network",)),
    FactRule(r"(disk|storage|filesystem)\..*", "hardware", True, 0.6, ("storage",)),
    FactRule(r"driver\..*", "driver and firmware", True, 0.8, ("compute", "memory", "software"), "driver"),
    FactRule(r"(cuda|rocm)\..*", "runtime libraries", True, 0.7, ("compute", "software")),
    FactRule(r"nccl\.net_plugin", "runtime libraries", True, 0.8, ("network",), "NCCL network plugin"),
    FactRule(r"ofi_nccl\..*", "runtime libraries", True, 0.8, ("network",), "aws-ofi-nccl"),
    FactRule(r"libfabric\..*", "runtime libraries", True, 0.7, ("network",), "libfabric"),
    FactRule(r"efa\.installer", "runtime libraries", True, 0.6, ("network",), "EFA installer"),
    FactRule(r"efa\.driver", "driver and firmware", True, 0.7, ("network",), "EFA driver"),
    FactRule(r"(nccl|rccl)\..*", "runtime libraries", True, 0.7, ("network", "software")),
    FactRule(r"framework\..*", "runtime libraries", True, 0.7, ("software",), "framework"),
    FactRule(r"(cudnn|cublas)\..*", "runtime libraries", True, 0.6, ("compute", "software")),
    FactRule(r"training\.(world_size|nodes|processes)", "limits and clocks", True, 1.0, ("compute", "network")),
    FactRule(r"training\.backend", "runtime libraries", True, 0.8, ("network", "software"), "collective backend"),
    FactRule(r"torch\.threads.*", "limits and clocks", True, 0.8, ("compute",), "torch threads"),
    FactRule(r"triton\.version", "runtime libraries", True, 0.7, ("software",), "tritonserver"),
    FactRule(r"triton_compiler\..*", "runtime libraries", True, 0.7, ("compute", "software"), "Triton compiler"),
    FactRule(r"flash_attn\..*", "runtime libraries", True, 0.7, ("compute", "software"), "flash-attn"),
    FactRule(r"flash_attn_3\..*", "runtime libraries", True, 0.7, ("compute", "software"), "flash-attn 3"),
    FactRule(r"transformer_engine\..*", "runtime libraries", True, 0.7, ("compute", "software"), "Transformer Engine"),
    FactRule(r"tensorrt_llm\..*", "runtime libraries", True, 0.7, ("compute", "software"), "TensorRT-LLM"),
    FactRule(r"engine\..*", "runtime libraries", True, 0.7, ("compute", "software"), "inference engine"),
    FactRule(r"vllm\..*", "runtime libraries", True, 0.7, ("compute", "software"), "vLLM"),
    FactRule(
        r"(torch|torchao|flashinfer|torchvision|transformers|peft|safetensors|triton|tritonserver|tensorrt)\..*",
        "runtime libraries",
        True,
        0.7,
        ("software",),
    ),
    FactRule(r"model\.manifest", "other", True, 1.0, ("compute", "memory", "software"), "files of the model"),
    FactRule(r"endpoint\..*", "runtime libraries", True, 0.8, ("software", "network")),
    # Of a hosted model: the client's own machine, which its provider has no part in.
    FactRule(r"client\.cpu\.(usable|model)", "limits and clocks", True, 0.4, ("isolation",)),
    FactRule(r"(python|numpy|blas|pyarrow|tritonclient)\..*", "runtime libraries", True, 0.3, ("software",)),
    FactRule(r"harness\..*", "runtime libraries", True, 0.4, ("software",), "harness"),
    FactRule(r"os\.boot\..*", "kernel and OS", True, 0.6, ("compute", "network", "software")),
    FactRule(r"os\.kernel", "kernel and OS", True, 0.5, ("software", "storage", "network"), "kernel"),
    FactRule(r"os\..*", "kernel and OS", False, 0.2, ("software",)),
    FactRule(r"(kubernetes|kubelet|containerd|node\.labels?)\b.*", "kubernetes", False, 0.2, ("software", "isolation")),
    FactRule(r"setting\..*", "runtime libraries", False, 0.5, ("compute", "network", "software")),
    FactRule(r"limits\..*", "limits and clocks", True, 0.95, ("compute", "memory")),
    FactRule(r"host\.virtualization", "hardware", True, 0.6, ("compute", "isolation"), "virtualization"),
    FactRule(r"host\.firmware", "driver and firmware", True, 0.3, ("compute", "memory"), "host firmware"),
    FactRule(r"host\.(instance_type|region|zone)", "location", True, 0.6, ("compute", "network")),
    FactRule(r"host\.node", "location", False, 0.3, ("compute",), "node"),
    FactRule(r"host\..*", "hardware", False, 0.3, ("compute",)),
    FactRule(r"(provider|cloud|location)\..*|region|zone|instance.*", "location", True, 0.5, ("compute", "network")),
    FactRule(r"(container|image)\..*", "image", True, 0.6, ("software",)),
)
_OTHER = FactRule(r".*", "other", False, 0.1, ("software",))


@dataclass(frozen=True)
class EnvironmentChange:
    """One fact that changed: its values before and after, the most frequent first (None: absent, or reported as unknown).

    `trials` of `of_trials` trials of the campaign show a value that the baseline never had; of a look at a provider (`unit`) that many of
    its nodes, and `new` are those values alone.
    """

    group: Group
    key: str
    title: str
    old: tuple[Scalar, ...]
    new: tuple[Scalar, ...]
    matters: bool
    trials: int
    of_trials: int
    unit: Literal["trial", "node"] = "trial"

    @property
    def text(self) -> str:
        """The change as text, such as `usable cores 2 → 1 (5 of 5 trials)`."""
        coverage = f"{self.trials} of {self.of_trials} {self.unit}{'s' if self.of_trials != 1 or self.unit == 'trial' else ''}"
        return f"{self.title} {format_values(self.old)} → {format_values(self.new)} ({coverage})"


def fact_rule(key: str) -> FactRule:
    """The rule for a fact, or for one that stands for those of all devices (`gpu.*.product`)."""
    single = key.replace(".*.", ".0.")
    return next((rule for rule in FACT_RULES if re.fullmatch(rule.pattern, single)), _OTHER)


def diff_environments(
    baseline: Sequence[Facts], candidate: Sequence[Facts], declared: EnvironmentRules | None = None
) -> tuple[EnvironmentChange, ...]:
    """The facts whose set of values differs, those that matter first, then by plausibility and key; empty if one side has no trial."""
    declared = declared or EnvironmentRules()
    if not baseline or not candidate:
        return ()
    changes = []
    for key in sorted(set().union(*baseline, *candidate)):
        # JSON gives 2 and 2.0 for one reading, and True == 1 in Python: neither may hide or invent a change.
        old, new = ([_typed(facts.get(key)) for facts in trials] for trials in (baseline, candidate))
        if set(old) == set(new):
            continue
        rule = fact_rule(key)
        unseen = sum(value not in set(old) for value in new)
        statement = declared.says(key)
        changes.append(
            EnvironmentChange(
                group=rule.group,
                key=key,
                title=_title(rule, key),
                old=_by_frequency(old),
                new=_by_frequency(new),
                matters=(rule.matters if statement is None else statement) and unseen > 0,
                trials=unseen,
                of_trials=len(new),
            )
        )
    return _ordered(_merge_alike(changes, set().union(*baseline, *candidate)))


def diff_nodes(
    known: Mapping[str, Sequence[Scalar]], nodes: Sequence[Facts], declared: EnvironmentRules | None = None
) -> tuple[EnvironmentChange, ...]:
    """The facts of which some node shows a value that is not among the `known` ones; what a node does not tell, or was not known, is none.

    That a value is gone, or how many nodes show one, is no change: nodes come and go.
    """
    declared = declared or EnvironmentRules()
    changes = []
    shared = [key for key in sorted(known) if any(facts.get(key) is not None for facts in nodes)]
    for key in shared:
        rule, statement, old = fact_rule(key), declared.says(key), [_typed(value) for value in known[key]]
        now = [_typed(value) for facts in nodes if (value := facts.get(key)) is not None]
        unseen = [value for value in now if value not in set(old)]
        if unseen:
            matters = rule.matters if statement is None else statement
            changes.append(
                EnvironmentChange(
                    rule.group, key, _title(rule, key), _by_frequency(old), _by_frequency(unseen), matters, len(unseen), len(now), "node"
                )
            )
    return _ordered(_merge_alike(changes, shared))


def _ordered(changes: Sequence[EnvironmentChange]) -> tuple[EnvironmentChange, ...]:
    return tuple(sorted(changes, key=lambda c: (not c.matters, -fact_rule(c.key).weight, c.key)))


def _merge_alike(changes: Sequence[EnvironmentChange], keys: Collection[str]) -> list[EnvironmentChange]:
    """The changes, with those of one fact that every device shows alike made one: eight GPUs of another product are one piece of news."""
    devices = Counter(_of_all(key) for key in keys)
    by_change: dict[EnvironmentChange, list[EnvironmentChange]] = {}
    for change in changes:
        by_change.setdefault(replace(change, key=_of_all(change.key), title=""), []).append(change)
    merged = []
    for common, own in by_change.items():
        if 1 < len(own) == devices[common.key]:
            title = _title(fact_rule(common.key), common.key)
            merged.append(replace(common, title=f"{title} (all {len(own)})"))
        else:
            merged += own
    return merged


def fact_name(key: str) -> str:
    """The fact behind a key, whatever device and source it names: `gpu.*.product`, `gpu.0.product` and a node's label
    `gpu.product` are one fact."""
    return re.sub(r"^gpu\.(\d+|\*)\.", "gpu.", key).replace("gpu.memory_mib", "gpu.memory_bytes")


def _of_all(key: str) -> str:
    return re.sub(r"\.\d+\.", ".*.", key, count=1)


def changes_by_group(changes: Sequence[EnvironmentChange]) -> tuple[tuple[Group, tuple[EnvironmentChange, ...]], ...]:
    """The changes by group, groups in their usual order, each group's changes as they came; groups without any are left out."""
    groups = ((group, tuple(c for c in changes if c.group == group)) for group in GROUPS)
    return tuple((group, own) for group, own in groups if own)


def _typed(value: Scalar) -> tuple[str, Scalar]:
    kind = "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__
    return kind, value


def _by_frequency(values: list[tuple[str, Scalar]]) -> tuple[Scalar, ...]:
    return tuple(value for (_, value), _ in Counter(values).most_common())


def _title(rule: FactRule, key: str) -> str:
    index = re.search(r"\.(\d+)\.", key)
    if rule.title:
        return f"{rule.title} {index[1]}" if index else rule.title
    return key.replace(".version", "").replace(".*.", ".").replace(".", " ").replace("_", " ")


def format_values(values: Sequence[Scalar]) -> str:
    """A fact's values in words, three at most."""
    texts = ["absent" if v is None else str(v) for v in values[:3]]
    return " or ".join(texts) + (f" or {len(values) - 3} more" if len(values) > 3 else "")


FACT_NAMES = {
    "driver.version": "driver",
    "cuda.version": "CUDA",
    "rocm.version": "ROCm",
    "nccl.version": "NCCL",
    "kubernetes.version": "Kubernetes",
    "os.kernel": "kernel",
    "host.instance_type": "node type",
    "container.image": "image",
}
"""Facts whose changes are judged over all providers that have them, with their names for people; the first one names a change of several."""


@dataclass(frozen=True)
class FactReading:
    """The values of one fact in a provider's trials of one campaign."""

    provider: str
    campaign: str
    at: datetime
    fact: str
    value: str


@dataclass(frozen=True)
class Adoption:
    """The value came to a provider, first seen in this campaign; `before`: its values in the one before. `current`: it still has it."""

    provider: str
    before: str
    campaign: str
    at: datetime
    current: bool


@dataclass(frozen=True)
class FactChange:
    """One value of a fact that at least one provider changed to. `have`: providers with it now, of `known` that report the fact; `others`:
    (provider, its value now) of the rest."""

    fact: str
    value: str
    adoptions: tuple[Adoption, ...]
    have: tuple[str, ...]
    known: int
    others: tuple[tuple[str, str], ...]

    @property
    def newest(self) -> datetime:
        return max(a.at for a in self.adoptions)


def fact_changes(readings: Sequence[FactReading]) -> tuple[FactChange, ...]:
    """Every value that came to a provider and that some provider still has, the newest change first.

    Nodes of one campaign may differ: a value comes where the campaign before has it on no node, and counts for a provider that has it on any.
    """
    latest: dict[tuple[str, str], dict[str, tuple[datetime, set[str]]]] = {}
    for r in sorted(readings, key=lambda r: (r.at, r.campaign)):
        latest.setdefault((r.fact, r.provider), {}).setdefault(r.campaign, (r.at, set()))[1].add(r.value)
    now: dict[str, dict[str, set[str]]] = {}
    came: dict[tuple[str, str], dict[str, tuple[str, str, datetime]]] = {}
    for (fact, provider), campaigns in latest.items():
        for (_, was), (campaign, (at, values)) in pairwise(campaigns.items()):
            for value in values - was[1]:
                came.setdefault((fact, value), {})[provider] = (", ".join(sorted(was[1])), campaign, at)  # of several times the last
        now.setdefault(fact, {})[provider] = list(campaigns.values())[-1][1]
    changes = []
    for (fact, value), own in came.items():
        have = tuple(sorted(p for p, values in now[fact].items() if value in values))
        adoptions = tuple(Adoption(p, *each, p in have) for p, each in sorted(own.items(), key=lambda one: (one[1][2], one[0])))
        others = tuple(sorted((p, ", ".join(sorted(values))) for p, values in now[fact].items() if value not in values))
        if have:
            changes.append(FactChange(fact, value, adoptions, have, len(now[fact]), others))
    return tuple(sorted(changes, key=lambda c: (-c.newest.timestamp(), c.fact, c.value)))
