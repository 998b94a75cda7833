"""The types of findings: one file each, found by its name. `type_of` gives a finding's."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from plumbline.findings.types.base import TYPES, FindingType
from plumbline.results.finding import Finding

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


def type_by_id(name: str) -> FindingType:
    """LookupError for an unknown one."""
    found = next((known for known in TYPES if known.id == name), None)
    if found is None:
        raise LookupError(f"no type of finding is {name}; expected {', '.join(sorted(known.id for known in TYPES))}")
    return found
