"""Checkpoints of one process, and what saving and loading need whatever the files hold: durable, verified, published, passed over if damaged.

One process writes one file by `torch.save`. `torch.distributed.checkpoint`, which several ranks use (`sharded`), takes four times as long to
restore the same state there, and most of a second to import, by which each restart would be longer.
"""

from __future__ import annotations

import io
import shutil
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import torch

from plumbline.harness.training.checkpoint import folder as folders
from plumbline.harness.training.checkpoint.folder import (
    CheckpointCorrupt,
    CheckpointManifest,
    FileDigest,
    checkpoint_name,
    digest_file,
    draft_path,
    process_cores,
    sync_file,
    sync_folder,
)
from plumbline.harness.training.checkpoint.state import flatten_state, replace_leaves
from plumbline.harness.training.worker_protocol import ExitCode, WorkerError

if TYPE_CHECKING:
    import torch.distributed as dist


class CheckpointRanks(Protocol):
    """The ranks that save and load together, each with its place."""

    node: int
    local: int
    processes: int
    writes: bool
    part: str
    replica_group: dist.ProcessGroup | None

    def gather(self, value: Any) -> list[Any]:
        """All ranks' values in order; a barrier."""


@dataclass
class SingleProcess:
    """One process that holds the whole state, alone or for all ranks of its job."""

    node: int = 0
    local: int = 0
    processes: int = 1
    writes: bool = True
    part: str = "all"
    replica_group: dist.ProcessGroup | None = None

    def gather(self, value: Any) -> list[Any]:
        return [value]


class NothingToResume(WorkerError):
    """No valid checkpoint to resume from."""

    exit_code = ExitCode.NOTHING_TO_RESUME


class SavedCheckpoint(NamedTuple):
    """Bytes on all nodes, seconds from the start of the save until they were durable on all, then seconds until they bore their checksums
    and their final name."""

    bytes: int
    seconds: float
    checksum_s: float


class LoadedCheckpoint(NamedTuple):
    """The state after `step` steps, of each newer checkpoint why it was passed over, and the seconds that checking took."""

    step: int
    state: dict[str, Any]
    rejected: tuple[str, ...]
    checksum_s: float


class TrackedFile(io.BufferedWriter):
    """A file that is written once, from its beginning."""

    def __init__(self, path: Path, expected: int = 0, pause: Callable[[], None] | None = None) -> None:
        """`pause` comes when half of the `expected` bytes have passed."""
        super().__init__(io.FileIO(path, "wb"))
        self._half, self._pause = expected // 2, pause
        self.error: OSError | None = None
        """Why a write failed: torch reports it as an error of its own and drops the cause."""

    def write(self, data: Any) -> int:
        try:
            written = super().write(data)
        except OSError as error:
            self.error = error
            raise
        if self._pause is not None and self.tell() >= self._half:
            self.flush()
            self._pause()
        return written


class DraftFiles:
    """The files of a checkpoint that this rank writes into its draft. `expected`: bytes, of which `pause` is called after half."""

    def __init__(self, draft: Path, pause: Callable[[], None] | None) -> None:
        self.folder, self.expected, self._pause = draft, 0, pause
        self._files: dict[str, TrackedFile] = {}

    def open(self, path: Path) -> TrackedFile:
        file = self._files[path.name] = TrackedFile(path, self.expected, self._pause)
        return file

    def write(self, name: str, content: Any) -> None:
        """Write a file by `torch.save`; durable then. OSError of the disk."""
        try:
            with self.open(self.folder / name) as file:
                torch.save(content, file)
                sync_file(file)
        except RuntimeError as error:
            raise self.error or error from error

    def digests(self, threads: int) -> dict[str, FileDigest]:
        """Digests of the written files by their final names; reads them."""
        names = {name.removesuffix(".tmp") for name in self._files}
        return {name: digest_file(self.folder / name, threads) for name in sorted(names)}

    @property
    def error(self) -> OSError | None:
        return next((file.error for file in self._files.values() if file.error is not None), None)


