"""A share of a reference as a buyer reads it."""

from __future__ import annotations

from plumbline.declarations import METRICS
from plumbline.reports.figures import percent, scale, words
from plumbline.scorecards import ReferenceShare

_PER_DEVICE = "_per_device"


def share_sentence(share: ReferenceShare) -> str:
    """`67 % of what NVIDIA publishes for this shape (10,682 tokens/s per GPU, …, 2025)`; of another shape what differs, and no share."""
    figure = _figure(share)
    dated = f"{share.source}, {share.on.year}" if share.on is not None else share.source
    said = "SIMULATED: " if share.simulated else ""
    if share.share is None:
        mine = scale(METRICS[share.metric].unit, [share.measured], share.metric).text(share.measured)
        return f"{said}no share: {share.by} publishes {figure} ({dated}) for {'; '.join(share.differs)}. Here it was {mine}"
    part = f"{said}{percent(share.share)}{_interval(share)}"
    if share.kind == "published":
        if share.of_a_shape:
            return f"{part} of what {share.by} publishes for this shape ({figure}, {dated})"
        return f"{part} of what {share.by} publishes for this accelerator, {share.what} ({figure}, {dated})"
    return f"{part} of the physical limit, {share.what} ({figure}, {dated})"


def _figure(share: ReferenceShare) -> str:
    unit = METRICS[share.metric].unit
    # As it was published: five digits, such as 10,682.
    text = scale(unit, [share.published], share.metric, significant=4).text(share.published)
    return f"{text} {words(share.metric)}" if unit == "ratio" else f"{text} per GPU" if share.metric.endswith(_PER_DEVICE) else text


def _interval(share: ReferenceShare) -> str:
    return "" if share.low is None or share.high is None else f" ({100 * share.low:.0f} … {percent(share.high)})"
