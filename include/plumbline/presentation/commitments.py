"""Reserved hours of contracts as a table."""

from __future__ import annotations

from collections.abc import Iterable

from plumbline.analysis.cost.commitments import Commitment
from plumbline.words.commitments import end_text, renewal_text

HEADINGS = (
    "contract",
    "provider",
    "from",
    "until",
    "reserved h",
    "used h",
    "unused h",
    "unused",
    "ahead h",
    "ahead",
    "renewing pays below",
)


def commitment_table(found: Iterable[Commitment]) -> tuple[tuple[str, ...], ...]:
    """HEADINGS, then a row each; empty without any."""
    rows = []
    for c in found:
        reserved, used, unused, ahead = (f"{value:,.1f}" for value in (c.reserved_h, c.used_h, c.unused_h, c.ahead_h))
        times = (c.contract, ", ".join(c.providers), str(c.since), end_text(c))
        rows.append((*times, reserved, used, unused, str(c.unused_usd), ahead, str(c.ahead_usd), renewal_text(c)))
    return (HEADINGS, *rows) if rows else ()
