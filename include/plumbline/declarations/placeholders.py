"""Values of the shipped examples that a provider must not run with: an image's all-zero digest, a figure whose source says "to be replaced"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from plumbline.declarations.launchers import KubernetesLauncher
from plumbline.declarations.loader import Declarations
from plumbline.declarations.provider import Provider

_DIGEST = re.compile(r"@sha256:0{64}$")
_EXAMPLE = re.compile(r"\bto be replaced\b", re.IGNORECASE)


@dataclass(frozen=True)
class Placeholder:
    """`field` of the provider's declaration, such as `prices[0].source`; `expected`: what belongs there."""

    provider: str
    enabled: bool
    field: str
    expected: str

    def __str__(self) -> str:
        return f"{self.provider}: {self.field} is an example's; expected {self.expected}"


def placeholders(declared: Declarations) -> tuple[Placeholder, ...]:
    """Of every provider, by its name; also what it takes from the defaults."""
    return tuple(
        Placeholder(provider.name, provider.enabled, field, expected)
        for provider in sorted(declared.providers.values(), key=lambda each: each.name)
        for field, expected in (*_images(provider), *_figures(provider.model_dump(mode="json")))
    )


def _images(provider: Provider) -> Iterator[tuple[str, str]]:
    if isinstance(provider.launcher, KubernetesLauncher):
        for kind in ("training", "inference"):
            if _DIGEST.search(provider.launcher.image_for(kind) or ""):
                yield f"launcher.images.{kind}", "the digest of an image that you built (k8s/images/README.md)"


def _figures(value: Any, field: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _figures(inner, f"{field}.{key}" if field else key)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _figures(inner, f"{field}[{number}]")
    elif isinstance(value, str) and field.rpartition(".")[2] == "source" and _EXAMPLE.search(value):
        yield field, "the figure that you pay, and its source"
