"""Fields of providers that still hold what an example has in the place of one's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from plumbline.declarations.loader import Declarations
from plumbline.declarations.providers.provider import Provider
from plumbline.declarations.trials import flatten

_ZERO_DIGEST = re.compile(r"@sha256:0{64}$")
_EXAMPLE_SOURCE = re.compile(r"\bto be replaced\b", re.IGNORECASE)


@dataclass(frozen=True)
class Placeholder:
    """`field` of the provider's declaration, such as `prices[0].source`; `expected`: what belongs there."""

    provider: str
    enabled: bool
    field: str
    expected: str

    def __str__(self) -> str:
        return f"{self.provider}: {self.field} is a placeholder; expected {self.expected}"


def find_placeholders(declared: Declarations) -> tuple[Placeholder, ...]:
    """Placeholders of every provider by name, including its fields from defaults.yaml."""
    return tuple(
        Placeholder(provider.name, provider.enabled, field, expected)
        for provider in sorted(declared.providers.values(), key=lambda each: each.name)
        for field, expected in _placeholders(provider)
    )


def _placeholders(provider: Provider) -> Iterator[tuple[str, str]]:
    for kind in ("training", "inference"):
        if _ZERO_DIGEST.search(provider.launcher.image_for(kind) or ""):
            yield f"launcher.images.{kind}", "the digest of an image that you built (k8s/images/README.md)"
    for field, value in flatten(provider.model_dump(mode="json")):
        if field.rpartition(".")[2] == "source" and isinstance(value, str) and _EXAMPLE_SOURCE.search(value):
            yield field, "your price and its source"
