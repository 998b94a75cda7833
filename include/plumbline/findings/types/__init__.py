"""The types of findings: one file each, found by its name. `type_of` gives a finding's."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Protocol

from plumbline.findings.types.base import TYPES, FindingType
from plumbline.results.finding import DECISION_CHANGE_PREFIX, Finding
from plumbline.results.stored import FindingView

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")


def type_of(finding: Finding) -> FindingType:
    return stored_type(finding.kind, finding.subject)


def stored_type(kind: str, subject: str) -> FindingType:
    """The type of a finding that is stored with this kind and subject. LookupError for a kind that no type has."""
    own = (known for known in TYPES if known.owns(kind, subject))
    usual = (known for known in TYPES if known.usual and kind in known.kinds)
    found = next(own, None) or next(usual, None)
    if found is None:
        raise LookupError(f"no type of finding has kind {kind}; expected {', '.join(sorted({k for t in TYPES for k in t.kinds}))}")
    return found


class Stored(Protocol):
    """A finding, or its archived row."""

    @property
    def kind(self) -> str: ...


def about_speed(finding: Stored) -> bool:
    """Whether a series became faster or slower, or moved a choice by it."""
    return finding.kind == "performance"


def about_facts(finding: Stored) -> bool:
    """Whether hardware or software changed, or moved a choice by it."""
    return finding.kind == "environment"


def about_price(finding: Stored) -> bool:
    """Whether a price, a bill or a contract did, or a price moved a choice."""
    return finding.kind == "price"


def about_failures(finding: Stored) -> bool:
    """Whether launches, devices, nodes or promises failed, or moved a choice by it."""
    return finding.kind == "reliability"


def about_gaps(finding: Stored) -> bool:
    """Whether data is missing."""
    return finding.kind == "missing_data"


def rests_on_prices(view: FindingView) -> bool:
    """Whether it is about a price or a first choice, which only readers with access to costs see."""
    return about_price(view) or str(view.detail.get("subject", "")).startswith(DECISION_CHANGE_PREFIX)


def type_by_id(name: str) -> FindingType:
    """LookupError for an unknown one."""
    found = next((known for known in TYPES if known.id == name), None)
    if found is None:
        raise LookupError(f"no type of finding is {name}; expected {', '.join(sorted(known.id for known in TYPES))}")
    return found
