"""Machines by SSH: a guard on each runs one trial at a time; several machines are the nodes of a gang."""

from __future__ import annotations

import asyncio
import secrets
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from plumbline.declarations import Provider
from plumbline.declarations.providers.batch import SshLauncher
from plumbline.launch.batch.harness_copy import deliver
from plumbline.launch.batch.job import LOG, START, BatchJob, launch_folder
from plumbline.launch.batch.look import look_script, read_looks
from plumbline.launch.batch.place import JobPlace, JobState, Ours, View, listed_launches, put_files, remove_folder, stored_files
from plumbline.launch.batch.shell import Shell, login, login_options
from plumbline.launch.doctor_check import DoctorCheck, failed, ok
from plumbline.launch.failures import Outcome, RequestFailed

_START_TURNS = 300
"""Tenths of a second in which a guard must hold its launch."""
_NEEDED = 'for each in flock setsid sha256sum tar stat mktemp; do command -v $each >/dev/null || { echo "this machine has no $each" >&2; exit 1; }; done'


class Machines(JobPlace[SshLauncher]):
    """The provider's machines, in the order of ranks."""

    word = "the machine"

    @asynccontextmanager
    async def _logins(self, count: int | None = None) -> AsyncIterator[list[Shell]]:
        async with AsyncExitStack() as stack:
            names = self.launcher.logins[:count]
            yield [await stack.enter_async_context(login(name)) for name in names]

    def logins(self) -> AbstractAsyncContextManager[list[Shell]]:
        return self._logins()

    async def place_checks(self, shells: Sequence[Shell], provider: Provider) -> list[DoctorCheck]:
        checks = []
        for shell in shells:
            answer = await shell.ask(_NEEDED)
            remedy = "install util-linux, coreutils and tar there"
            checks.append(
                failed("programs of the guard", answer.error, remedy) if answer.status else ok("programs of the guard", shell.place)
            )
        if len(shells) > 1:
            file = f"{self.launcher.folder.rstrip('/')}/.shared-{secrets.token_hex(6)}"
            await shells[0].put(file, b"")
            apart = [shell.place for shell in shells[1:] if (await shell.ask(f"test -e {shlex.quote(file)}")).status]
            await shells[0].do(f"rm -f {shlex.quote(file)}")
            remedy = "let launcher.folder be one that all machines mount"
            seen = (
                f"{self.launcher.folder} is another one at {', '.join(apart)}"
                if apart
                else f"{self.launcher.folder}, at {len(shells)} machines"
            )
            checks.append(failed("shared folder", seen, remedy) if apart else ok("shared folder", seen))
        return checks

    async def submit(self, job: BatchJob, files: Mapping[str, bytes], expires: float) -> None:
        nodes = job.trial.workload.nodes
        first = (await asyncio.to_thread(login_options, self.launcher.logins[0]))["host"]
        async with self._logins(nodes) as shells:
            for rank, shell in enumerate(shells):
                await shell.do(_NEEDED)
                await deliver(shell, self.launcher.folder)
                own = f"{START}.{rank}"
                script = job.start_script(rank=str(rank))
                if nodes > 1:
                    head, _, rest = script.partition("\n")
                    script = f"{head}\n{job.rendezvous(first)}\n{rest}"
                if await self._unknown(shell, job.folder, rank):
                    await put_files(shell, job, {**files, own: script.encode()}, expires)
            for rank, shell in enumerate(shells):
                await shell.do(self._start(job, rank))

    async def _unknown(self, shell: Shell, folder: str, rank: int) -> bool:
        return (await shell.ask(f"test -e {shlex.quote(folder)}/started.{rank}")).status != 0

    def _start(self, job: BatchJob, rank: int) -> str:
        harness, launcher = job.copy.folder(self.launcher.folder), self.launcher
        # Where several nodes of a gang see one folder, the first one's files tell the trial's end.
        guarded = job.folder if rank == 0 else f"{job.folder}/node-{rank}"
        command = [
            *(launcher.python, "-I", "-S", f"{harness}/plumbline/launch/batch/guard.py", "--folder", guarded),
            *("--lock", f"{launcher.folder.rstrip('/')}/machine-{rank}.lock", "--wait", f"{launcher.schedule_timeout:g}"),
            *("--limit", f"{launcher.timeout:g}", "--reaper", f"{harness}/plumbline/launch/local/reaper.py"),
            *("--", "sh", f"{job.folder}/{START}.{rank}"),
        ]
        return (
            f"cd {shlex.quote(job.folder)} && mkdir -p {shlex.quote(guarded)} || exit 1; if [ ! -e started.{rank} ]; then : > started.{rank}; "
            f"setsid {shlex.join(command)} >> guard.{rank}.log 2>&1 < /dev/null & fi; "
            # Until then a look would find nothing alive, as of a guard that was killed.
            f"n=0; while [ ! -e {shlex.quote(guarded)}/guard ]; do n=$((n + 1)); [ $n -gt {_START_TURNS} ] && "
            f'{{ echo "the guard did not start: $(tail -n 1 guard.{rank}.log)" >&2; exit 1; }}; sleep 0.1; done'
        )

    async def look(self, offsets: Mapping[str, int]) -> dict[str, View]:
        script, mark = look_script(self.launcher, offsets)
        async with self._logins(1) as (shell,):
            answer = await shell.do(script, most=len(offsets) * 70_000 + 10_000)
        try:
            seen = read_looks(answer, mark, offsets)
        except ValueError as error:
            raise RequestFailed(f"{shell.place}: {error}") from error
        return {name: View(each, _state(each.alive, each.began)) for name, each in seen.items()}

    async def lives(self, name: str) -> bool:
        async with self._logins() as shells:
            answers = [await shell.ask(f"cd {shlex.quote(launch_folder(self.launcher, name))} && {self._any_alive()}") for shell in shells]
        return any(answer.status == 0 for answer in answers)

    def _any_alive(self) -> str:
        return "{ found=1; for each in alive node-*/alive; do [ -e $each ] && ! flock -n $each true && found=0; done; [ $found = 0 ]; }"

    async def cancel(self, names: Sequence[str]) -> None:
        folders = " ".join(shlex.quote(launch_folder(self.launcher, name)) for name in names)
        script = (
            f"for each in {folders}; do for of in $each $each/node-*; do [ -d $of ] || continue; : > $of/stop; "
            "[ -f $of/guard ] && [ -e $of/alive ] && ! flock -n $of/alive true && kill -TERM $(cat $of/guard); done; done; true"
        )
        async with self._logins() as shells:
            for shell in shells:
                await shell.do(script)

    async def ours(self) -> list[Ours]:
        async with self._logins() as shells:
            found = [each for shell in shells for each in await listed_launches(shell, self.launcher, self._any_alive())]
        return [max((o for o in found if o.name == name), key=lambda o: o.lives) for name in dict.fromkeys(each.name for each in found)]

    async def ended_as(self, name: str) -> JobState | None:
        return None

    async def remove(self, name: str) -> None:
        async with self._logins() as shells:
            for shell in shells:
                await remove_folder(shell, self.launcher, name)

    async def result(self, name: str, path: str, most: int) -> bytes | None:
        async with self._logins(1) as (shell,):
            return await shell.get(f"{launch_folder(self.launcher, name)}/{path}", most)

    async def log(self, name: str, most: int) -> bytes:
        async with self._logins(1) as (shell,):
            return await shell.do(f"tail -c {most:d} {shlex.quote(launch_folder(self.launcher, name))}/{LOG}", most=most)

    async def results(self, name: str) -> dict[str, int]:
        async with self._logins(1) as (shell,):
            return await stored_files(shell, launch_folder(self.launcher, name))

    def waited(self, view: View, seconds: float) -> Outcome:
        return "launch_timeout", f"another trial held the machine for {seconds:.0f} s (launcher.schedule_timeout)"

    def ended(self, word: str, reason: str) -> Outcome:
        return "interrupted", "its guard on the machine ended without saying how: it was killed, or the machine went down"


def _state(alive: bool, began: float | None) -> JobState | None:
    if not alive:
        return None
    return JobState("PENDING", "MachineBusy") if began is None else JobState("RUNNING", started=began)
