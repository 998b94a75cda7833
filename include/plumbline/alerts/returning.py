"""Whether a finding is one that was over, come back."""

from __future__ import annotations

from plumbline.drift import Finding


def is_return(now: Finding, before: Finding) -> bool:
    """Whether `now` says of the same provider and at least one of the same series (or facts) what `before` said until it was resolved."""
    if (now.provider, now.kind, now.subject) != (before.provider, before.kind, before.subject) or now.finding_id == before.finding_id:
        return False
    if now.kind == "environment":
        return bool({m.name for m in now.members} & {m.name for m in before.members})
    shared = set(now.series) & set(before.series)
    if not now.series or not before.series:  # the provider as a whole has it
        return True
    return any(now.direction_of(key) == before.direction_of(key) for key in shared)
