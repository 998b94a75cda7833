"""A script's reports as steps of the step log."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from statistics import median
from time import monotonic_ns
from typing import Any, ClassVar

from plumbline.declarations.workloads.script import Report
from plumbline.harness.training.script.reports import Reported
from plumbline.harness.training.script.step_order import StepOrder, StepOutOfOrder
from plumbline.harness.training.worker_protocol import ExitCode, ScriptSpec, StepLog, WorkerError

_USUAL_STEPS = 20
_REMEMBERED = 1000
_CLOCKS_NS = 1_000_000_000
"""How far a moment in a report may be outside of the time since the command started: event files have the wall clock, which is set now and then."""
_MOST_SPREAD = 1_000_000
"""Steps between two uneven reports, which share the time."""
_BURST_REPORTS, _BURST_NS = 5, 500_000_000
"""A program that buffers its output in blocks writes many reports at once, and seconds apart."""


class StepsMisreported(WorkerError):
    """What the command reports is not what is declared."""

    exit_code: ClassVar[ExitCode] = ExitCode.STEPS_MISREPORTED


def check_moments(launched: int, now: int, what: str, *moments: object) -> None:
    """StepsMisreported if a moment of a report (monotonic ns; None: it has none) is before the command started, or has not come yet."""
    for moment in moments:
        if moment is None:
            continue
        expected = "expected time.monotonic_ns() of this machine, as plumbline_report gives it"
        if not isinstance(moment, int) or isinstance(moment, bool):
            raise StepsMisreported(f"the script reported {what} at a moment that is no whole number; {expected}")
        if moment > now + _CLOCKS_NS:
            raise StepsMisreported(f"the script reported {what} {(moment - now) / 1e9:.3g} s after now; {expected}")
        if moment < launched - _CLOCKS_NS:
            raise StepsMisreported(f"the script reported {what} {(launched - moment) / 1e9:.3g} s before its command started; {expected}")


class ReportedSteps:
    """Reports in their order, each with the time that it took.

    Where reports come at uneven steps (`report.uneven`), the steps since the one before share the time.
    Where a report carries its moments, they are the step's, and the time since the report before it is the second source; else it is the
    other way round. Reports that arrive together share the time since the one before; the first ones have no times then, unless each
    carries its own."""

    def __init__(self, spec: ScriptSpec, report: Report, log: StepLog) -> None:
        self._spec, self._report, self._log = spec, report, log
        self.launched_ns = 0
        """When the command was started: no moment in a report is before it."""
        self.first = self.done = spec.base
        """Steps that are done; before the first report those that the run resumes after."""
        self.hold_ns: int | None = None
        self.ended_ns: int | None = None
        self._arrived_ns: int | None = None
        self._waiting: dict[str, Any] | None = None
        self._begun = self._held = False
        self._last: int | None = None
        self.paused = False
        """Whether something that is no step was reported since the last one, or the reader came late to one of both."""
        self._times: deque[int] = deque(maxlen=_USUAL_STEPS)
        self._ends: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED)
        self._order = StepOrder(None if report.uneven else report.every, uneven=report.uneven)
        self._origin = report.first
        self.reports = self.in_bursts = 0
        """Reports in all, and those that came together with many others, long after the ones before."""

    @property
    def repeated(self) -> int:
        """Reports of a step that was reported already."""
        return self._order.repeated

    def add(self, reports: list[Reported], now: int) -> None:
        """Take what arrived at `now`. StepsMisreported for a step out of order, after now, or before the command started."""
        for report in reports:
            check_moments(self.launched_ns, now, f"step {report.step}" if report.step is not None else "a step", report.began, report.ended)
        steps = [numbered for report in reports if (numbered := self._numbered(report))]
        new = [step for numbered in steps for step in numbered]
        if not new:
            return
        before, self._arrived_ns = self._arrived_ns, now
        self.reports += len(steps)
        timed = any(report.ended is not None for report in reports)
        if len(steps) >= _BURST_REPORTS and not timed and (before is None or now - before >= _BURST_NS):
            self.in_bursts += len(steps)
        seconds = [report.seconds for _, report, _ in new]
        shares = [each or 0.0 for each in seconds] if all(seconds) else [1.0] * len(new)
        if before is None:
            self._take_first(new, now, shares if all(seconds) else None)
        else:
            at = before
            for (number, report, counted), share in zip(new, shares, strict=True):
                end = at + round((now - before) * share / sum(shares))
                self._write(number, report, at, end, timed=counted and end > at)
                at = end
        if self.done >= self._spec.until:
            self._flush(None)

    def _take_first(self, new: list[tuple[int, Reported, bool]], now: int, seconds: list[float] | None) -> None:
        """Steps whose beginnings were not seen. `seconds`: of each, as it was reported."""
        if len(new) > 1 and seconds is None and new[0][1].ended is None:
            self._log.event("first_start_guessed", known=False)
        left = 0.0 if seconds is None else sum(seconds) * self._report.every
        for (number, report, _), took in zip(new, seconds or [0.0] * len(new), strict=True):
            left -= took * self._report.every
            timed = len(new) == 1 or seconds is not None or report.ended is not None
            self._write(number, report, None if timed else now, now - round(left * 1e9), timed=timed)

    def done_at(self, ns: int) -> int:
        """Steps that were done at a moment of the latest thousand steps."""
        return next((done for end, done in reversed(self._ends) if end <= ns), self.first)

    def hold(self, now: int) -> bool:
        """Whether the step to be broken off is half done, which the log then says."""
        due = self.hold_ns is not None and now >= self.hold_ns
        if due:
            self.hold_ns = None
            assert self._spec.hold is not None
            self._flush(None)
            self._log.event("holding", step=self._spec.hold.step)
            self._held = True
        return due

    def _numbered(self, report: Reported) -> list[tuple[int, Reported, bool]]:
        """Each step that a report is of by the workload's number, and whether it is known how many of the script's it covers: not of several that
        end with the first report of an epoch. None of a report that repeats another."""
        spread = self._report.uneven and (self._begun or not self._spec.resume)
        before, epochs, number = self.done, self._order.epochs, self._number(report)
        if number is None:
            return []
        if spread and number - before > _MOST_SPREAD:
            raise StepsMisreported(
                f"the script reported step {report.step}, {number - before:,} after the one before; "
                f"expected a report at least every {_MOST_SPREAD:,} steps"
            )
        alike, counted = replace(report, step=None, loss=None), self._report.every == 1 or self._order.epochs == epochs
        return [*((between, alike, True) for between in range(before, number) if spread), (number, report, counted)]

    def _number(self, report: Reported) -> int | None:
        """The workload's number of a step; None for a report that repeats one."""
        declared, after = self._report, f"after step {self._last}" if self._begun else "first"
        number: int | None = self.done
        if report.step is not None:
            try:
                step = self._order.place(report.step)
            except StepOutOfOrder:
                raise StepsMisreported(f"the script reported step {report.step} {after}; expected steps in their order") from None
            if declared.uneven and not self._begun and step is not None:  # which refresh of a bar is the first one differs from run to run
                self._origin = min(declared.first, step)
            number = None if step is None else -((self._origin - step) // declared.every)
        if number is None or (self._begun and number < self.done):
            return None
        if number < 0 or (number > self.done and not declared.uneven and (self._begun or not self._spec.resume)):
            raise StepsMisreported(
                f"the script reported step {report.step} {after}; expected report.first: the number of the first report, and report.every: "
                f"the steps between two (declared: first {declared.first}, every {declared.every})"
            )
        self.first = self.first if self._begun or (declared.uneven and not self._spec.resume) else number
        self._begun, self._last, self.done = True, report.step, number + 1
        return number

    def _write(self, number: int, report: Reported, start: int | None, end: int, *, timed: bool = True) -> None:
        seen_ns, every = (None if start is None else end - start), self._report.every
        other = None if report.seconds is None or seen_ns is None else report.seconds * every
        if report.ended is not None:
            other = None if report.began is None or seen_ns is None or self.paused else seen_ns / 1e9
            start, end = (report.began or self.ended_ns), report.ended
            timed = start is None or start < end
        elif start is None and report.seconds is not None:
            start = end - round(report.seconds * every * 1e9)
        stages = {} if report.data_wait is None else {"data_wait": round(report.data_wait * every * 1e9)}
        work = report.samples if report.tokens is None else report.tokens
        work = None if work is None else work * every
        line = {
            "event": "step",
            "ns": end,
            "start": start,
            "step": number,
            "stages": stages,
            "loss": report.loss,
            "work": work,
            "other_s": other,
            **({} if timed else {"timed": False}),
        }
        self.ended_ns, self.paused = end, False
        self._ends.append((end, number + 1))
        if start is None:
            self._waiting = line
        else:
            if timed:
                self._times.append(end - start)
            self._flush(end - start if timed else None)
            if number < self._spec.until:
                self._log.line(line)
        if self._spec.hold is not None and number >= self._spec.hold.step - 1 and self.hold_ns is None and not self._held:
            self.hold_ns = monotonic_ns() + (round(median(self._times) / 2) if self._times else 0)

    def _flush(self, took: int | None) -> None:
        """Write the first step, whose beginning is not known: as long before its end as the second one takes."""
        if self._waiting is not None:
            line, self._waiting = self._waiting, None
            self._log.event("first_start_guessed", known=False)
            self._log.line({**line, "start": line["ns"] - took} if took else {**line, "start": line["ns"], "timed": False})
