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
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plumbline.harness.environment.amd import first_number
from plumbline.harness.environment.cpu import ROOT

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


def nvidia_error_counters(nvml: Any, handle: Any) -> dict[str, int]:
    """The counters of one GPU, by NVML; nvmlInit must have been called."""

    def asked(question: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return question(handle, *arguments)
        except nvml.NVMLError:
            return None

    found: dict[str, int | None] = {}
    for word, kind in (("corrected", nvml.NVML_SINGLE_BIT_ECC), ("uncorrected", nvml.NVML_DOUBLE_BIT_ECC)):
        for span, since in (("volatile", nvml.NVML_VOLATILE_ECC), ("aggregate", nvml.NVML_AGGREGATE_ECC)):
            found[f"ecc_{word}_{span}"] = asked(nvml.nvmlDeviceGetTotalEccErrors, kind, since)
    if (rows := asked(nvml.nvmlDeviceGetRemappedRows)) is not None:
        names = ("rows_remapped_correctable", "rows_remapped_uncorrectable", "row_remap_pending", "row_remap_failure")
        found |= dict(zip(names, rows, strict=True))
    causes = {
        "corrected": nvml.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS,
        "uncorrected": nvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR,
    }
    for word, cause in causes.items():
        pages = asked(nvml.nvmlDeviceGetRetiredPages, cause)
        found[f"pages_retired_{word}"] = None if pages is None else len(pages)
    found["page_retirement_pending"] = asked(nvml.nvmlDeviceGetRetiredPagesPendingStatus)
    found["pcie_replays"] = asked(nvml.nvmlDeviceGetPcieReplayCounter)
    for reason, policy in _POLICIES.items():
        status = asked(nvml.nvmlDeviceGetViolationStatus, getattr(nvml, policy))
        found[f"throttled_{reason}_ms"] = None if status is None else status.violationTime // 1_000_000  # NVML counts nanoseconds
    return {name: int(value) for name, value in (found | _nvlink_counters(nvml, asked)).items() if value is not None}


def _nvlink_counters(nvml: Any, asked: Callable[..., Any]) -> dict[str, int | None]:
    """Summed over the links that are up; a counter that no link tells is None."""
    sums: dict[str, int | None] = dict.fromkeys(_LINK_COUNTERS)
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        state = asked(nvml.nvmlDeviceGetNvLinkState, link)
        if state is None:
            break  # links are numbered from 0: a GPU without this one has no further one
        if state != nvml.NVML_FEATURE_ENABLED:
            continue
        for name, counter in _LINK_COUNTERS.items():
            count = asked(nvml.nvmlDeviceGetNvLinkErrorCounter, link, getattr(nvml, counter))
            if count is not None:
                sums[name] = (sums[name] or 0) + count
    return sums


def amd_error_counters(amdsmi: Any, handle: Any) -> dict[str, int]:
    """The counters of one GPU, by AMD SMI (which reads the kernel's RAS counters); a guest of a virtual machine sees few of them."""

    def asked(question: str) -> Any:
        try:
            return getattr(amdsmi, question)(handle)
        except (amdsmi.AmdSmiException, AttributeError):  # an older release of ROCm has no such question
            return None

    ecc, pcie = asked("amdsmi_get_gpu_total_ecc_count"), asked("amdsmi_get_pcie_info")
    pages = asked("amdsmi_get_gpu_bad_page_info")
    found = {
        "ecc_corrected": first_number(ecc, "correctable_count"),
        "ecc_uncorrected": first_number(ecc, "uncorrectable_count"),
        "ecc_deferred": first_number(ecc, "deferred_count"),
        "pcie_replays": first_number((pcie or {}).get("pcie_metric"), "pcie_replay_count"),
        "pages_retired": len(pages) if isinstance(pages, list) else None,  # a card without any may answer in words
    }
    return {name: int(value) for name, value in found.items() if value is not None}


# XIDs: errors that NVIDIA's driver reports, by their codes (docs.nvidia.com/deploy/xid-errors).
#
# NVML delivers them as events. Where a driver delivers none (MIG, virtual GPUs), the kernel's log has them, for who may read it.


APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
"""What a faulty or killed program causes on a sound GPU. NVIDIA's device plugin for Kubernetes leaves these out of its health check too."""
_XID_LINE = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")
_RECORD_BYTES = 8192
"""The kernel hands out one record a read and refuses a smaller buffer."""


class XidListener:
    """Counts XIDs of the GPUs from now on. To be closed before nvmlShutdown."""

    def __init__(self, nvml: Any, handles: list[Any], root: Path = ROOT) -> None:
        self._nvml = nvml
        self._seen: list[Counter[int]] = [Counter() for _ in handles]
        self._sets = [self._registered(handle) for handle in handles]
        self._addresses = [
            None if events is not None else self._address(handle) for events, handle in zip(self._sets, handles, strict=True)
        ]
        self._log = _open_kernel_log(root) if any(self._addresses) else None

    def counts(self, gpu: int) -> dict[int, int] | None:
        """How often each code came until now; None if nothing tells of this GPU's."""
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
        try:
            events = nvml.nvmlEventSetCreate()
        except nvml.NVMLError:
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
        try:
            info = self._nvml.nvmlDeviceGetPciInfo(handle)
        except self._nvml.NVMLError:
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
            for found in _XID_LINE.finditer(record.decode(errors="replace")):
                address = found[1].lower()
                for gpu, own in enumerate(self._addresses):
                    if own is not None and address.startswith(own):
                        self._seen[gpu][int(found[2])] += 1


def _open_kernel_log(root: Path) -> int | None:
    """The kernel's log from its end on; None where it may not be read, which is the rule in pods."""
    try:
        log = os.open(root / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    os.lseek(log, 0, os.SEEK_END)
    return log
