"""GPU error counters before and after a trial, and the judgements that new errors lead to."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from plumbline.harness.gpu_errors import APPLICATION_XIDS
from plumbline.harness.gpu_meters import Meters
from plumbline.harness.measurement import Judgement
from plumbline.results import GpuCounter, Reason

_CODES = (
    ("gpu_ecc_uncorrected", ("ecc_uncorrected", "ecc_deferred")),
    ("gpu_memory_remapped", ("rows_remapped", "row_remap", "pages_retired", "page_retirement")),
    ("gpu_ecc_corrected", ("ecc_corrected",)),
    ("gpu_nvlink_errors", ("nvlink_",)),
    ("gpu_pcie_replays", ("pcie_replays",)),
    ("gpu_xid", ("xid_",)),
)
"""Reason codes and how the counters that they are about begin."""
_PCIE_REPLAYS_A_MINUTE = 8.0
"""PCIe repairs single packets by itself; NVIDIA's DCGM calls a link unhealthy above this rate."""


class GpuHealth:
    """The counters at the beginning (`begin`) and at the latest reading (`read`) of a trial. `node`: of a gang, this one's number."""

    def __init__(self, node: int = 0) -> None:
        self._node = node
        self._before: list[dict[str, int]] = []
        self._after: list[dict[str, int]] = []
        self._began_s = self._read_s = 0.0

    def begin(self, meters: Meters) -> None:
        """Take the first reading."""
        self._before = self._after = _reading(meters)
        self._began_s = self._read_s = time.monotonic()

    def read(self, meters: Meters) -> None:
        """Take the latest reading."""
        self._after, self._read_s = _reading(meters), time.monotonic()

    def counters(self) -> tuple[GpuCounter, ...]:
        """A row for each GPU and counter that it has."""
        return tuple(
            # A code's count began at 0 when listening did.
            GpuCounter(
                node=self._node,
                gpu=gpu,
                counter=name,
                before=before.get(name, 0 if name.startswith("xid_") else None),
                after=after.get(name),
            )
            for gpu, (before, after) in enumerate(zip(self._before, self._after, strict=True))
            for name in sorted({**before, **after})
        )

    def judgements(self) -> list[Judgement]:
        """What the latest reading says against the trial; see `judged`."""
        return judge_gpu_errors(self.counters(), self._read_s - self._began_s)


def judge_gpu_errors(counters: Iterable[GpuCounter], seconds: float) -> list[Judgement]:
    """`degraded` for each kind of error that is new, over `seconds` of a trial. Errors from before it do not count, however many.

    gpu_lost: a GPU answered before and not after. PCIe replays count above the rate that NVIDIA's own health check allows; XIDs that programs
    cause do not.
    """
    rows = tuple(counters)
    found = []
    for code, prefixes in _CODES:
        new = [row for row in rows if row.new and row.counter.startswith(prefixes) and _is_relevant(row, seconds)]
        if new:
            shown = ", ".join(f"{_gpu_name(row)} {row.counter} +{row.new}" for row in new)
            found.append(Judgement("degraded", Reason(code=code, detail=f"new errors during the trial: {shown}")))
    lost = _lost_gpus(rows)
    if lost:
        detail = f"{', '.join(lost)} answered before the trial and not after it"
        found.append(Judgement("degraded", Reason(code="gpu_lost", detail=detail)))
    return found


def _is_relevant(row: GpuCounter, seconds: float) -> bool:
    if row.counter == "pcie_replays":
        return row.new > _PCIE_REPLAYS_A_MINUTE * max(seconds / 60, 1.0)
    if row.counter.startswith("xid_"):
        return int(row.counter.removeprefix("xid_")) not in APPLICATION_XIDS
    return True


def _lost_gpus(rows: Sequence[GpuCounter]) -> list[str]:
    """GPUs that reported their errors before and report none now. What the driver reports of them, such as XID 79, may still come."""
    own = [row for row in rows if not row.counter.startswith("xid")]
    places = dict.fromkeys(_gpu_name(row) for row in own if row.before is not None)
    return [place for place in places if all(row.after is None for row in own if _gpu_name(row) == place)]


def _gpu_name(row: GpuCounter) -> str:
    return f"GPU {row.gpu}" + (f" of node {row.node}" if row.node else "")


def _reading(meters: Meters) -> list[dict[str, int]]:
    return [meters.errors(gpu) for gpu in range(meters.count)]
