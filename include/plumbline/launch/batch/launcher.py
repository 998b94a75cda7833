"""Launchers of jobs: Slurm's, and those of machines by SSH. The same steps; `JobPlace` is what differs."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from plumbline.declarations import Declarations, Provider, load_upkeep
from plumbline.declarations.providers.batch import BatchLauncher, SlurmLauncher, SshLauncher
from plumbline.harness.launcher_protocol import ProgressLine, parse_progress
from plumbline.launch import progress, stores
from plumbline.launch.batch import polling
from plumbline.launch.batch.attempt import BatchAttempt, insist, place_of
from plumbline.launch.batch.doctor import check_place
from plumbline.launch.batch.harness_copy import harness_copy
from plumbline.launch.batch.job import KEY, STORE, TRIAL, BatchJob
from plumbline.launch.batch.look import PIECE_BYTES, Seen
from plumbline.launch.batch.place import JobPlace, View
from plumbline.launch.batch.slurm import ENDED, waits_in_vain
from plumbline.launch.doctor_check import DoctorCheck
from plumbline.launch.failures import (
    ApiRefused,
    Interrupted,
    Outcome,
    ProcessEnd,
    RequestFailed,
    TrialFailure,
    Unreachable,
    trial_outcome,
)
from plumbline.launch.leftovers import Leftovers
from plumbline.launch.remote import Poll, RemoteLauncher, RequestFailures, Stop, Ticket, tolerate
from plumbline.results import LaunchRecord, ResultStore, log_transport

_GONE_S = 120.0
"""Seconds for a job to end after it was cancelled: Slurm's KillWait, and the guard's grace time."""
_LOG_BYTES = 8 * 2**20
_TAIL = 4096
_NOTHING = Seen(False)
_DECLARED: TypeAdapter[SlurmLauncher | SshLauncher] = TypeAdapter(SlurmLauncher | SshLauncher)


class BatchJobs(RemoteLauncher[BatchAttempt]):
    """A trial is a job."""

    def doctor(
        self, declared: Declarations, provider: Provider, now: datetime, *, start: bool = True, accelerators: bool = True
    ) -> Iterator[DoctorCheck]:
        yield from check_place(declared, provider, _place(provider))

    def announce(self, spec: Mapping[str, str]) -> BatchAttempt:
        return BatchAttempt.next(spec)

    def attempt_at(self, home: ResultStore, folder: str) -> BatchAttempt:
        return BatchAttempt.at(home, folder)

    def submit(self, attempt: BatchAttempt) -> None:
        files = {TRIAL: attempt.trial.model_dump_json(indent=1).encode()}
        if attempt.key is not None:
            files[KEY] = attempt.key.private_hex.encode()
        job, place = BatchJob(attempt.trial, attempt.name, harness_copy()), attempt.place
        insist(lambda: place.submit(job, files, attempt.expires), place)

    def ticket(self, attempt: BatchAttempt) -> Ticket:
        return {
            "launch": attempt.name,
            "trial_id": attempt.trial.trial_id,
            "launcher": attempt.launcher.model_dump_json(),
            "requested": attempt.requested_at.timestamp(),
        }

    async def poll(self, ticket: Ticket, log: Any) -> AsyncGenerator[Poll, None]:
        launcher = _DECLARED.validate_json(ticket["launcher"])
        place, name = place_of(launcher), str(ticket["launch"])
        failures = RequestFailures(launcher.unreachable_timeout, place.word)
        offset, rest = 0, b""
        known: dict[str, Any] = {}
        since = max(float(ticket["requested"]), time.time() - launcher.schedule_timeout)
        while True:
            try:
                view = await polling.look(launcher, name, offset)
            except (RequestFailed, ApiRefused) as problem:
                failed = problem if isinstance(problem, RequestFailed) else RequestFailed(str(problem))
                if (stop := failures.failed(failed, time.time())) is not None:
                    yield Poll("stopped", {**known, "stop": [stop.reason, stop.detail]})
                    return
                if failures.is_new():
                    log.warning("%s", problem)
                yield Poll(pause_s=failures.wait_s(failed))
                continue
            if (outage := failures.answered(time.time())) is not None:
                log.info("%s answers again after %.0f s", place.word, outage)
            offset += len(view.seen.log)
            *lines, rest = (rest + view.seen.log).split(b"\n")
            _tell(lines, str(ticket["trial_id"]), log)
            rest = rest[-65536:]
            known |= _facts(view)
            if over(view):
                if len(view.seen.log) and view.seen.there:  # the log may go on
                    yield Poll()
                    continue
                yield Poll("finished", known)
                return
            if (late := _late(place, view, since, time.time())) is not None:
                yield Poll("stopped", {**known, "late": list(late)})
                return
            yield Poll(pause_s=0.0 if len(view.seen.log) >= PIECE_BYTES else polling.until_next(launcher.poll))

    def collect(self, attempt: BatchAttempt, seen: Mapping[str, Any] | None = None, stop: Stop | None = None) -> LaunchRecord:
        known: dict[str, Any] = dict(seen or {})
        try:
            return self._collect(attempt, known, stop)
        except Interrupted:  # Airflow ends the task; the next try records the attempt
            raise
        except (ApiRefused, TrialFailure, RequestFailed) as problem:
            # The preliminary record's class says that its end is unknown; `settle` tries again.
            if stop is not None and stop.reason == "refused":
                return attempt.record(*attempt.place.refused(stop.detail), seen=known, ended_at=datetime.now(timezone.utc))
            return attempt.record("unreachable", f"{attempt.place.word} did not say how the job ended: {problem}", seen=known)
        finally:
            progress.remove_progress(attempt.trial.trial_id)

    def _collect(self, attempt: BatchAttempt, known: dict[str, Any], stop: Stop | None) -> LaunchRecord:
        place, name = attempt.place, attempt.name
        view = _end(place, name)
        ended_at = datetime.now(timezone.utc)
        known |= _facts(view)
        if not known.get("end") and (last := insist(lambda: place.ended_as(name), place)) is not None:
            known |= _facts(View(view.seen, last))
        log = b""
        if view.seen.there:
            log = self._fetch(attempt, place)
        tail = _tail(log)
        failure, detail, code = self._outcome(attempt, place, known, stop, tail)
        record = attempt.record(failure, detail, exit_code=code, seen=known, log_tail=tail, ended_at=ended_at)
        tolerate(f"delete the files of {name}", lambda: insist(lambda: place.remove(name), place), None)
        return record

    def _outcome(
        self, attempt: BatchAttempt, place: JobPlace[Any], known: Mapping[str, Any], stop: Stop | None, tail: str
    ) -> tuple[Any, str | None, int | None]:
        end, state = str(known.get("end") or ""), str(known.get("state") or "")
        code = int(end[5:]) if end.startswith("exit ") and end[5:].lstrip("-").isdigit() else None
        if code is not None and code > 128:
            code = 128 - code
        outcome: Outcome
        if stop is not None and stop.reason == "refused":
            outcome = place.refused(stop.detail)
        elif code in (0, 3) and (state not in ENDED or attempt.validity() is not None):
            outcome = trial_outcome(ProcessEnd(code, None, ""), attempt.home, attempt.folder, tail)
        elif known.get("late"):
            outcome = (known["late"][0], known["late"][1])
        elif stop is not None:
            outcome = ("unreachable" if stop.reason != "killed" else "interrupted"), stop.detail
        elif known.get("stop"):
            outcome = "unreachable", str(known["stop"][1])
        elif end == "timeout":
            outcome = "timeout", f"exceeded launcher.timeout, {attempt.launcher.timeout:g} s"
        elif end == "busy":
            outcome = place.waited(View(_NOTHING), attempt.launcher.schedule_timeout)
        elif end == "stopped":
            outcome = "interrupted", "its guard on the machine was asked to end it"
        elif state in ENDED:
            outcome = place.ended(state, str(known.get("reason") or ""))
        elif code is not None:
            outcome = trial_outcome(ProcessEnd(code, None, ""), attempt.home, attempt.folder, tail)
        else:
            outcome = place.ended(state, str(known.get("reason") or ""))
        return outcome[0], outcome[1], code

    def _fetch(self, attempt: BatchAttempt, place: JobPlace[Any]) -> bytes:
        """Copy the job's result and log home; its log."""
        name, rules = attempt.name, load_upkeep().evidence
        log: bytes = insist(lambda: place.log(name, _LOG_BYTES), place)
        if log:
            attempt.home.put(f"{attempt.folder}/launch.log", log)
        files: dict[str, int] = insist(lambda: place.results(name), place)
        below = f"{attempt.trial.campaign_id}/"
        wanted = {
            path: size
            for path, size in files.items()
            if path.startswith(below) and path.startswith(attempt.folder) and size <= rules.most_bytes
        }
        if (
            f"{attempt.folder}/result.json" not in wanted
            or len(wanted) > rules.most_files + 2
            or sum(wanted.values()) > 2 * rules.most_bytes
        ):
            with contextlib.suppress(log_transport.InvalidBlock):
                stores.store_from_log(attempt.trial, log, attempt.home)
            return log
        with tempfile.TemporaryDirectory(prefix="plumbline-job-") as folder:
            away = ResultStore(Path(folder).as_uri())
            for path, size in wanted.items():
                data = insist(lambda path=path, size=size: place.result(name, f"{STORE}/{path}", size), place)
                if data is not None:
                    away.put(path, data)
            stores.fetch_attempt(attempt.trial, away, attempt.home)
        return log

    def cancel(self, ticket: Ticket, *, patience_s: float, timeout_s: float) -> None:
        place = place_of(_DECLARED.validate_json(ticket["launcher"]))
        until = time.monotonic() + patience_s
        while True:
            try:
                asyncio.run(asyncio.wait_for(place.cancel([str(ticket["launch"])]), timeout_s + patience_s))
                return
            except (RequestFailed, asyncio.TimeoutError) as problem:
                if time.monotonic() > until:
                    raise problem if isinstance(problem, RequestFailed) else RequestFailed(f"{place.word} did not answer") from problem
                time.sleep(0.5)

    def sweep(self, provider: Provider, campaign_id: str | None = None) -> list[str]:
        place = _place(provider)
        due = [
            each
            for each in insist(place.ours, place)
            if (each.expires < time.time() if campaign_id is None else each.campaign == campaign_id)
        ]
        for each in due:
            if each.lives:
                insist(lambda name=each.name: place.cancel([name]), place)
            elif each.expires < time.time() - _GONE_S:
                insist(lambda name=each.name: place.remove(name), place)
        return [f"job {each.name}" for each in due if each.lives]

    def leftovers(self, provider: Provider) -> Leftovers:
        place, now = _place(provider), datetime.now(timezone.utc)
        living = [each for each in insist(place.ours, place) if each.lives]
        of = {campaign: sum(each.campaign == campaign for each in living) for campaign in {each.campaign for each in living}}
        return Leftovers(of, sum(each.expires < now.timestamp() for each in living), now.isoformat(), "job")


