"""The folder of a checkpoint: its name, its draft, its manifest, and how long it is kept."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from plumbline.harness.training.checkpoint.writing import Part, sum_of, sync, sync_folder

_NAME = re.compile(r"step-(\d{8,})$")
_DRAFT = ".part"
_MANIFEST = "manifest.json"


class Damaged(Exception):
    """A checkpoint does not hold what its manifest promises; the message says why."""


class NothingToResume(Exception):
    """No valid checkpoint to resume from."""


class Durable(NamedTuple):
    """A checkpoint: bytes on all nodes, seconds until they were durable on all, then seconds until they bore their checksums."""

    bytes: int
    seconds: float
    checksum_s: float


@dataclass(frozen=True)
class Manifest:
    """What a checkpoint holds: its files by their names, and, of state that is spread over nodes, which part of it lies here."""

    step: int
    files: dict[str, Part]
    part_of: str = "all"


def name_of(step: int) -> str:
    """The folder name of the checkpoint after `step` steps."""
    return f"step-{step:08d}"


def draft_of(folder: Path, step: int) -> Path:
    """Where the checkpoint after `step` steps is built."""
    return folder / f"{name_of(step)}{_DRAFT}"


def publish(draft: Path, final: Path, manifest: Manifest) -> None:
    """Give a draft whose files are synced its manifest and its name. OSError if the disk is full."""
    with (draft / _MANIFEST).open("wb") as raw:
        raw.write(json.dumps(asdict(manifest)).encode())
        sync(raw)
    sync_folder(draft)
    if final.exists():  # a resumed run passes the step again
        shutil.rmtree(final)
    draft.rename(final)
    sync_folder(final.parent)


def manifest_of(path: Path) -> Manifest:
    """The manifest of a checkpoint; Damaged if it has none that can be used, or one of another step."""
    try:
        told: dict[str, Any] = json.loads((path / _MANIFEST).read_bytes())
        files = {str(name): Part(int(part["bytes"]), str(part["sha256"])) for name, part in told["files"].items()}
        manifest = Manifest(int(told["step"]), files, str(told["part_of"]))
    except OSError as error:
        raise Damaged(f"cannot be read ({error})") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"has an unusable manifest ({error})") from error
    if manifest.step != step_of(path):
        raise Damaged(f"is named after step {step_of(path)} but holds step {manifest.step}")
    return manifest


def check_size(path: Path, name: str, promised: Part) -> None:
    """Damaged if a file of a checkpoint is not there or not as long as the manifest promises; takes no time."""
    try:
        size = (path / name).stat().st_size
    except OSError as error:
        raise Damaged(f"cannot be read ({error})") from error
    if size != promised.bytes:
        raise Damaged(f"{name} has {size} bytes; its manifest says {promised.bytes}")


def check(path: Path, name: str, promised: Part) -> None:
    """Read one file of a checkpoint; Damaged if it is not what the manifest promises."""
    check_size(path, name, promised)
    try:
        with (path / name).open("rb") as file:
            if sum_of(file) != promised.sha256:
                raise Damaged(f"{name} differs from the SHA-256 in its manifest")
    except OSError as error:
        raise Damaged(f"cannot be read ({error})") from error


def steps_in(folder: Path) -> list[int]:
    """Steps of the published checkpoints, newest first; whether they are valid is not known yet."""
    found = [path for path in folder.iterdir() if _NAME.match(path.name)] if folder.is_dir() else []
    return sorted(map(step_of, found), reverse=True)


def step_of(path: Path) -> int:
    """The step that a checkpoint's folder is named after."""
    match = _NAME.match(path.name)
    if match is None:
        raise ValueError(f"{path.name!r} is no checkpoint's name; expected such as {name_of(8)}")
    return int(match[1])


def prune(folder: Path, keep: int, retain: frozenset[int]) -> None:
    """Delete all but the newest `keep` and those in `retain`."""
    for step in steps_in(folder)[keep:]:
        if step not in retain:
            shutil.rmtree(folder / name_of(step))


def discard_drafts(folder: Path) -> None:
    """Delete what a killed process left unfinished. Only while nobody writes to the folder."""
    for path in folder.glob(f"*{_DRAFT}"):
        shutil.rmtree(path)
