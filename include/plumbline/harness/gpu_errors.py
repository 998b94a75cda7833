"""Counters of errors that GPUs' drivers keep. A counter that a card or driver does not have is left out, never 0.

ecc_corrected_volatile, ecc_uncorrected_volatile      memory errors since the driver was loaded
ecc_corrected_aggregate, ecc_uncorrected_aggregate    memory errors of the card's lifetime
ecc_corrected, ecc_uncorrected, ecc_deferred          AMD's memory errors, which it counts since the driver was loaded
rows_remapped_correctable, rows_remapped_uncorrectable, row_remap_pending, row_remap_failure    spare rows of memory in use (since Ampere)
pages_retired_corrected, pages_retired_uncorrected, page_retirement_pending                     the same of older cards
pages_retired                                         AMD's bad pages
pcie_replays                                          packets that PCIe sent again
nvlink_crc_flit, nvlink_crc_data, nvlink_replays, nvlink_recoveries    over all links of the card
throttled_<reason>_ms                                 time below its clocks since the driver was loaded; judged from samples, not from here
xid, xid_<code>                                       errors that the driver reported, see `gpu_xid`; `xid` is their sum"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from plumbline.harness.environment.amd import AmdDriver, first_number
from plumbline.harness.environment.nvidia import NvidiaDriver, active_links
from plumbline.harness.environment.sysfs import ROOT
from plumbline.harness.measurement import TrialJudgement, degraded
from plumbline.results import GpuCounter

_POLICIES = {
    "power": "NVML_PERF_POLICY_POWER",
    "thermal": "NVML_PERF_POLICY_THERMAL",
    "board_limit": "NVML_PERF_POLICY_BOARD_LIMIT",
    "reliability": "NVML_PERF_POLICY_RELIABILITY",
}
_LINK_COUNTERS = {
    "nvlink_crc_flit": "NVML_NVLINK_ERROR_DL_CRC_FLIT",
    "nvlink_crc_data": "NVML_NVLINK_ERROR_DL_CRC_DATA",
    "nvlink_replays": "NVML_NVLINK_ERROR_DL_REPLAY",
    "nvlink_recoveries": "NVML_NVLINK_ERROR_DL_RECOVERY",
}


def nvidia_error_counters(driver: NvidiaDriver, handle: Any) -> dict[str, int]:
    def ask(function: str, *arguments: Any) -> Any:
        return driver.ask(f"nvmlDeviceGet{function}", handle, *arguments)

    counters: dict[str, int | None] = {}
    for word, kind in (("corrected", "NVML_SINGLE_BIT_ECC"), ("uncorrected", "NVML_DOUBLE_BIT_ECC")):
        for span, since in (("volatile", "NVML_VOLATILE_ECC"), ("aggregate", "NVML_AGGREGATE_ECC")):
            counters[f"ecc_{word}_{span}"] = ask("TotalEccErrors", kind, since)
    if (rows := ask("RemappedRows")) is not None:
        names = ("rows_remapped_correctable", "rows_remapped_uncorrectable", "row_remap_pending", "row_remap_failure")
        counters |= dict(zip(names, rows, strict=True))
    causes = {
        "corrected": "NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS",
        "uncorrected": "NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR",
    }
    for word, cause in causes.items():
        pages = ask("RetiredPages", cause)
        counters[f"pages_retired_{word}"] = None if pages is None else len(pages)
    counters["page_retirement_pending"] = ask("RetiredPagesPendingStatus")
    counters["pcie_replays"] = ask("PcieReplayCounter")
    for reason, policy in _POLICIES.items():
        status = ask("ViolationStatus", policy)
        counters[f"throttled_{reason}_ms"] = None if status is None else status.violationTime // 1_000_000  # NVML counts nanoseconds
    links = active_links(driver, handle)
    for name, counter in _LINK_COUNTERS.items():
        counts = [ask("NvLinkErrorCounter", link, counter) for link in links]
        counters[name] = sum(count for count in counts if count is not None) if any(count is not None for count in counts) else None
    return {name: int(value) for name, value in counters.items() if value is not None}


def amd_error_counters(driver: AmdDriver, handle: Any) -> dict[str, int]:
    """The counters of one GPU, by AMD SMI (which reads the kernel's RAS counters); a guest of a virtual machine sees few of them."""
    ecc, pcie, pages = (driver.ask(name, handle) for name in ("gpu_total_ecc_count", "pcie_info", "gpu_bad_page_info"))
    counters = {
        "ecc_corrected": first_number(ecc, "correctable_count"),
        "ecc_uncorrected": first_number(ecc, "uncorrectable_count"),
        "ecc_deferred": first_number(ecc, "deferred_count"),
        "pcie_replays": first_number((pcie or {}).get("pcie_metric"), "pcie_replay_count"),
        "pages_retired": len(pages) if isinstance(pages, list) else None,  # a card without any may answer in words
    }
    return {name: int(value) for name, value in counters.items() if value is not None}


APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
"""Xid errors that a faulty or killed program causes on a sound GPU. NVIDIA's device plugin for Kubernetes leaves these out of its health check too."""
_XID_LINE = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")
_RECORD_BYTES = 8192
"""The kernel hands out one record a read and refuses a smaller buffer."""


class XidListener:
    """Counts XIDs of the GPUs from now on: errors that the driver reports, by their codes (docs.nvidia.com/deploy/xid-errors). To be closed
    before nvmlShutdown. `handles`: of cards; None for one that does not answer.

    NVML delivers them as events. Where a driver delivers none (MIG, virtual GPUs), the kernel's log has them, if it may be read.
    """

    def __init__(self, nvml: Any, handles: list[Any], root: Path = ROOT) -> None:
        self._nvml = nvml
        self._seen: list[Counter[int]] = [Counter() for _ in handles]
        self._sets = [self._registered(handle) for handle in handles]
        self._addresses = [
            None if events is not None else self._address(handle) for events, handle in zip(self._sets, handles, strict=True)
        ]
        self._log = _open_kernel_log(root) if any(self._addresses) else None

    def counts(self, gpu: int) -> dict[int, int] | None:
        """How often each code came until now; None if no source reports this GPU's."""
        if self._sets[gpu] is not None:
            self._drain(gpu, self._sets[gpu])
        elif self._log is not None and self._addresses[gpu] is not None:
            self._read_log(self._log)
        else:
            return None
        return dict(self._seen[gpu])

    def close(self) -> None:
        for events in self._sets:
            if events is not None:
                self._nvml.nvmlEventSetFree(events)
        if self._log is not None:
            os.close(self._log)

    def _registered(self, handle: Any) -> Any:
        # A set a GPU: an event's own handle cannot be compared with those that we have.
        nvml = self._nvml
        if handle is None:
            return None
        try:
            events = nvml.nvmlEventSetCreate()
        except (nvml.NVMLError, AttributeError):
            return None
        try:
            nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
        except nvml.NVMLError:
            nvml.nvmlEventSetFree(events)
            return None
        return events

    def _drain(self, gpu: int, events: Any) -> None:
        while True:
            try:
                event = self._nvml.nvmlEventSetWait(events, 0)
            except self._nvml.NVMLError:
                return  # a timeout: there is no further one
            self._seen[gpu][int(event.eventData)] += 1

    def _address(self, handle: Any) -> str | None:
        if handle is None:
            return None
        try:
            info = self._nvml.nvmlDeviceGetPciInfo(handle)
        except (self._nvml.NVMLError, AttributeError):
            return None
        return f"{info.domain:04x}:{info.bus:02x}:{info.device:02x}"

    def _read_log(self, log: int) -> None:
        while True:
            try:
                record = os.read(log, _RECORD_BYTES)
            except BrokenPipeError:
                continue  # records were overwritten before they were read
            except OSError:
                return  # nothing more for now
            if not record:
                return
            for match in _XID_LINE.finditer(record.decode(errors="replace")):
                address = match[1].lower()
                for gpu, own in enumerate(self._addresses):
                    if own is not None and address.startswith(own):
                        self._seen[gpu][int(match[2])] += 1


def _open_kernel_log(root: Path) -> int | None:
    """The kernel's log from its end on; None where it may not be read, which is the rule in pods."""
    try:
        log = os.open(root / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    os.lseek(log, 0, os.SEEK_END)
    return log


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
    """The counters of all GPUs at the beginning (`take_first`) and at the latest reading of a trial. `node`: of a gang, this one's number."""

    def __init__(self, node: int = 0) -> None:
        self._node = node
        self._before: list[dict[str, int]] = []
        self._after: list[dict[str, int]] = []
        self._began_s = self._read_s = 0.0

    def take_first(self, reading: list[dict[str, int]]) -> None:
        self._before = reading
        self.take_latest(reading)
        self._began_s = self._read_s

    def take_latest(self, reading: list[dict[str, int]]) -> None:
        self._after, self._read_s = reading, time.monotonic()

    def counters(self) -> tuple[GpuCounter, ...]:
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

    def judgements(self) -> list[TrialJudgement]:
        return judge_gpu_errors(self.counters(), self._read_s - self._began_s)


def judge_gpu_errors(counters: Iterable[GpuCounter], seconds: float) -> list[TrialJudgement]:
    """`degraded` for each kind of error that is new, over `seconds` of a trial. Errors from before it do not count, however many, but a repair
    of memory that failed before does.

    gpu_lost: a GPU answered before and not after. PCIe replays count above the rate that NVIDIA's own health check allows; XIDs that programs
    cause do not.
    """
    rows = tuple(counters)
    judgements = []
    for code, prefixes in _CODES:
        new = [row for row in rows if row.new and row.counter.startswith(prefixes) and _is_relevant(row, seconds)]
        if new:
            shown = ", ".join(f"{_gpu_name(row)} {row.counter} +{row.new}" for row in new)
            judgements.append(degraded(code, f"new errors during the trial: {shown}"))
    # The repair failed: faulty memory stays in use, whenever that began. A pending one harms nothing until the reset.
    broken = [_gpu_name(row) for row in rows if row.counter == "row_remap_failure" and row.before]
    if broken:
        judgements.append(
            degraded("row_remap_failure", f"{', '.join(broken)} could not replace faulty memory before the trial; replace it")
        )
    lost = lost_gpus(rows)
    if lost:
        judgements.append(degraded("gpu_lost", f"{', '.join(lost)} lost during the trial"))
    return judgements


def _is_relevant(row: GpuCounter, seconds: float) -> bool:
    if row.counter == "pcie_replays":
        return row.new > _PCIE_REPLAYS_A_MINUTE * max(seconds / 60, 1.0)
    if row.counter.startswith("xid_"):
        return int(row.counter.removeprefix("xid_")) not in APPLICATION_XIDS
    return True


def lost_gpus(rows: Sequence[GpuCounter]) -> list[str]:
    """GPUs that reported errors before and report none now; the driver's own reports, such as XID 79, may still come."""
    own = [row for row in rows if not row.counter.startswith("xid")]
    places = dict.fromkeys(_gpu_name(row) for row in own if row.before is not None)
    return [place for place in places if all(row.after is None for row in own if _gpu_name(row) == place)]


def _gpu_name(row: GpuCounter) -> str:
    return f"GPU {row.gpu}" + (f" of node {row.node}" if row.node else "")