class SlurmJobs(BatchJobs):
    """Jobs of a Slurm cluster."""

    place = "Slurm"


class SshMachines(BatchJobs):
    """Guarded commands of machines."""

    place = "the machine"


def over(view: View) -> bool:
    """Whether the job has ended."""
    if view.seen.end is not None:
        return view.job is None or view.job.word not in ("PENDING", "CONFIGURING")
    return not view.seen.there or view.job is None or view.job.word in ("COMPLETED", "FAILED") or view.job.word in ENDED


def _place(provider: Provider) -> JobPlace[Any]:
    launcher = provider.launcher
    assert isinstance(launcher, BatchLauncher)
    return place_of(launcher)


def _late(place: JobPlace[Any], view: View, since: float, now: float) -> Outcome | None:
    """Why a job is given up that has no node yet, or whose harness does not start."""
    if view.seen.began is not None or view.job is None:
        return None
    if view.job.word == "PENDING" and (waits_in_vain(view.job.reason) or now - since > place.launcher.schedule_timeout):
        return place.waited(view, now - since)
    started = view.job.started
    if view.job.word in ("RUNNING", "CONFIGURING") and started is not None and now - started > place.launcher.startup_timeout:
        return "launch_timeout", f"the node did not start the job within {place.launcher.startup_timeout:g} s (launcher.startup_timeout)"
    return None


