"""Faults of the provider's hardware in the words of CUDA, HIP, NCCL and the driver, each with its remedy. What a wrong program causes on a sound GPU
(an illegal access, a launch failure) is not among them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from plumbline.harness.gpu_errors import lost_gpus
from plumbline.results import GpuCounter


@dataclass(frozen=True)
class _Fault:
    """`passing`: a restart in the same place may succeed."""

    words: re.Pattern[str]
    what: str
    remedy: str
    passing: bool = False


def _fault(words: str, what: str, remedy: str, *, passing: bool = False) -> _Fault:
    return _Fault(re.compile(words, re.IGNORECASE), what, remedy, passing)


_FAULTS = (
    _fault(
        r"gpu is lost|fallen off the bus|unable to determine the device handle|gpu is inaccessible",
        "a GPU is lost",
        "the provider resets the GPU, or replaces the node",
    ),
    _fault(
        r"uncorrectable (double.bit )?ecc|ECCUncorrectable|ECCNotCorrectable|uncorrectable memory error|hbm.{0,20}uncorrectable|poison consumption",
        "a GPU's memory made an uncorrectable error",
        "ask for another node; the provider resets the GPU, and replaces it if it comes again",
        passing=True,
    ),
    _fault(
        r"error 802\b|system not yet initialized|SystemNotReady",
        "the GPUs' NVSwitch fabric is not initialized",
        "the provider starts nvidia-fabricmanager of the driver's version",
    ),
    _fault(
        r"(fail|error).{0,80}\bnvls\b|\bnvls\b.{0,80}(fail|error)|fabric manager or nvswitch|uncorrectable nvlink|NvlinkUncorrectable"
        r"|peer gpu memory over nvlink or a hardware error|nvlink.{0,20}(hardware|fatal) error",
        "NVLink or its switches failed",
        "the provider checks nvidia-fabricmanager, NVLinks and NVSwitches (nvidia-smi nvlink -e); NCCL_NVLS_ENABLE=0 works without NVLink SHARP",
    ),
    _fault(
        r"driver/library version mismatch",
        "the node's driver and its libraries are of two versions",
        "the provider reloads the driver, or reboots the node",
    ),
    _fault(
        r"\b(remote i/o|input/output) error\b|stale (nfs )?file handle",
        "storage failed",
        "the provider checks the disk, or the mounted storage, of the node",
        passing=True,
    ),
)
_HARDWARE_XIDS = frozenset({48, 64, 74, 79, 92, 94, 95, 119, 120, 140})
"""XIDs of memory, row remapping, NVLink, the bus and the GPU's own firmware, which no program causes."""


def find_hardware_fault(text: str) -> tuple[str, bool] | None:
    """The hardware fault in a program's output, with its remedy, and whether a restart in the same place may succeed; None without one."""
    for fault in _FAULTS:
        if fault.words.search(text):
            return f"{fault.what}; {fault.remedy}", fault.passing
    return None


def explain_failure(detail: str, counters: Iterable[GpuCounter]) -> str | None:
    """Which fault of the hardware explains a failure: by its own words, else by errors that the GPUs made during the trial."""
    if (found := find_hardware_fault(detail)) is not None:
        return found[0]
    rows = tuple(counters)
    if lost := lost_gpus(rows):
        return f"{', '.join(lost)} was lost during the trial; {_FAULTS[0].remedy}"
    made = [f"GPU {row.gpu} {row.counter} +{row.new}" for row in rows if row.new and _is_hardware(row.counter)]
    return f"the GPUs made errors during the trial ({', '.join(made)}); ask the provider for another node" if made else None


def _is_hardware(counter: str) -> bool:
    xid = counter.removeprefix("xid_")
    return counter.startswith("ecc_uncorrected") or (xid.isdigit() and int(xid) in _HARDWARE_XIDS)
