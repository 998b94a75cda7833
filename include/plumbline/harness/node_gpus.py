"""What the GPUs of a gang's other nodes drew and which errors they made, as each node's harness hands it to node 0 at the end of the job.

Windows are aligned by node 0: it sends each change of phase to all nodes, and each begins or ends its own window when the message arrives.
So windows differ by the way of a message and by one reading of the sensors. A node whose steady window lasted `ALIGNED` longer or shorter
than node 0's measured something else: its power counts as missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from plumbline.declarations.phases import Phase
from plumbline.harness.measurement import Judgement
from plumbline.results import GpuCounter, Reason

ALIGNED, _ALIGNED_S = 0.05, 0.25
"""Share of node 0's window, and the seconds that are allowed of a short one."""


@dataclass(frozen=True)
class Window:
    """The GPUs of one node in one phase: their energy in J (None: one of them reports neither energy nor power), over so many seconds."""

    joules: float | None
    seconds: float
    samples: int

    @property
    def watts(self) -> float | None:
        """Mean of all GPUs together."""
        return None if self.joules is None or not self.seconds else self.joules / self.seconds


@dataclass(frozen=True)
class NodeGpus:
    """One node's GPUs over the whole job. `windows` by phase; `health` with the node's number; `judgements` on errors and throttling."""

    gpus: int
    windows: Mapping[Phase, Window]
    health: tuple[GpuCounter, ...]
    judgements: tuple[Judgement, ...]

    def row(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "gpus": self.gpus,
            "windows": {phase: asdict(window) for phase, window in self.windows.items()},
            "health": [each.model_dump(mode="json") for each in self.health],
            "judgements": [{"level": each.level, **each.reason.model_dump(mode="json")} for each in self.judgements],
        }

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> NodeGpus:
        """What `row` made."""
        return cls(
            row["gpus"],
            {phase: Window(**window) for phase, window in row["windows"].items()},
            tuple(GpuCounter(**each) for each in row["health"]),
            tuple(Judgement(each["level"], Reason(code=each["code"], detail=each["detail"])) for each in row["judgements"]),
        )


def power_of_all(phase: Phase, own: Window | None, others: Mapping[int, NodeGpus | None]) -> tuple[float | None, str]:
    """Power of all nodes' GPUs together in W, or None and the reason: a node without a reading is missing, never 0.

    `own`: node 0's window; None where its GPUs cannot be read. `others` by node; None for a node that sent nothing.
    """
    if own is None:
        return None, "node 0 reads no GPUs, and other nodes do"
    found = [own.watts]
    lacking = [] if own.watts is not None else ["node 0: one of its GPUs reports neither energy nor power"]
    for node, gpus in sorted(others.items()):
        window = None if gpus is None else gpus.windows.get(phase)
        if gpus is None:
            lacking.append(f"node {node} sent no reading of its GPUs")
        elif window is None:
            lacking.append(f"node {node} reads no GPUs" if not gpus.gpus else f"node {node} has no reading of {phase}")
        elif abs(window.seconds - own.seconds) > max(ALIGNED * own.seconds, _ALIGNED_S):
            lacking.append(f"node {node} measured {window.seconds:.2f} s of {phase}, node 0 {own.seconds:.2f} s")
        elif window.watts is None:
            lacking.append(f"node {node}: one of its GPUs reports neither energy nor power")
        else:
            found.append(window.watts)
    if lacking:
        return None, "; ".join(lacking)
    return sum(watts for watts in found if watts is not None), ""
