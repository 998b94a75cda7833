"""The disk that the trial works on, where checkpoints and data go. Others are none of the trial's: on a shared node they come and go with
the volumes of other pods, and each of them would make another environment.
"""

from __future__ import annotations

import os
from pathlib import Path

from plumbline.harness.environment.sysfs import ROOT, read_choice, read_int, read_text
from plumbline.results import Scalar

_SECTOR = 512
"""Bytes; the unit of sysfs's sizes, whatever the disk's own is."""
_OPTIONS = frozenset(("ro", "sync", "dirsync", "nobarrier", "discard", "data=journal", "data=writeback"))
"""Mount options that change the speed of writing; others carry addresses and keys."""

_OF_DEVICE = ("disk.model", "disk.size_bytes", "disk.rotational", "disk.scheduler", "disk.read_ahead_bytes")


def disk_facts(folder: Path, root: Path = ROOT) -> dict[str, Scalar]:
    """`disk.filesystem`, `disk.mount_options` of the file system that `folder` (or, while it is not there yet, its nearest parent) is on;
    `disk.model`, `disk.size_bytes`, `disk.rotational`, `disk.scheduler`, `disk.read_ahead_bytes` of the device below it, None where there is
    none to see (a network's or a memory's file system, a disk of several) or sysfs may not be read."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    device_number = there.stat().st_dev
    filesystem, options = _mount(root, there.resolve())
    device = _base_device((root / f"sys/dev/block/{os.major(device_number)}:{os.minor(device_number)}").resolve())
    if device is None:
        return {"disk.filesystem": filesystem, "disk.mount_options": options, **dict.fromkeys(_OF_DEVICE)}
    sectors, ahead = read_int(device / "size"), read_int(device / "queue/read_ahead_kb")
    turning = read_int(device / "queue/rotational")
    return {
        "disk.filesystem": filesystem,
        "disk.mount_options": options,
        "disk.model": read_text(device / "device/model"),
        "disk.size_bytes": None if sectors is None else sectors * _SECTOR,
        "disk.rotational": None if turning is None else bool(turning),
        "disk.scheduler": read_choice(device / "queue/scheduler"),
        "disk.read_ahead_bytes": None if ahead is None else ahead * 1024,
    }


def is_memory_filesystem(folder: Path) -> bool:
    return _mount(ROOT, folder.resolve())[0] in ("tmpfs", "ramfs")


def _mount(root: Path, folder: Path) -> tuple[str | None, str | None]:
    """Type and relevant options of the mount of `folder`: the longest matching mount point, the last of equal ones."""
    best: tuple[int, str, str] | None = None
    for line in (read_text(root / "proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        fields, last = before.split(), after.split()
        point = Path(fields[4].encode().decode("unicode_escape"))
        if len(last) >= 3 and folder.is_relative_to(point) and (best is None or len(point.parts) >= best[0]):
            options = {*fields[5].split(","), *last[2].split(",")} & _OPTIONS
            best = len(point.parts), last[0], ",".join(sorted(options)) or "none"
    return (None, None) if best is None else (best[1], best[2])


def _base_device(device: Path) -> Path | None:
    """The disk of a partition, or below an encrypted or logical volume; the device itself if it spans several; None if sysfs is unreadable."""
    try:
        while True:
            below = list((device / "slaves").iterdir()) if (device / "slaves").is_dir() else []
            if (device / "partition").exists():
                device = device.parent
            elif len(below) == 1:
                device = below[0].resolve()
            else:
                return device
    except OSError:
        return None
