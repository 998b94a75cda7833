from __future__ import annotations

import os
from pathlib import Path

import pytest

from plumbline.harness.environment import disk


def machine(root: Path, mounts: str, device: dict[str, str]) -> Path:
    """A root in which the file system that holds the tests is on partition 1 of `nvme0n1`."""
    here = root.stat().st_dev
    disk_folder = root / "sys/devices/pci/nvme0n1"
    for name, content in {**device, "nvme0n1p1/partition": "1"}.items():
        (disk_folder / name).parent.mkdir(parents=True, exist_ok=True)
        (disk_folder / name).write_text(content)
    block = root / "sys/dev/block"
    block.mkdir(parents=True)
    (block / f"{os.major(here)}:{os.minor(here)}").symlink_to(disk_folder / "nvme0n1p1")
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(mounts)
    return root


NVME = {
    "size": "1000\n",
    "device/model": "EXAMPLE 9 3.84TB  \n",
    "queue/rotational": "0\n",
    "queue/scheduler": "[none] mq-deadline\n",
    "queue/read_ahead_kb": "128\n",
}


def test_the_disk_below_the_working_folder_is_described(tmp_path: Path) -> None:
    mounts = (
        "27 1 254:0 / / rw,relatime - ext4 /dev/root rw,discard\n"
        f"28 27 259:1 / {tmp_path} rw,noatime shared:1 - xfs /dev/nvme0n1p1 rw,sync,addr=10.0.0.7\n"
    )
    found = disk.disk_facts(tmp_path / "not/there/yet", machine(tmp_path, mounts, NVME))
    assert found == {
        "disk.filesystem": "xfs",
        "disk.mount_options": "sync",
        "disk.model": "EXAMPLE 9 3.84TB",
        "disk.size_bytes": 512_000,
        "disk.rotational": False,
        "disk.scheduler": "none",
        "disk.read_ahead_bytes": 131_072,
    }


def test_a_volume_is_looked_through_to_its_only_disk(tmp_path: Path) -> None:
    root = machine(tmp_path, "", NVME)
    here = root.stat().st_dev
    link = root / f"sys/dev/block/{os.major(here)}:{os.minor(here)}"
    volume = root / "sys/devices/virtual/dm-0"
    (volume / "slaves").mkdir(parents=True)
    (volume / "slaves/nvme0n1p1").symlink_to(link.resolve())
    link.unlink()
    link.symlink_to(volume)
    assert disk.disk_facts(tmp_path, root)["disk.model"] == "EXAMPLE 9 3.84TB"


@pytest.mark.parametrize("mounts", ["", "27 1 0:40 / / rw - tmpfs tmpfs rw\n"])
def test_where_there_is_no_disk_to_see_nothing_is_claimed(tmp_path: Path, mounts: str) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(mounts)
    found = disk.disk_facts(tmp_path, tmp_path)
    assert found.pop("disk.filesystem") == ("tmpfs" if mounts else None)
    assert found.pop("disk.mount_options") == ("none" if mounts else None)
    assert set(found.values()) == {None}


@pytest.mark.fault("sysfs of the disk may not be read", ends="the disk's facts are unknown", keeps="file system, mount options, the trial")
@pytest.mark.parametrize("closed", ["slaves", "partition"])
def test_a_disk_that_may_not_be_looked_at_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: str) -> None:
    root = machine(tmp_path, "27 1 254:0 / / rw - ext4 /dev/root rw\n", NVME)
    stat = Path.stat

    def refuse(path: Path, **how: bool) -> os.stat_result:
        if path.name == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **how)

    monkeypatch.setattr(Path, "stat", refuse)  # root may read everything
    found = disk.disk_facts(tmp_path, root)
    assert found.pop("disk.filesystem") == "ext4" and found.pop("disk.mount_options") == "none"
    assert len(found) == 5 and set(found.values()) == {None}
