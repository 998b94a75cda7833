"""The class of a comparison: whether the providers ran one software stack, and what else limits it.

standardised   the same image digest (or no image on any of them) and the same versions of what computes
native         each provider's own stack, as good as its people make it
None           not known: fewer than two providers, or one without software facts

A decision ranks within one class: standardised where all that it ranks share a stack, else native. Drivers belong to the provider, not to the stack.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from plumbline.analysis.prices.book import OTHER_GPUS, OTHER_GPUS_TEXT, InstanceShare
from plumbline.analysis.trial_sample import Conditions, InterruptionRate
from plumbline.metrics.names import names_by_text

MOST_NAMED = 3
"""Providers that a limitation names one by one."""

IMAGE = "container.image_digest"
VERSIONS = (
    "torch.version",
    "triton.version",
    "vllm.version",
    "tensorrt_llm.version",
    "tensorrt.version",
    "flash_attn.version",
    "flash_attn_3.version",
    "flashinfer.version",
    "transformer_engine.version",
    "torchao.version",
)
ENGINE_ARGS = "engine.args"
FACTS = (IMAGE, ENGINE_ARGS, *VERSIONS)
"""The environment's facts that make a stack."""
GPU_CLASS = "gpu_class"
_DIGEST_CHARACTERS = 12
_NONE = "none"

ProvidersByValue = Mapping[str, list[str]]
"""Providers by what they have."""


@dataclass(frozen=True)
class ExpectedRestarts:
    """(provider, the rate whose restarts its costs include)."""

    rates: tuple[tuple[str, InterruptionRate], ...]


@dataclass(frozen=True)
class CostIncludes:
    """(items that costs include beside the hours, the providers in words)."""

    items: tuple[tuple[tuple[str, ...], str], ...]

    @property
    def sentence(self) -> str:
        """Without a full stop."""
        each = ((" and ".join(filter(None, (", ".join(one[:-1]), one[-1]))), who) for one, who in self.items)
        return f"Cost includes, beside the hours, {'; '.join(f'{items} ({who})' for items, who in each)}"


@dataclass(frozen=True)
class Limitation:
    """A limitation that a reader of a comparison must know. `code`: gpu_class, other_gpus_alike, expected_restarts, cost_includes or
    cost_without. `text`: a sentence, or what `words.comparisons` makes one of; a stored one is a sentence."""

    code: str
    text: str | ExpectedRestarts | CostIncludes


@dataclass(frozen=True)
class ComparisonClass:
    """See the module. `differences`: what the stacks differ in, with each provider's version."""

    kind: Literal["standardised", "native"] | None = None
    differences: tuple[str, ...] = ()
    limitations: tuple[Limitation, ...] = ()


class ComparedTrial(NamedTuple):
    """A usable trial's part in a comparison."""

    provider: str
    conditions: Conditions | None
    share: InstanceShare | None
    restarts: InterruptionRate | None = None
    includes: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


def classify_comparison(measured: Iterable[ComparedTrial], *, costs: bool = True) -> ComparisonClass:
    """The class of a comparison of these trials. `costs`: whether costs are compared. Pure."""
    distinct = list(dict.fromkeys(measured))
    limitations = [*_gpu_classes(distinct), *((*_shares(distinct), *_restarts(distinct), *_beside(distinct)) if costs else ())]
    stacks: dict[str, list[dict[str, str]]] = {}
    for each in distinct:
        stacks.setdefault(each.provider, []).append(dict(each.conditions.stack) if each.conditions else {})
    if len(stacks) < 2 or not all(stack for several in stacks.values() for stack in several):
        return ComparisonClass(None, (), tuple(limitations))
    reasons: list[str] = []
    for fact in (*VERSIONS, ENGINE_ARGS, IMAGE):
        values = names_by_text(
            (provider, value) for provider, several in stacks.items() for value in sorted({stack.get(fact, _NONE) for stack in several})
        )
        # An image that differs in versions too needs no second name.
        if len(values) > 1 and not (fact == IMAGE and reasons):
            reasons.append(_format_values(fact, values))
    return ComparisonClass("native" if reasons else "standardised", tuple(reasons), tuple(limitations))


def _format_values(fact: str, values: ProvidersByValue) -> str:
    name = "image" if fact == IMAGE else fact.removesuffix(".version")
    by_value = {value.removeprefix("sha256:")[:_DIGEST_CHARACTERS] if fact == IMAGE else value: where for value, where in values.items()}
    return f"{name} {_format_against(by_value)}"


def _format_against(values: ProvidersByValue) -> str:
    return " against ".join(f"{value} ({', '.join(where)})" for value, where in values.items())


def _gpu_classes(measured: Iterable[ComparedTrial]) -> list[Limitation]:
    values = names_by_text((each.provider, product) for each in measured if each.conditions and (product := each.conditions.accelerator))
    return [Limitation(GPU_CLASS, f"Accelerators differ: {_format_against(values)}")] if len(values) > 1 else []


def _shares(measured: Iterable[ComparedTrial]) -> list[Limitation]:
    """Providers whose costs charge a part of an instance that they sell whole."""
    charged = {each.provider: each.share for each in measured if each.share is not None and each.share.caveat == OTHER_GPUS}
    if not charged:
        return []
    parts = names_by_text((provider, f"{share.gpus} of {share.of} GPUs charged") for provider, share in charged.items())
    named = ((part, names if len(names) <= MOST_NAMED else [f"{len(names)} providers"]) for part, names in parts.items())
    who = ", ".join(f"{name} ({part})" for part, names in named for name in names)
    return [Limitation(OTHER_GPUS, f"Cost of {who} {OTHER_GPUS_TEXT}")]


def _restarts(measured: Iterable[ComparedTrial]) -> list[Limitation]:
    """Providers whose costs include the restarts that their declared interruptions make expected."""
    rates = tuple((each.provider, each.restarts) for each in measured if each.restarts is not None)
    return [Limitation("expected_restarts", ExpectedRestarts(rates))] if rates else []


def _beside(measured: Iterable[ComparedTrial]) -> list[Limitation]:
    """What costs include beside hours and tokens, and what they are without, by provider."""
    trials = list(measured)
    everyone = sorted({each.provider for each in trials})

    def of(names: list[str]) -> str:
        if sorted(names) == everyone and len(names) > 1:
            return "all"
        return ", ".join(names) if len(names) <= MOST_NAMED else f"{len(names)} providers"

    with_it = names_by_text((each.provider, each.includes) for each in trials if each.includes)
    by_item = names_by_text((each.provider, text) for each in trials for text in each.without)
    reasons: dict[tuple[str, str], list[str]] = {}
    for text, names in by_item.items():
        item, _, why = text.partition(": ")
        reasons.setdefault((why, of(names)), []).append(item)
    found = []
    if with_it:
        found.append(Limitation("cost_includes", CostIncludes(tuple((items, of(names)) for items, names in with_it.items()))))
    if reasons:
        missing = "; ".join(f"{', '.join(items)} ({who}: {why})" for (why, who), items in reasons.items())
        found.append(Limitation("cost_without", f"Cost is without {missing}"))
    return found
