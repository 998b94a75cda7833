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

from plumbline.prices.book import OTHER_GPUS, OTHER_GPUS_TEXT, Share
from plumbline.scorecards.inputs import Conditions

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
FACTS = (IMAGE, *VERSIONS)
"""The environment's facts that make a stack."""
GPU_CLASS = "gpu_class"
_DIGEST_CHARACTERS = 12
_NONE = "none"

Values = Mapping[str, list[str]]
"""Providers by what they have."""


@dataclass(frozen=True)
class Limitation:
    """What a reader of a comparison has to know. `code`: gpu_class or other_gpus_alike."""

    code: str
    text: str


@dataclass(frozen=True)
class Comparison:
    """See the module. `differences`: what the stacks differ in, with each provider's version."""

    kind: Literal["standardised", "native"] | None = None
    differences: tuple[str, ...] = ()
    limitations: tuple[Limitation, ...] = ()

    @property
    def line(self) -> str:
        """All of it in one line; empty if there is nothing to say."""
        parts = []
        if self.kind is not None:
            parts.append(f"Comparison class: {self.kind}{': ' if self.differences else ''}{', '.join(self.differences)}.")
        return " ".join([*parts, *(f"{each.text}." for each in self.limitations)])


class Compared(NamedTuple):
    """What a usable trial brings to a comparison."""

    provider: str
    conditions: Conditions | None
    share: Share | None


def comparison(measured: Iterable[Compared], *, costs: bool = True) -> Comparison:
    """The class of a comparison of these trials. `costs`: whether costs are compared. Pure."""
    distinct = list(dict.fromkeys(measured))
    limitations = [*_gpu_classes(distinct), *(_shares(distinct) if costs else ())]
    stacks: dict[str, list[dict[str, str]]] = {}
    for each in distinct:
        stacks.setdefault(each.provider, []).append(dict(each.conditions.stack) if each.conditions else {})
    if len(stacks) < 2 or not all(stack for several in stacks.values() for stack in several):
        return Comparison(None, (), tuple(limitations))
    found: list[str] = []
    for fact in (*VERSIONS, IMAGE):
        values: dict[str, list[str]] = {}
        for provider, several in stacks.items():
            for value in sorted({stack.get(fact, _NONE) for stack in several}):
                values.setdefault(value, []).append(provider)
        # An image that differs in versions too needs no second name.
        if len(values) > 1 and not (fact == IMAGE and found):
            found.append(_named(fact, values))
    return Comparison("native" if found else "standardised", tuple(found), tuple(limitations))


def _named(fact: str, values: Values) -> str:
    name = "image" if fact == IMAGE else fact.removesuffix(".version")
    shown = {value.removeprefix("sha256:")[:_DIGEST_CHARACTERS] if fact == IMAGE else value: where for value, where in values.items()}
    return f"{name} {_against(shown)}"


def _against(values: Values) -> str:
    return " against ".join(f"{value} ({', '.join(where)})" for value, where in values.items())


def _gpu_classes(measured: Iterable[Compared]) -> list[Limitation]:
    values: dict[str, list[str]] = {}
    for each in measured:
        product = each.conditions.accelerator if each.conditions else None
        if product and each.provider not in values.setdefault(product, []):
            values[product].append(each.provider)
    return [Limitation(GPU_CLASS, f"Accelerators differ: {_against(values)}")] if len(values) > 1 else []


def _shares(measured: Iterable[Compared]) -> list[Limitation]:
    """Providers whose costs charge a part of an instance that they sell whole."""
    charged = {each.provider: each.share for each in measured if each.share is not None and each.share.caveat == OTHER_GPUS}
    if not charged:
        return []
    who = ", ".join(f"{provider} ({share.gpus} of {share.of} GPUs charged)" for provider, share in charged.items())
    return [Limitation(OTHER_GPUS, f"Cost of {who} {OTHER_GPUS_TEXT}")]
