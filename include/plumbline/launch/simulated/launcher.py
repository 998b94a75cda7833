"""The simulated launcher: no process, but the same files in the same store, so that everything after it is what it is for real trials."""

from __future__ import annotations

from plumbline.declarations import Trial
from plumbline.harness.progress import ProgressLine
from plumbline.launch.base import OnProgress
from plumbline.launch.simulated.documents import Clock, lead_s, simulate
from plumbline.launch.simulated.hardware import UnknownHardware
from plumbline.launch.simulated.model import Draw
from plumbline.launch.stores import next_attempt
from plumbline.results import Event, FailureClass, LaunchRecord, ResultDocument, ResultStore

_NEVER_STARTED = ("quota_exceeded", "insufficient_capacity", "image_error", "launch_timeout")


class SimulatedLauncher:
    """Writes what a trial would have left."""

    def launch(self, trial: Trial, store: ResultStore, on_progress: OnProgress | None = None) -> LaunchRecord:
        """See Launcher.launch. OSError if the store cannot be written. ValueError for a trial whose provider is not simulated."""
        trial = next_attempt(trial, store)
        draw = Draw(trial)
        store.put_trial(trial)
        failure, detail, document = self._outcome(trial, draw, store)
        record = LaunchRecord(
            launcher="simulated",
            events=_events(trial, draw, failure, document),
            exit_code=None if failure in _NEVER_STARTED else 3 if failure else 0,
            failure_class=failure,
            failure_detail=detail,
            node={"host.name": draw.node_name(draw.node), "simulated": True},
        )
        store.put_launch(trial, record)
        if on_progress is not None:
            on_progress(ProgressLine(trial.trial_id, "finished", 1.0, "simulated"))
        return record

    def _outcome(self, trial: Trial, draw: Draw, store: ResultStore) -> tuple[FailureClass | None, str | None, ResultDocument | None]:
        failure = draw.ends_as()
        if failure is not None:
            return failure, f"simulated: attempt {trial.attempt} ended as {failure}", None  # type: ignore[return-value]
        try:
            document = simulate(trial)
        except UnknownHardware as error:
            return "bad_declaration", str(error), None
        store.put_document(document)
        return None, None, document


def _events(trial: Trial, draw: Draw, failure: str | None, document: ResultDocument | None) -> tuple[Event, ...]:
    """What the launcher saw. One second passes from the harness's last sign of life to its end."""
    clock = Clock(trial.planned_at)
    requested = clock.event("requested", 0.0, "launcher")
    if failure in (*_NEVER_STARTED, "bad_declaration"):
        return requested, clock.event("finished", 1.0, "launcher")
    ready = lead_s(draw)
    last = max((e.monotonic_s or ready for e in document.timeline), default=ready) if document is not None else ready
    return requested, clock.event("harness_ready", ready, "launcher"), clock.event("finished", last + 1.0, "launcher")
