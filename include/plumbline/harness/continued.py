"""What the run of a trial in its first pod found, for its runs in later ones; and whether those are like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plumbline.harness.kept import Kept
from plumbline.harness.measurement import Judgement
from plumbline.harness.observed import OBSERVED, Observed
from plumbline.results import Event, MetricRow, Reason, Scalar

_NAME = "begun"
_SHOWN = 5


@dataclass(frozen=True)
class Begun:
    """The environment, the hardware's probes and the moments until then."""

    facts: dict[str, Scalar]
    probed: list[MetricRow]
    events: list[Event]

    def keep(self, kept: Kept) -> None:
        """Keep it for the next pod. OSError if the volume cannot be written to."""
        rows = {name: [row.model_dump(mode="json") for row in getattr(self, name)] for name in ("probed", "events")}
        kept.put(_NAME, {"facts": self.facts, **rows})

    @classmethod
    def before(cls, kept: Kept) -> tuple[Begun, Observed]:
        """What the earlier pods found and what their watches saw; TrialFailed if it cannot be read.

        Their moments keep the wall clock's time alone: monotonic clocks of two machines cannot be compared.
        """
        told: dict[str, Any] = kept.get(_NAME)
        events = [Event(**{**row, "monotonic_s": None}) for row in told["events"]]
        return cls(told["facts"], [MetricRow(**row) for row in told["probed"]], events), Observed.read(kept.get(OBSERVED))


def changed(before: Mapping[str, Scalar], now: Mapping[str, Scalar]) -> Sequence[Judgement]:
    """The last pod ran in another environment than the first, whose environment is the document's: the recovery is of both."""
    names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    if not names:
        return []
    shown = "; ".join(f"{name}: {before.get(name)} → {now.get(name)}" for name in names[:_SHOWN])
    more = f"; and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    detail = f"the pod that took over ran in another environment than the one before: {shown}{more}"
    return [Judgement("degraded", Reason(code="environment_changed", detail=detail))]
