"""One phase of load: driven, then turned into rows, judgements and telemetry."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from plumbline.declarations.phases import LoadPhase
from plumbline.harness.inference import client, floor, judging, network, prefix_cache, replicas
from plumbline.harness.inference.arrivals import PhaseLoad
from plumbline.harness.inference.client import Settings
from plumbline.harness.inference.metrics import metrics_of
from plumbline.harness.inference.prompts import Prompt
from plumbline.harness.inference.record import Record
from plumbline.harness.inference.requestlog import RequestLog
from plumbline.harness.inference.serving import Served, told
from plumbline.harness.inference.stages import stages_of
from plumbline.harness.measurement import TrialFailed

_LIMIT_S = 3600.0


@dataclass(frozen=True)
class Driver:
    """Sends load to one server and reports how far it is. `settings`: of the client in every phase."""

    record: Record
    served: Served
    settings: Settings

    def drive(
        self,
        load: PhaseLoad,
        prompts: Sequence[Prompt],
        *,
        sample: Callable[[], None] = lambda: None,
        stop: Callable[[RequestLog], bool] | None = None,
        running: Callable[[], bool] | None = None,
        settings: Settings | None = None,
        note: str = "",
        declared: bool = True,
    ) -> RequestLog:
        """One load's log. `declared` False: it only prepares for what is, and does not count as progress. Never raises for what the server
        does."""
        bodies = [self.served.body(i, prompt, int(n)) for i, (prompt, n) in enumerate(zip(prompts, load.output_tokens, strict=True))]
        began = time.monotonic()

        def tick(ended: int, due: int) -> None:
            sample()
            into_s = min(time.monotonic() - began, load.duration_s) if declared else 0.0
            self.record.report(load.name, into_s, f"{note}{ended} of {due} requests")

        log = client.drive(
            load,
            bodies,
            self.served.target(running),
            timeout_s=self.record.workload.request_timeout,
            tick=tick,
            stop=stop,
            settings=settings or self.settings,
        )
        self.served.answered(log.finished)
        return log

    def drive_each(self, phase: LoadPhase, prompts: Sequence[Prompt], output_tokens: int, *, note: str) -> RequestLog:
        """The log of these prompts, sent to each server, each when the one before it has been answered; it prepares for what is declared."""
        load = in_turn(phase, prompts, output_tokens, self.served.replicas)
        return self.drive(load, [prompt for _ in range(self.served.replicas) for prompt in prompts], note=note, declared=False)


def in_turn(phase: LoadPhase, prompts: Sequence[Prompt], output_tokens: int, chains: int = 1) -> PhaseLoad:
    """A load of these prompts, each sent when the one before it has been answered; `chains` times, side by side."""
    n = len(prompts)
    lengths = np.tile(np.array([len(prompt.ids) for prompt in prompts], np.int32), chains)
    after = np.arange(-1, n * chains - 1, dtype=np.int32)
    after[::n] = -1
    return PhaseLoad(phase, _LIMIT_S, np.zeros(n * chains), lengths, np.full(n * chains, output_tokens, np.int32), after, closed=True)


def measure_phase(driver: Driver, load: PhaseLoad, prompts: Sequence[Prompt]) -> None:
    """Drive one phase of the schedule and take down what it shows.

    Raises TrialFailed("server_error") if the server is not there before or after it, or answers nothing in warm-up or steady state.
    """
    record, served = driver.record, driver.served
    require_running(served, f"before {load.name}")
    trips = [network.measure_round_trip(served.way())]
    before = served.view()
    record.event(f"{load.name}_started")
    with served.beside(load.name) as beside, record.watch.phase(load.name):
        log = driver.drive(load, prompts, sample=beside.sample)
    record.event(f"{load.name}_ended")
    record.logs.append(log)
    require_running(served, told(log))
    after = served.view()
    trips.append(network.measure_round_trip(served.way()))
    gained = after - before if after and before else None
    record.result.metrics += [
        *metrics_of(log, record.workload.slo, gained),
        *floor.floor_rows(record.workload, log, record.probed),
        *network.round_trip_rows(load.name, trips),
        *served.rows(log),
        *beside.rows(log),
    ]
    record.result.stages += stages_of(log, gained)
    record.result.telemetry += [*beside.telemetry(), *replicas.telemetry(log, served.replicas)]
    found = []
    if load.name != "warmup":
        found.append(prefix_cache.contradicted(record.workload, log, gained))
    if load.name == "steady":
        found += [judging.client_limited(log, record.trial.validity), judging.counts_differ(log, gained)]
    record.result.judgements += [judgement for judgement in found if judgement is not None]
    # Overload may drown a server, and that is a result; one that answers nothing at its steady load was not measured at all.
    if load.name in ("warmup", "steady") and (not log.finished or replicas.silent(log, served.replicas)):
        raise TrialFailed(*served.failure(log))
    record.done_s += load.duration_s


def require_running(served: Served, when: str) -> None:
    """TrialFailed("server_error") if the server has ended."""
    if not served.running():
        raise TrialFailed("server_error", f"{when}: {served.state()}")