def _end(place: JobPlace[Any], name: str) -> View:
    """Cancel what lives, wait until it is gone, and look once more."""
    until = time.monotonic() + _GONE_S
    while insist(lambda: place.lives(name), place):
        insist(lambda: place.cancel([name]), place)
        if time.monotonic() > until:
            raise Unreachable(f"{name} still runs {_GONE_S:g} s after it was cancelled")
        time.sleep(1.0)
    return insist(lambda: place.look({name: 0}), place)[name]  # type: ignore[no-any-return]


def _facts(view: View) -> dict[str, Any]:
    # A queue's own times replace those of the launch's folder, which are of the same clock.
    found: dict[str, Any] = {"began": view.seen.began, "end": view.seen.end, "submitted": view.seen.requested, "started": view.seen.began}
    if view.job is not None:
        found |= {"state": view.job.word, "reason": view.job.reason, "nodes": view.job.nodes}
        found["submitted"] = view.job.submitted or found["submitted"]
        found["started"] = view.job.started or found["started"] if view.job.word != "PENDING" else None
    return {key: value for key, value in found.items() if value not in (None, "")}


def _tell(lines: list[bytes], trial_id: str, log: Any) -> None:
    newest: ProgressLine | None = None
    for raw in lines:
        text = raw.decode("utf-8", "replace")
        if log_transport.is_block_line(text):
            continue
        if (line := parse_progress(text)) is None:
            log.info("%s", text[:2000])
        elif line.trial_id == trial_id:
            newest = line
    if newest is not None:
        progress.write_progress(newest)
        log.info("%s %.0f %% %s", newest.phase, 100 * newest.fraction, newest.note)


def _tail(log: bytes) -> str:
    lines = [
        line
        for line in log.decode("utf-8", "replace").splitlines()
        if parse_progress(line) is None and not log_transport.is_block_line(line)
    ]
    return "\n".join(lines)[-_TAIL:]
