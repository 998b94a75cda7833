"""Slurm: a job for each trial, its states and reasons, and what each means for whom.

Works with or without accounting: of a job that left the queue, sacct is asked first, then the controller, which forgets it after minutes.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from plumbline.declarations.providers.batch import SlurmLauncher
from plumbline.declarations.providers.provider import Provider
from plumbline.harness.gang.topology import RENDEZVOUS_VARIABLE
from plumbline.launch.batch.harness_copy import deliver
from plumbline.launch.batch.job import LOG, START, BatchJob, launch_folder
from plumbline.launch.batch.look import look_script, read_looks
from plumbline.launch.batch.place import JobPlace, JobState, Ours, View, listed_launches, put_files, remove_folder, stored_files
from plumbline.launch.batch.shell import Shell, login
from plumbline.launch.doctor_check import DoctorCheck, failed, ok
from plumbline.launch.failures import ApiRefused, Outcome, RequestFailed
from plumbline.results import FailureClass

_BATCH = "job.sh"
# A controller that is away holds a client for minutes. Times as Unix seconds: the login node's zone need not be ours.
_CALL = "env SLURM_TIME_FORMAT=%s timeout 40"
_AWAY = re.compile(
    r"Unable to contact slurm controller|Connection refused|Socket timed out|Communication connection failure|Zero Bytes", re.I
)
_GONE = re.compile(r"Invalid job id|invalid job id", re.I)

WAITING: Mapping[str, FailureClass | None] = {
    "Resources": None,
    "Priority": None,
    "None": None,
    "Reservation": None,
    "BeginTime": None,
    "Dependency": None,
    "Licenses": None,
    "Prolog": None,
    "JobHeldUser": "launch_timeout",
    "JobHeldAdmin": "launch_timeout",
    "JobLaunchFailure": "launch_timeout",
    "ReqNodeNotAvail": "provider_fault",
    "NodeDown": "provider_fault",
    "PartitionDown": "provider_fault",
    "PartitionInactive": "provider_fault",
    "ReservationDeleted": "bad_declaration",
    "BadConstraints": "bad_declaration",
    "InvalidAccount": "bad_declaration",
    "InvalidQOS": "bad_declaration",
    "AccountNotAllowed": "bad_declaration",
    "QOSNotAllowed": "bad_declaration",
    "PartitionNodeLimit": "bad_declaration",
    "PartitionTimeLimit": "bad_declaration",
    "PartitionConfig": "bad_declaration",
}
"""Class of a job that waited for its reason until `schedule_timeout`. None: nodes were full, which is whose nodes they are. What limits an account,
a QOS or a user is our quota."""
ENDED: Mapping[str, FailureClass] = {
    "NODE_FAIL": "provider_fault",
    "BOOT_FAIL": "provider_fault",
    "LAUNCH_FAILED": "provider_fault",
    "RECONFIG_FAIL": "provider_fault",
    "PREEMPTED": "interrupted",
    "REVOKED": "interrupted",
    "CANCELLED": "interrupted",
    "SIGNALING": "interrupted",
    "TIMEOUT": "timeout",
    "DEADLINE": "timeout",
    "OUT_OF_MEMORY": "out_of_memory",
}
"""Class of a job by the state in which it ended; of FAILED and COMPLETED the harness's own exit status tells more."""
_AT_ONCE = frozenset(reason for reason, failure in WAITING.items() if failure == "bad_declaration")
"""Reasons that no waiting mends."""
_LIMITS = re.compile(r"^(QOS|Assoc|Max|Job(Array)?TaskLimit|User|Group|Account)|Limit$|PerUser|PerAccount")
_FINISHED = frozenset({"COMPLETED", "FAILED", *ENDED})


def waits_in_vain(reason: str) -> bool:
    """Whether a job with this reason never starts."""
    return reason.partition(",")[0].strip("() ") in _AT_ONCE


