"""Looking at many metrics finds something by chance; this takes it back."""

from __future__ import annotations

from collections.abc import Sequence

from scipy import stats


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """q of each p: calling everything with q <= f a discovery makes at most a share f of the discoveries false.

    Holds for independent metrics and for metrics that move together, which is what metrics of one trial do.
    """
    if not p_values:
        return ()
    return tuple(float(q) for q in stats.false_discovery_control(p_values, method="bh"))