class CheckpointStore:
    """Saves and loads with other ranks: all of them call each method, in the same order.

    Nodes share no disk: each keeps what its own ranks write. A checkpoint counts once every node has published it, and only then are older
    ones deleted: at any moment there is one that all nodes have. A node that is new has none, and says so.
    """

    described_by: ClassVar[Collection[str]] = ()
    """Files that are verified before the others are read."""
    contents: ClassVar[Collection[str]] = ("state.pt",)
    """Files without which a manifest is of no use."""

    def __init__(self, folder: Path, ranks: CheckpointRanks, *, keep: int, retain: frozenset[int]) -> None:
        self._folder, self._ranks, self._keep, self._retain = folder, ranks, keep, retain
        self._threads = max(1, len(process_cores()) // ranks.processes)

    def begin(
        self, step: int, state: dict[str, Any], *, beside: bool, pause: Callable[[], None] | None = None
    ) -> Callable[[], SavedCheckpoint]:
        """The checkpoint of `state` after `step` steps. What is returned writes it, or waits for it, and publishes it.

        `beside`: of a copy, while training goes on; what is returned may then be called in another thread. Otherwise it is called at
        once. OSError, such as a full disk, from either; older checkpoints are then untouched. `pause` is called once half is written.
        """
        began = time.monotonic_ns()
        ranks, files = self._ranks, DraftFiles(draft_path(self._folder, step), pause)
        write = self._writer(files, state, beside) if ranks.writes else None

        def finish() -> SavedCheckpoint:
            if write is not None:
                write()
                sync_folder(files.folder)
            ranks.gather(None)  # durable on every node
            durable = time.monotonic_ns()
            # Beside the training a checksum gets one core, as the training needs the others.
            parts = ranks.gather((ranks.node, files.digests(1 if beside else self._threads)))
            if ranks.local == 0:
                mine = {name: part for node, some in parts if node == ranks.node for name, part in some.items()}
                self._complete(files.folder, mine)
                folders.publish(files.folder, self._folder / checkpoint_name(step), CheckpointManifest(step, mine, ranks.part))
            ranks.gather(None)  # published on every node
            published = time.monotonic_ns()
            if ranks.local == 0:
                folders.prune(self._folder, self._keep, self._retain)
            size = sum(part.bytes for _, some in parts for part in some.values())
            return SavedCheckpoint(size, (durable - began) / 1e9, (published - durable) / 1e9)

        return finish

    def load(self, live: dict[str, Any], device: torch.device, *, checksums: bool = True) -> LoadedCheckpoint:
        """The newest checkpoint that is valid on every node (without `checksums`: that can be loaded). NothingToResume.

        Its tensors are on `device`. Sharded ones are those of `live`, which has all of them."""
        ranks, folder = self._ranks, self._folder
        if ranks.local == 0:
            folders.discard_drafts(folder)
        steps_by_node = dict(ranks.gather((ranks.node, folders.checkpoint_steps(folder))))
        rejected: list[str] = []
        checksum_s = 0.0
        for step in sorted(set().union(*steps_by_node.values()), reverse=True):
            absent = [f"not on node {node}" for node, steps in steps_by_node.items() if step not in steps]
            reasons = absent or sorted(set(filter(None, ranks.gather(self._reason_against(step)))))
            if reasons:
                rejected.append(f"{checkpoint_name(step)}: {'; '.join(reasons)}")
                continue
            state, failure = dict[str, Any](), None
            try:
                state = self._read(folder / checkpoint_name(step), live, device)
            except Exception as error:  # noqa: BLE001 - what a damaged file makes of the reader; the checksums tell
                failure = error
            # Checked before anybody uses it, and after the disk was read: from memory.
            began = time.monotonic_ns()
            damaged = ranks.gather(self._damage(step) if checksums or failure is not None else None)
            reasons = sorted(set(filter(None, damaged)))
            checksum_s += (time.monotonic_ns() - began) / 1e9
            if reasons:
                rejected.append(f"{checkpoint_name(step)}: {'; '.join(reasons)}")
                continue
            if failure is not None:
                raise failure
            return LoadedCheckpoint(step, state, tuple(rejected), checksum_s)
        without = [f"node {node}" for node, steps in sorted(steps_by_node.items()) if not steps]
        why = (
            f"; {' and '.join(without)} has none: it is not where the parts of its ranks were saved"
            if without and any(steps_by_node.values())
            else ""
        )
        raise NothingToResume(f"no valid checkpoint in {folder.name}{why}{''.join(f'; {reason}' for reason in rejected)}")

    def _reason_against(self, step: int) -> str | None:
        """Why this node's part of a checkpoint cannot be loaded, as far as its manifest, the files that describe it and the others' sizes show."""
        path, ranks = self._folder / checkpoint_name(step), self._ranks
        try:
            manifest = folders.read_manifest(path)
            if manifest.part_of != ranks.part:
                raise CheckpointCorrupt(f"is of {manifest.part_of}; expected {ranks.part}")
            if absent := set(self.contents) - manifest.files.keys():
                raise CheckpointCorrupt(f"has an unusable manifest (no {', '.join(sorted(absent))})")
            for name, part in manifest.files.items():
                (folders.verify_file if name in self.described_by else folders.verify_size)(path, name, part)
            self._check_described(path)
        except CheckpointCorrupt as error:
            return str(error)
        return None

    def _damage(self, step: int) -> str | None:
        path, ranks = self._folder / checkpoint_name(step), self._ranks
        try:
            files = folders.read_manifest(path).files
            for name in sorted(files.keys() - set(self.described_by))[ranks.local :: ranks.processes]:
                folders.verify_file(path, name, files[name], self._threads)
        except CheckpointCorrupt as error:
            return str(error)
        return None

    def _writer(self, files: DraftFiles, state: dict[str, Any], beside: bool) -> Callable[[], None]:
        """Takes what is to be written from the live state if that is `beside` the training; what is returned makes it durable."""
        leaves = flatten_state(state)
        tensors = {name: leaf for name, leaf in leaves.items() if isinstance(leaf, torch.Tensor)}
        files.expected = sum(tensor.nbytes for tensor in tensors.values())
        if beside:
            state = replace_leaves(state, leaves | {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()})

        def write() -> None:
            shutil.rmtree(files.folder, ignore_errors=True)  # left by an attempt that was killed here and started again
            files.folder.mkdir(parents=True)
            try:
                files.write("state.pt", state)
            except BaseException:
                shutil.rmtree(files.folder, ignore_errors=True)
                raise

        return write

    def _complete(self, draft: Path, parts: dict[str, FileDigest]) -> None:
        """Add to a node's draft, and to its parts, what no rank of it has written."""

    def _check_described(self, path: Path) -> None:
        """CheckpointCorrupt if the files that describe a checkpoint, which are as they were written, describe none."""

    def _read(self, path: Path, live: dict[str, Any], device: torch.device) -> dict[str, Any]:
        """The state, not yet verified; any exception of a damaged file."""
        state: dict[str, Any] = torch.load(path / "state.pt", map_location=device, weights_only=True)
        return state