def class_of_wait(reason: str, *, theirs: bool) -> FailureClass:
    """Class of a job that got no node in time. `theirs`: the provider alone fills and closes the nodes."""
    word = reason.partition(",")[0].strip("() ") or "None"
    known = WAITING.get(word, "quota_exceeded" if _LIMITS.search(word) else None)
    return known or ("insufficient_capacity" if theirs else "launch_timeout")


class Slurm(JobPlace[SlurmLauncher]):
    """The cluster behind one login node."""

    word = "Slurm"

    @asynccontextmanager
    async def _login(self) -> AsyncIterator[Shell]:
        async with login(self.launcher.connection) as shell:
            yield shell

    @asynccontextmanager
    async def logins(self) -> AsyncIterator[list[Shell]]:
        async with self._login() as shell:
            yield [shell]

    async def place_checks(self, shells: Sequence[Shell], provider: Provider) -> list[DoctorCheck]:
        (shell,) = shells
        there = await shell.ask(f"{_CALL} sbatch --version")
        if there.status != 0:
            return [failed("Slurm", there.error or f"exit status {there.status}", "install Slurm's commands there, or name a login node")]
        checks = [ok("Slurm", there.text.strip())]
        declared = self.launcher
        where = f"-p {shlex.quote(declared.partition)}" if declared.partition else ""
        listed = await shell.ask(f"{_CALL} sinfo -h {where} -o '%R|%a|%D|%T|%G|%c|%m'")
        rows = [line.split("|") for line in listed.text.splitlines() if line.count("|") == 6]
        if listed.status != 0 or not rows:
            found = listed.error or f"no partition {declared.partition or 'at all'}"
            remedy = "correct launcher.partition" if listed.status == 0 else "ask for Slurm's controller: scontrol ping"
            return [*checks, failed("partition", found, remedy)]
        seen = "; ".join(
            f"{name}: {count} × {state.strip('*~#$@')} ({gres}, {cores} cores)" for name, _, count, state, gres, cores, _ in rows
        )
        closed = [name for name, up, *_ in rows if up != "up"]
        checks.append(failed("partition", seen, "ask its operator: it is closed") if closed else ok("partition", seen))
        options = shlex.join(self._request(provider, provider.accelerator.count, 1))
        tried = await shell.ask(f"printf '#!/bin/sh\\ntrue\\n' | {_CALL} sbatch --test-only {options}")
        if tried.status == 0:
            return [*checks, ok("a job of ours", (tried.error or tried.text.strip()).removeprefix("sbatch: "))]
        remedy = "correct launcher.partition, account, qos, gres, cores or constraint, or the accelerators of the provider"
        return [*checks, failed("a job of ours", tried.error, remedy)]

    async def submit(self, job: BatchJob, files: Mapping[str, bytes], expires: float) -> None:
        async with self._login() as shell:
            await deliver(shell, self.launcher.folder)
            folder, name = shlex.quote(job.folder), shlex.quote(job.name)
            if (await shell.ask(f"test -s {folder}/job")).status == 0:
                return
            python = "python" if self.launcher.image else None
            scripts = {START: job.start_script(python, '"${SLURM_PROCID:-0}"').encode(), _BATCH: self._batch_script(job).encode()}
            await put_files(shell, job, {**files, **scripts}, expires)
            options = shlex.join(self.options(job))
            # By its name: an earlier try may have been killed between the answer and this file.
            await self._do(
                shell,
                f"cd {folder} || exit 1; known=$({_CALL} squeue -h --me -n {name} -o %i) || exit 1; "
                f'if [ -n "$known" ]; then echo "$known" | head -n 1 > job; exit 0; fi; '
                f"{_CALL} sbatch --parsable {options} {_BATCH} > job.part && mv -f job.part job",
            )

    def options(self, job: BatchJob) -> list[str]:
        """sbatch's options of a trial."""
        trial = job.trial
        given = {
            "job-name": job.name,
            "comment": f"plumbline {trial.trial_id}",
            "chdir": job.folder,
            "output": LOG,
            "open-mode": "append",
        }
        own = (f"--{name}={value}" for name, value in given.items())
        return [*own, *self._request(trial.provider, trial.workload.needs.count, trial.workload.nodes), "--no-requeue"]

    def _request(self, provider: Provider, count: int, nodes: int) -> list[str]:
        """sbatch's options of `nodes` nodes with `count` accelerators each."""
        declared, accelerator = self.launcher, provider.accelerator
        fields = ("partition", "account", "qos", "reservation", "constraint")
        given = {
            "nodes": str(nodes),
            "ntasks-per-node": "1",
            "time": str(max(1, math.ceil(declared.timeout / 60))),
            **{field: value for field in fields if (value := getattr(declared, field))},
        }
        cores = declared.cores or (accelerator.count if accelerator.kind == "cpu" else None)
        if cores is not None:
            given["cpus-per-task"] = str(cores)
        if accelerator.kind != "cpu":
            given["gres"] = f"{declared.gres or 'gpu'}:{count}"
        if declared.memory is not None:
            given["mem"] = f"{math.ceil(declared.memory / 2**20)}M"
        return [*(f"--{name}={value}" for name, value in given.items()), *(["--exclusive"] if declared.exclusive else [])]

    def _batch_script(self, job: BatchJob) -> str:
        nodes = job.trial.workload.nodes
        container = ""
        if self.launcher.image:
            root = self.launcher.folder.rstrip("/")
            container = f"--container-image={shlex.quote(self.launcher.image)} --container-mounts={shlex.quote(f'{root}:{root}')} "
        # The address by which Slurm itself reaches the first node: its name may be one of Slurm's alone.
        first = (
            'first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
            "address=$(scontrol show node \"$first\" | sed -n 's/.*NodeAddr=\\([^ ]*\\).*/\\1/p')",
            f'export {RENDEZVOUS_VARIABLE}="${{address:-$first}}:{self.launcher.rendezvous_port}"',
        )
        lines = [
            "#!/bin/sh",
            "trap : TERM",
            "date +%s.%N > began.part && mv -f began.part began",
            "unset SLURM_EXPORT_ENV",
            *(first if nodes > 1 else ()),
            f"srun --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --export=ALL {container}sh {START} &",
            "step=$!",
            'while :; do wait "$step"; code=$?; kill -0 "$step" 2>/dev/null || break; done',
            "[ -e end ] || { printf 'exit %s' \"$code\" > end.part && mv -f end.part end; }",
            'exit "$code"',
        ]
        return "\n".join(lines) + "\n"

    async def look(self, offsets: Mapping[str, int]) -> dict[str, View]:
        script, mark = look_script(self.launcher, offsets)
        async with self._login() as shell:
            answer = await self._do(
                shell, f"{_CALL} squeue -h --me -t all -o '%j|%T|%r|%V|%S|%N' || exit 1; echo; {script}", most=len(offsets) * 70_000 + 2**20
            )
        try:
            seen = read_looks(answer, mark, offsets)
        except ValueError as error:
            raise RequestFailed(f"{shell.place}: {error}") from error
        jobs = _jobs(answer.partition(f"\n{mark} ".encode())[0].decode("utf-8", "replace"))
        return {name: View(each, jobs.get(name)) for name, each in seen.items()}

    async def lives(self, name: str) -> bool:
        async with self._login() as shell:
            out = await self._do(shell, f"{_CALL} squeue -h --me -n {shlex.quote(name)} -o '%j|%T|%r|%V|%S|%N'")
        return any(state.word not in _FINISHED for state in _jobs(out.decode("utf-8", "replace")).values())

    async def cancel(self, names: Sequence[str]) -> None:
        async with self._login() as shell:
            await self._do(shell, "; ".join(f"{_CALL} scancel --me -n {shlex.quote(name)}" for name in names))

    async def ours(self) -> list[Ours]:
        async with self._login() as shell:
            out = await self._do(shell, f"{_CALL} squeue -h --me -o '%j|%T|%r|%V|%S|%N'")
            jobs = _jobs(out.decode("utf-8", "replace"))
            listed = {each.name: each for each in await listed_launches(shell, self.launcher, "false")}
        living = {name for name, state in jobs.items() if name.startswith("pl-") and state.word not in _FINISHED}
        known = [Ours(each.name, each.campaign, each.expires, each.name in living) for each in listed.values()]
        return [*known, *(Ours(name, "", 0.0, True) for name in sorted(living - listed.keys()))]

    async def ended_as(self, name: str) -> JobState | None:
        async with self._login() as shell:
            job = (
                (await shell.get(f"{launch_folder(self.launcher, name)}/job", 100) or b"")
                .decode("utf-8", "replace")
                .strip()
                .partition(";")[0]
            )
            if not job.isdigit():
                return None
            out = await shell.ask(f"{_CALL} sacct -n -P -X -j {job} -o JobName,State,Reason,Submit,Start,NodeList")
            if out.status == 0 and (jobs := _jobs(out.text)):
                return jobs.get(name)
            shown = await shell.ask(f"{_CALL} scontrol -o show job {job}")
        if shown.status != 0:
            if _AWAY.search(shown.error):
                raise RequestFailed(f"{shell.place}: {shown.error}")
            return None
        fields = dict(re.findall(r"(\w+)=(\S*)", shown.text))
        return _state(*(fields.get(key, "") for key in ("JobState", "Reason", "SubmitTime", "StartTime", "NodeList")))

    async def remove(self, name: str) -> None:
        async with self._login() as shell:
            await remove_folder(shell, self.launcher, name)

    async def result(self, name: str, path: str, most: int) -> bytes | None:
        async with self._login() as shell:
            return await shell.get(f"{launch_folder(self.launcher, name)}/{path}", most)

    async def log(self, name: str, most: int) -> bytes:
        async with self._login() as shell:
            return await shell.do(f"tail -c {most:d} {shlex.quote(launch_folder(self.launcher, name))}/{LOG}", most=most)

    async def results(self, name: str) -> dict[str, int]:
        async with self._login() as shell:
            return await stored_files(shell, launch_folder(self.launcher, name))

    def waited(self, view: View, seconds: float) -> Outcome:
        reason = view.job.reason if view.job else "None"
        failure = class_of_wait(reason, theirs=self.launcher.operated_by == "provider")
        return (
            failure,
            f"the job waited {seconds:.0f} s for {reason}, of at most {self.launcher.schedule_timeout:g} s (launcher.schedule_timeout)",
        )

    def ended(self, word: str, reason: str) -> Outcome:
        failure = ENDED.get(word)
        if failure is None:
            return "interrupted", f"the job ended as {word or 'nothing that Slurm still knows'} without a word of its harness"
        return failure, f"the job ended as {word}{f' ({reason})' if reason not in ('', 'None') else ''}"

    def refused(self, detail: str) -> Outcome:
        return ("quota_exceeded" if re.search(r"QOS|accounting|limit", detail, re.I) else "bad_declaration"), detail

    async def _do(self, shell: Shell, script: str, most: int = 2**20) -> bytes:
        answer = await shell.ask(script, limit_s=90.0, most=most)
        if answer.status == 0 or _GONE.search(answer.error):
            return answer.out
        if answer.status == 124 or _AWAY.search(answer.error):
            raise RequestFailed(f"{shell.place}: {answer.error or 'Slurm does not answer'}")
        raise ApiRefused(0, f"{shell.place}: {answer.error or f'exit status {answer.status}'}")


def _jobs(text: str) -> dict[str, JobState]:
    """The newest job of each name, of lines NAME|STATE|REASON|SUBMITTED|STARTED|NODES."""
    rows = [line.split("|") for line in text.splitlines() if line.count("|") >= 5]
    return {row[0]: _state(*row[1:6]) for row in reversed(rows)}


def _state(word: str, reason: str, submitted: str, started: str, nodes: str) -> JobState:
    # sacct says `CANCELLED by 1000`.
    return JobState(word.split(" ")[0], reason.strip("()"), _time(submitted), _time(started), nodes)


def _time(text: str) -> float | None:
    """Unix seconds; None for Unknown and N/A."""
    return float(text) if re.fullmatch(r"[0-9]{1,12}", text) and int(text) > 0 else None
