"""Launches by how they ended, as promises count them."""

from __future__ import annotations

from collections.abc import Mapping

from plumbline.metrics.proportions import Proportion, wilson_interval

NOT_STARTED = frozenset({"insufficient_capacity", "wrong_hardware"})
"""Failure classes in which the provider, as is proven, did not deliver what was asked."""
PROVIDER_FAULTS = NOT_STARTED | {"provider_fault"}
"""Failure classes whose cause is proven to be the provider's. A provider_fault comes after the start: its launch succeeded."""
OPERATOR_FAULTS = frozenset({"bad_declaration", "image_error", "quota_exceeded"})
"""Failure classes that are no launch of the provider's: what was asked for was wrong, or more than was agreed."""
UNPROVEN = frozenset({"launch_timeout", "unreachable"})
"""Failure classes whose cause may be ours or the provider's: a slow registry, an expired token, a network. No verdict rests on them."""


def launch_share(ended: Mapping[str | None, int]) -> Proportion:
    """Launches that started of those that did or that failed by the provider. `ended`: failure class → attempts, None for those that did not
    fail."""
    tried = sum(n for cause, n in ended.items() if cause not in OPERATOR_FAULTS | UNPROVEN)
    return wilson_interval(tried - sum(n for cause, n in ended.items() if cause in NOT_STARTED), tried)


OWN_LAUNCHES = "our own launches: the operations log has no launches"
"""Who alone shows promises about launches."""
