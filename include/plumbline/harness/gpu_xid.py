"""XIDs: errors that NVIDIA's driver reports, by their codes (docs.nvidia.com/deploy/xid-errors).

NVML delivers them as events. Where a driver delivers none (MIG, virtual GPUs), the kernel's log has them, for who may read it.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

from plumbline.harness.environment.cpu import ROOT

OF_APPLICATIONS = frozenset({13, 31, 43, 45, 68, 109})
"""What a faulty or killed program causes on a sound GPU. NVIDIA's device plugin for Kubernetes leaves these out of its health check too."""
_LINE = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")
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
        self._log = _log(root) if any(self._addresses) else None

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
            for found in _LINE.finditer(record.decode(errors="replace")):
                address = found[1].lower()
                for gpu, own in enumerate(self._addresses):
                    if own is not None and address.startswith(own):
                        self._seen[gpu][int(found[2])] += 1


def _log(root: Path) -> int | None:
    """The kernel's log from its end on; None where it may not be read, which is the rule in pods."""
    try:
        log = os.open(root / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    os.lseek(log, 0, os.SEEK_END)
    return log
