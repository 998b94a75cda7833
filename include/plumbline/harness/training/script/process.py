"""Runs a team's command as one worker of a run: what it reports, and what is seen of it, becomes the step log.

One thread waits for the command's output, its reports and its end; ten times a second it looks at files. After the last step the command
goes on until the harness ends this process, so that no rank loses another one in its last step."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic_ns, time_ns
from typing import ClassVar, TypeVar

import psutil
from pydantic import TypeAdapter

from plumbline.declarations.workloads.script import Report, ReporterReport
from plumbline.formats.reading.lines import json_object
from plumbline.formats.reading.pattern import SlowPattern
from plumbline.harness.child_process import ChildProcess, read_available
from plumbline.harness.interruption import end_descendants
from plumbline.harness.parent_guard import PR_SET_CHILD_SUBREAPER, prctl
from plumbline.harness.process_tree import peak_resident_bytes
from plumbline.harness.training.script.checkpoints import CheckpointWatcher
from plumbline.harness.training.script.output import ScriptOutput
from plumbline.harness.training.script.outside import OutsideWrites
from plumbline.harness.training.script.progress_bar import BarPosition, bar_position
from plumbline.harness.training.script.report_files import report_files
from plumbline.harness.training.script.reports import ImpossibleReport, Reported, reader_of, reported, reported_span
from plumbline.harness.training.script.steps import ReportedSteps, StepsMisreported, check_moments
from plumbline.harness.training.script.variables import command_environment
from plumbline.harness.training.worker_protocol import ExitCode, ScriptSpec, StepLog, WorkerError

T = TypeVar("T")
_LOOK_NS = 100_000_000
_LOOK_SHARE = 200
"""Looking at files takes at most one part in so many of the time."""
_MEMORY_NS = 5_000_000_000
_CHUNKS, _CHUNKS_AT_THE_END = 16, 1024
_GRACE_S = 3.0
_LAST_SAVE_NS = 10_000_000_000
"""How long the checkpoint after the last step may take to begin, and three times as long as the longest one to end."""


class ScriptFailed(WorkerError):
    """The command ended with an exit status of its own."""

    exit_code: ClassVar[ExitCode] = ExitCode.SCRIPT_FAILED


class NotStarted(WorkerError):
    """The command cannot be started."""

    exit_code: ClassVar[ExitCode] = ExitCode.NOT_STARTED


class ScriptProcess:
    """The command of one rank, or of one node where it launches its ranks. `log` gets its steps."""

    def __init__(self, spec: ScriptSpec, log: StepLog) -> None:
        self._spec, self._log = spec, log
        self._report: Report = TypeAdapter[Report](Report).validate_json(json.dumps(spec.report))
        self._folder = Path(spec.folder)
        self._files = report_files(self._report, self._folder)
        self._by_reporter = isinstance(self._report, ReporterReport)
        self._reader = None if self._files is not None or self._by_reporter else reader_of(self._report)
        self._steps = ReportedSteps(spec, self._report, log)
        self._bar: BarPosition | None = None
        self._counted: tuple[int, int | None, int | None] = (0, None, None)
        """How many reports had no number, and where the progress bar was at the first and the last of them, where there was one."""
        self._rank: int | None = None
        self._events = b""
        self._stopped = self._done = False
        self._longest_save_ns = self._last_save = 0
        self._save_reported = False
        self._reached_ns: int | None = None
        self._look_ns = self._memory_ns = self._outside_ns = 0
        self._peak = 0
        self._processes: list[psutil.Process] = []

    def run(self) -> int:
        """Until the command ends or this process is asked to stop; nothing that it started is left. WorkerError for an end that failed."""
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        signal.signal(signal.SIGTERM, self._stop)
        events, writing = os.pipe()
        os.set_blocking(events, False)
        # By path: a launcher of ranks closes what it inherits.
        report, spec = self._spec.events or f"/proc/{os.getpid()}/fd/{writing}", self._spec
        variables = command_environment(
            report, spec.group, launches_ranks=spec.launches_ranks, threads=spec.threads, given=spec.given, home=spec.home
        )
        variables |= spec.environment
        if spec.home:
            Path(spec.home).mkdir(mode=0o700, parents=True, exist_ok=True)
        program, *arguments = self._spec.command
        found = shutil.which(self._folder / program if "/" in program else program, path=variables["PATH"])
        if found is None:
            raise NotStarted(
                f"{program} is no program here; expected one of the image, or of the script's files by a path such as ./train.sh"
            )
        self._output = ScriptOutput(sys.stdout.buffer, variables, spec.wanted)
        os.chdir(self._folder)
        now = monotonic_ns()
        self._saves = (
            CheckpointWatcher(self._folder / self._spec.checkpoint_folder, now, time_ns()) if self._spec.checkpoint_folder else None
        )
        self._outside = OutsideWrites(Path(self._spec.log).parent, variables)
        self._log.event("variables", names=sorted(variables))
        self._log.event("launched")
        self._steps.launched_ns = monotonic_ns()
        with ChildProcess([found, *arguments], variables, output=subprocess.PIPE, guarded=True) as command:
            try:
                self._follow(command, events)
                self._log.event("ended")
            finally:
                command.stop(_GRACE_S)
                left = end_descendants()
                self._output.close()
        if self._stopped or self._done:
            return 0
        if command.returncode < 0:  # as it ended, so does this process, and the harness sees why
            with suppress(OSError):  # SIGKILL has no handler
                signal.signal(-command.returncode, signal.SIG_DFL)
            os.kill(os.getpid(), -command.returncode)
        if command.returncode:
            raise ScriptFailed(f"the command ended with exit code {command.returncode}")
        if self._spec.stepless:
            if self._spec.group is None or self._spec.group.rank == 0:
                self._log.event("done")
            return 0
        raise StepsMisreported(self._ended_early(left))

    def _stop(self, *_: object) -> None:
        self._stopped = True

    def _follow(self, command: ChildProcess, events: int) -> None:
        assert command.stdout is not None
        output = command.stdout.fileno()
        os.set_blocking(output, False)
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            selector.register(events, selectors.EVENT_READ)
            with suppress(AttributeError, OSError):  # no such call in some sandboxes: the next look notices the end
                selector.register(os.pidfd_open(command.pid), selectors.EVENT_READ)
            while not self._stopped:
                ready = {key.fd for key, _ in selector.select(self._patience_s())}
                ended = command.poll() is not None  # before the reads: what it wrote last must not be missed
                chunks = _CHUNKS_AT_THE_END if ended else _CHUNKS
                if (output in ready or ended) and not read_available(output, self._take_output, chunks):
                    with suppress(KeyError):
                        selector.unregister(output)
                if events in ready or ended:
                    read_available(events, self._take_events, chunks)
                if ended:
                    self._take_lines(self._possible(self._output.close))
                self._look(monotonic_ns(), ended=ended)
                if ended:
                    return

    def _patience_s(self) -> float:
        due = [self._look_ns, *([self._steps.hold_ns] if self._steps.hold_ns is not None else [])]
        return max(min(due) - monotonic_ns(), 0) / 1e9

    def _take_output(self, data: bytes) -> None:
        self._take_lines(self._possible(partial(self._output.lines, data)))

    def _take_lines(self, lines: list[str]) -> None:
        found = []
        for line in lines:
            self._bar = bar_position(line, self._bar)
            if self._reader is not None and (report := self._possible(partial(self._reader.read, line))) is not None:
                found.append(self._counting(report))
        if self._reader is not None:
            self._add(found)

    @staticmethod
    def _possible(read: Callable[[], T]) -> T:
        try:
            return read()
        except (ImpossibleReport, SlowPattern) as error:
            raise StepsMisreported(str(error)) from None

    def _counting(self, report: Reported) -> Reported:
        """The report, after one without a number was counted, and where the progress bar is."""
        if report.step is None and not self._done:
            at = None if self._bar is None else self._bar.done
            number, first, _ = self._counted
            self._counted = (number + 1, first if number else at, at)
        return report

    def _take_events(self, data: bytes) -> None:
        *whole, self._events = (self._events + data).split(b"\n")
        events = [json_object(line.decode(errors="replace")) or {} for line in whole]
        ranks = [event.pop("rank", 0) for event in events]
        self._rank = ranks[0] if self._rank is None and ranks else self._rank
        own = [event for event, rank in zip(events, ranks, strict=True) if rank == self._rank]
        # Each line is written at once. Several in one read waited for their reader: when they came was not seen, nor when the next step began.
        late = len(own) > 1
        for event in own:
            self._steps.paused = self._steps.paused or late
            name = event.pop("event", None)
            if name == "step" and self._by_reporter and (report := self._possible(partial(reported, event))) is not None:
                self._add([report])
            elif name == "checkpoint":
                saved = self._possible(partial(reported_span, name, event))
                self._save_reported = True
                check_moments(self._steps.launched_ns, monotonic_ns(), "a checkpoint", saved.began, saved.ended)
                self._saved(saved.began or self._steps.ended_ns or saved.ended, saved.ended, saved.bytes)
            elif name == "loaded":
                loaded = self._possible(partial(reported_span, name, event))
                check_moments(self._steps.launched_ns, monotonic_ns(), "a load", loaded.began, loaded.ended)
                self._log.line({"event": "load_begin", "ns": loaded.began or loaded.ended})
                self._log.line({"event": "load_end", "ns": loaded.ended, "rejected": [], "checksum_s": 0.0})
            elif name == "evaluated":
                self._steps.paused = True
        self._steps.paused = self._steps.paused or late

    def _add(self, reports: Iterable[Reported]) -> None:
        self._steps.add(list(reports), monotonic_ns())
        if self._reached_ns is None and self._steps.done >= self._spec.until:
            self._reached_ns = monotonic_ns()
            self._sample_memory()  # it may end before the next look
            self._finish(self._reached_ns, ended=False)

    def _look(self, now: int, *, ended: bool) -> None:
        if self._steps.hold(now):  # until a pod is deleted it would do the lost step, and save it
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    process.suspend()
        if now < self._look_ns and not ended:
            return
        if self._files is not None:
            self._add(map(self._counting, self._possible(partial(self._files.poll, ended=ended))))
        if self._saves is not None and not self._save_reported and (seen := self._saves.look(now, ended=ended)) is not None:
            self._saved(seen.began_ns, seen.ended_ns, seen.bytes)
        if self._reached_ns is not None:
            self._finish(now, ended=ended)
        after = monotonic_ns()
        self._look_ns = after + max(_LOOK_NS, _LOOK_SHARE * (after - now))
        if after >= self._memory_ns:  # what follows has shares of its own: reports in files are looked for as often
            self._memory_ns = after + _MEMORY_NS
            self._sample_memory()
        if (began := monotonic_ns()) >= self._outside_ns:
            if self._outside.look(self._processes):
                self._log.event("outside", paths=self._outside.paths)
            self._outside_ns = monotonic_ns() + max(_LOOK_NS, _LOOK_SHARE * (monotonic_ns() - began))

    def _saved(self, began_ns: int, ended_ns: int, size: int) -> None:
        """A checkpoint belongs to the multiple of its interval that is nearest to the reported steps: it may come before or after the report."""
        every, save_ns = self._spec.checkpoint_every, max(ended_ns - began_ns, 1)
        step = self._steps.done if not every else max(round(self._steps.done_at(began_ns) / every), 1) * every
        self._last_save, self._longest_save_ns = step, max(self._longest_save_ns, save_ns)
        if step > self._spec.until:
            return
        line = {"event": "checkpoint", "ns": ended_ns, "step": step, "blocking": save_ns, "save_s": save_ns / 1e9, "bytes": size}
        self._log.line({**line, "closing": False, "checksum_s": 0.0, "summing": 0, "reported": self._save_reported})

    def _finish(self, now: int, *, ended: bool) -> None:
        """After the last step, once its checkpoint is complete: `done`."""
        every, until = self._spec.checkpoint_every, self._spec.until
        due = every is not None and until % every == 0 and self._last_save < until and not ended
        if self._done or (due and self._reached_ns is not None and now < self._reached_ns + max(_LAST_SAVE_NS, 3 * self._longest_save_ns)):
            return
        self._done = True
        self._sample_memory()
        if self._spec.device == "cpu" and self._peak:
            self._log.event("memory", peak={"used": self._peak})
        counted, first, last = self._counted
        self._log.event(
            "reports", seen={"all": self._steps.reports, "in_bursts": self._steps.in_bursts, "counted": counted, "bar": (first, last)}
        )
        self._log.event("done")

    def _sample_memory(self) -> None:
        """The kernel keeps each process's peak: few looks are enough."""
        self._processes = psutil.Process().children(recursive=True)
        for process in self._processes:
            self._peak = max(self._peak, peak_resident_bytes(process.pid) or 0)

    def _ended_early(self, left: list[str]) -> str:
        spec, also = self._spec, f"; it left {', '.join(left)} behind, which were ended" if left else ""
        if self._steps.done > self._steps.first:
            done = self._steps.done
            again = f", {self._steps.repeated} reports repeated one of them" if self._steps.repeated else ""
            return (
                f"the command ended after {done} of {spec.until} steps (report.every: {self._report.every}{again}); "
                f"expected it to do them all{also}"
            )
        pattern = getattr(getattr(self._report, "resolved", self._report), "pattern", None)
        expected = f"lines that match {pattern}" if pattern else f"reports in the format {self._report.format}"
        shown = "" if spec.private or self._by_reporter else f". The last lines of its output:\n{self._output.last_lines()}"
        return f"the command ended without reporting a step{also}; expected {expected}{shown}"
