"""Where jobs run: what a queue or a machine is asked, whatever it is."""

from __future__ import annotations

import json
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Generic, TypeVar

from plumbline.declarations import Provider
from plumbline.declarations.providers.batch import BatchLauncher
from plumbline.launch.batch.job import STORE, BatchJob, launch_folder
from plumbline.launch.batch.look import Seen
from plumbline.launch.batch.shell import Shell
from plumbline.launch.doctor_check import DoctorCheck
from plumbline.launch.failures import Outcome, RequestFailed

L = TypeVar("L", bound=BatchLauncher)
MOST_LISTED = 10_000
_META = "launch.json"


@dataclass(frozen=True)
class JobState:
    """`word` and `reason` as the queue says them. Times are Unix seconds of its clock."""

    word: str
    reason: str = ""
    submitted: float | None = None
    started: float | None = None
    nodes: str = ""


@dataclass(frozen=True)
class View:
    """A launch's folder, and its job; None where the queue does not know it any more."""

    seen: Seen
    job: JobState | None = None


@dataclass(frozen=True)
class Ours:
    """A launch of ours that the place still has. `lives`: something of it may run."""

    name: str
    campaign: str
    expires: float
    lives: bool


class JobPlace(ABC, Generic[L]):
    """The queue of one provider. All methods: RequestFailed if it does not answer, ApiRefused if it refuses, BadDeclaration."""

    word = "the queue"

    def __init__(self, launcher: L) -> None:
        self.launcher = launcher

    @abstractmethod
    def logins(self) -> AbstractAsyncContextManager[list[Shell]]:
        """A shell at each machine that is logged in to."""

    @abstractmethod
    async def place_checks(self, shells: Sequence[Shell], provider: Provider) -> list[DoctorCheck]:
        """What a doctor looks at in this kind of place."""

    @abstractmethod
    async def submit(self, job: BatchJob, files: Mapping[str, bytes], expires: float) -> None:
        """Request the job, once for its name. `files`: of its folder; `expires`: Unix seconds after which it is forgotten."""

    @abstractmethod
    async def look(self, offsets: Mapping[str, int]) -> dict[str, View]:
        """Look at all these launches by one question. `offsets`: see `look_script`."""

    @abstractmethod
    async def lives(self, name: str) -> bool:
        """Whether it waits or runs."""

    @abstractmethod
    async def cancel(self, names: Sequence[str]) -> None:
        """Request their end, without waiting for it."""

    @abstractmethod
    async def ours(self) -> list[Ours]:
        """What there is of ours."""

    @abstractmethod
    async def ended_as(self, name: str) -> JobState | None:
        """How a job ended that the queue no longer shows; None if nothing says it."""

    @abstractmethod
    async def remove(self, name: str) -> None:
        """Delete its files."""

    @abstractmethod
    async def result(self, name: str, path: str, most: int) -> bytes | None:
        """A file of its store, of at most `most` bytes; None without one."""

    @abstractmethod
    async def log(self, name: str, most: int) -> bytes:
        """The last `most` bytes of its log."""

    @abstractmethod
    async def results(self, name: str) -> dict[str, int]:
        """Bytes of each file of its store, by path."""

    @abstractmethod
    def waited(self, view: View, seconds: float) -> Outcome:
        """Class and detail of a job that got no node in that time."""

    @abstractmethod
    def ended(self, word: str, reason: str) -> Outcome:
        """Class and detail of a job of which only the queue's last word is known."""

    def refused(self, detail: str) -> Outcome:
        """Class and detail of a refused request."""
        return "bad_declaration", detail


def meta_line(job: BatchJob, expires: float) -> bytes:
    return json.dumps({"campaign": job.trial.campaign_id, "trial": job.trial.trial_id, "expires": round(expires)}).encode()


async def put_files(shell: Shell, job: BatchJob, files: Mapping[str, bytes], expires: float) -> None:
    """Make the launch's folder and write its files."""
    await shell.do(f"umask 077; mkdir -p {shlex.quote(job.folder)}/{STORE} && date +%s.%N > {shlex.quote(job.folder)}/requested")
    for name, data in {**files, _META: meta_line(job, expires)}.items():
        await shell.put(f"{job.folder}/{name}", data)


async def listed_launches(shell: Shell, launcher: BatchLauncher, lives: str) -> list[Ours]:
    """Launches of ours by their folders. `lives`: a test of shell in a launch's folder."""
    root = shlex.quote(launch_folder(launcher, ""))
    out = await shell.do(
        f'cd {root} 2>/dev/null || exit 0; for name in pl-*; do [ -f "$name/{_META}" ] || continue; '
        f'live=0; (cd "$name" && {lives}) && live=1; printf \'%s %s %s\\n\' "$name" $live "$(head -c 1000 "$name/{_META}")"; done'
    )
    found = []
    for line in out.decode("utf-8", "replace").splitlines()[:MOST_LISTED]:
        name, live, meta = line.split(" ", 2)
        try:
            row = json.loads(meta)
            found.append(Ours(name, str(row["campaign"]), float(row["expires"]), live == "1"))
        except (ValueError, KeyError, TypeError, RecursionError):
            found.append(Ours(name, "", 0.0, live == "1"))
    return found


async def stored_files(shell: Shell, folder: str) -> dict[str, int]:
    """Bytes of each file below a launch's store."""
    out = await shell.do(
        f"cd {shlex.quote(folder)}/{STORE} 2>/dev/null && find . -type f -printf '%s %P\\n' | head -n {MOST_LISTED + 1} || true"
    )
    rows = [line.partition(" ") for line in out.decode("utf-8", "replace").splitlines()]
    if len(rows) > MOST_LISTED:
        raise RequestFailed(f"{shell.place}: more than {MOST_LISTED:,} files in {folder}/{STORE}")
    return {path: int(size) for size, _, path in rows}


async def remove_folder(shell: Shell, launcher: BatchLauncher, name: str) -> None:
    await shell.do(f"rm -rf {shlex.quote(launch_folder(launcher, name))}")
