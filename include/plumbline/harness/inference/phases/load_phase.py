"""Drive one phase of load, record its metrics and the lengths that came; prepare the prefix cache before it and wait for the queue to drain after it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from plumbline.declarations.workloads.load import Requests, SearchPhaseSpec
from plumbline.harness.inference.analysis import roofline, validity
from plumbline.harness.inference.analysis.metrics import metrics_of, round_trip_rows, stages_of, within_slo
from plumbline.harness.inference.load import own_prompts
from plumbline.harness.inference.load.prompts import Prompts
from plumbline.harness.inference.phases.trial_record import CapacityLoad, TrialRecord
from plumbline.harness.inference.server import under_test
from plumbline.harness.inference.server.under_test import ManagedServers, ServerUnderTest, format_outcome
from plumbline.harness.measurement import TrialFailed, present, telemetry_row
from plumbline.loadclient import round_trip
from plumbline.loadclient.load_generator import drive
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.prompt import Prompt
from plumbline.loadclient.request_log import USAGE, RequestLog
from plumbline.loadclient.transport import Settings
from plumbline.metrics import LENGTH_DEPENDENT, NATURAL_LENGTHS, LoadPhase
from plumbline.results import MetricRow, Telemetry

_LIMIT_S = 3600.0


@dataclass(frozen=True)
class Driver:
    """Sends load to one server and reports progress. `settings`: of the client in every phase."""

    record: TrialRecord
    served: ServerUnderTest
    settings: Settings

    def drive(
        self,
        load: PhaseLoad,
        prompts: Sequence[Prompt],
        *,
        sample: Callable[[], None] = lambda: None,
        stop: Callable[[RequestLog], bool] | None = None,
        running: Callable[[], bool] | None = None,
        note: str = "",
        declared: bool = True,
    ) -> RequestLog:
        """One load's log. `declared` False: a preparation, which is no progress. Never raises for the server's behaviour."""
        bodies = [self.served.body(i, prompt, int(n)) for i, (prompt, n) in enumerate(zip(prompts, load.output_tokens, strict=True))]
        began = time.monotonic()

        def tick(ended: int, due: int) -> None:
            sample()
            into_s = min(time.monotonic() - began, load.duration_s) if declared else 0.0
            self.record.report(load.name, into_s, f"{note}{ended} of {due} requests")

        log = drive(
            load,
            bodies,
            self.served.target(running),
            timeout_s=self.record.workload.request_timeout,
            tick=tick,
            stop=stop,
            settings=self.settings,
        )
        self.served.answered(log.finished)
        if self.record.workload.server.backend == "external":
            self.record.usage.add(load.name if declared else "cold_start", log)
        requests = self.record.workload.requests
        if requests.prompts is not None:
            if not load.input_tokens.all():
                counted = np.maximum(log.usage[:, USAGE.index("prompt_tokens")], 0)
                log.load = replace(load, input_tokens=np.where(load.input_tokens > 0, load.input_tokens, counted).astype(np.int32))
            if requests.prompts.private:
                log.details = {number: own_prompts.safe_detail(detail) for number, detail in log.details.items()}
        return log

    def drive_each(self, phase: LoadPhase, prompts: Sequence[Prompt], output_tokens: int, *, note: str) -> RequestLog:
        """The log of these prompts, sent one after the other to each server, as preparation."""
        load = sequential_load(phase, prompts, output_tokens, self.served.replicas)
        return self.drive(load, [prompt for _ in range(self.served.replicas) for prompt in prompts], note=note, declared=False)


def sequential_load(phase: LoadPhase, prompts: Sequence[Prompt], output_tokens: int, chains: int = 1) -> PhaseLoad:
    """A load of these prompts, each sent after the previous answer; `chains` times in parallel."""
    n = len(prompts)
    lengths = np.tile(np.array([len(prompt.ids) for prompt in prompts], np.int32), chains)
    after = np.arange(-1, n * chains - 1, dtype=np.int32)
    after[::n] = -1
    return PhaseLoad(phase, _LIMIT_S, np.zeros(n * chains), lengths, np.full(n * chains, output_tokens, np.int32), after, closed=True)


def measure_phase(driver: Driver, load: PhaseLoad, prompts: Sequence[Prompt]) -> None:
    """Drive and record one phase of the schedule.

    Raises TrialFailed("server_error") if the server is gone before or after it, or answers nothing in warm-up or steady state."""
    record, served = driver.record, driver.served
    require_running(served, f"before {load.name}")
    trips = [round_trip.measure_round_trip(served.target())]
    before = served.view()
    record.event(f"{load.name}_started")
    with served.beside(load.name) as sampler, record.watch.phase(load.name) as watched:
        log = driver.drive(load, prompts, sample=sampler.sample)
    record.event(f"{load.name}_ended")
    record.logs.append(log)
    if (
        load.closed
        and load.name == "steady"
        and log.finished
        and not any(isinstance(phase, SearchPhaseSpec) for phase in record.workload.phases)
    ):
        record.capacity = CapacityLoad(log.finished / log.elapsed_s, None, 1, log, prompts, [watched])
    require_running(served, format_outcome(log))
    after = served.view()
    trips.append(round_trip.measure_round_trip(served.target()))
    gained = after - before if after and before else None
    record.result.metrics += [
        *noted_lengths(metrics_of(log, record.workload.slo, gained), record.workload.requests),
        *roofline.roofline_rows(record.workload, log, record.probed),
        *round_trip_rows(load.name, trips),
        *served.rows(log),
        *sampler.rows(log),
    ]
    record.result.stages += stages_of(log, gained)
    record.result.telemetry += [
        *sampler.telemetry(),
        *length_telemetry(log, record.workload.requests),
        *under_test.replica_telemetry(log, served.replicas),
    ]
    rows = []
    if load.name != "warmup":
        rows.append(validity.cache_state_contradicted(record.workload, log, gained))
    if load.name == "steady":
        rows += [validity.client_limited(log, record.trial.validity), validity.counts_differ(log, gained), *served.judgements(log)]
    record.result.judgements += present(*rows)
    # Overload may drown a server, and that is a result; one that answers nothing at its steady load was not measured at all.
    if load.name in ("warmup", "steady") and (not log.finished or under_test.silent_replicas(log, served.replicas)):
        raise TrialFailed(*served.failure(log))
    record.done_s += load.duration_s


def require_running(served: ServerUnderTest, when: str) -> None:
    """TrialFailed("server_error") if the server has ended."""
    if not served.running():
        raise TrialFailed("server_error", f"{when}: {served.state()}")


_SETTLE_LIMIT_S = 60.0


def prepare_cache(driver: Driver, phase: LoadPhase, prompts: Prompts) -> None:
    """Bring the prefix cache into its declared state.

    Raises TrialFailed("server_error") if the requests for that are not answered, and as `Triton.reload` does.
    """
    state = driver.record.workload.server.prefix_cache
    if state == "cold":
        served = driver.served
        assert isinstance(served, ManagedServers), "only a managed server's cache can be emptied"
        served.reload()
        # A model that was just loaded is slow at its first inference, which is no matter of the cache: a prompt without shared prefix takes that.
        _fill_cache(driver, phase, [prompts.cold_start])
    elif state == "primed":
        _fill_cache(driver, phase, prompts.prefixes)


def wait_until_settled(driver: Driver, phase: LoadPhase, prompt: Prompt) -> None:
    """Wait until the overloaded server answers a single request within the SLO.

    Raises TrialFailed("server_error") if that takes more than a minute."""
    slo, deadline = driver.record.workload.slo, time.monotonic() + _SETTLE_LIMIT_S
    while True:
        log = driver.drive_each(phase, [prompt], 1, note="settling: ")
        if within_slo(log, slo).all():
            return
        if time.monotonic() > deadline:
            raise TrialFailed("server_error", f"{_SETTLE_LIMIT_S:g}s after its load ended: {format_outcome(log)}; {driver.served.state()}")


def _fill_cache(driver: Driver, phase: LoadPhase, prompts: Sequence[Prompt]) -> None:
    log = driver.drive_each(phase, prompts, 1, note="filling the cache: ")
    if log.finished < log.n:
        raise TrialFailed("server_error", f"before {phase}, for the prefix cache: {format_outcome(log)}; {driver.served.state()}")


def length_telemetry(log: RequestLog, requests: Requests) -> list[Telemetry]:
    """`input_tokens` and `output_tokens` of the finished requests. Empty for drawn prompts with forced answers, whose lengths are declared;
    without input tokens if the server did not count them all."""
    if (requests.prompts is None and requests.output == "forced") or not log.finished:
        return []
    rows = []
    for signal, values in (("input_tokens", log.load.input_tokens[log.ok]), ("output_tokens", log.written[log.ok])):
        if not values.all():
            continue
        p50, p95 = np.quantile(values, (0.5, 0.95), method="inverted_cdf")  # a length that a request had
        rows.append(telemetry_row(log.load.name, signal, "tokens", values, float(p50), float(p95)))
    return rows


def noted_lengths(rows: list[MetricRow], requests: Requests) -> list[MetricRow]:
    """The rows, those that depend on the answers' lengths marked where the model ended its answers itself."""
    if requests.output == "forced":
        return rows
    return [row.model_copy(update={"method": NATURAL_LENGTHS}) if row.metric in LENGTH_DEPENDENT else row for row in rows]
