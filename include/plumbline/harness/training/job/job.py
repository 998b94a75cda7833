"""One run of a trial over all its ranks, as node 0 sees it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from plumbline.harness.gang.channel import free_port, gloo_environment, serve_rendezvous_store
from plumbline.harness.gang.topology import Address, Topology
from plumbline.harness.measurement import TrialFailed
from plumbline.harness.training.analysis import records
from plumbline.harness.training.checkpoint.folder import checkpoint_name
from plumbline.harness.training.job.coordinator import CauseResolver, Coordinator, FailureCause
from plumbline.harness.training.job.supervisor import (
    KILL_TIMEOUT_S,
    RankProcess,
    RunAborted,
    failure_causes,
    finished,
    rank_processes,
    started,
    wait_for_any,
)
from plumbline.harness.training.plan import CoreShare, FaultPlan
from plumbline.harness.training.worker_protocol import LogLine, RunName, RunRecord, RunSpec, ScriptSpec

_LOOPBACK = "127.0.0.1"
_POLL_S = 0.1
_POLL_BEFORE_KILL_S = 0.002
_PEERS_S = 3.0
"""How long ranks of a script may take to report their last step after the first one did."""


@dataclass(frozen=True)
class JobContext:
    """Common to the runs of a trial. `store`: where several ranks find each other; `coordinator`: the other nodes, if any."""

    folder: Path
    topology: Topology
    shares: tuple[CoreShare, ...]
    store: Address | None = None
    coordinator: Coordinator | None = None
    variables: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def rendezvous(context: JobContext) -> Iterator[JobContext]:
    """The context with a store for its ranks while the block runs; unchanged for a single rank."""
    if context.topology.world == 1:
        yield context
        return
    host = context.topology.rendezvous.host if context.topology.rendezvous else _LOOPBACK
    address = context.coordinator.interface_address if context.coordinator else None
    store, port = serve_rendezvous_store(host)
    try:
        yield replace(context, store=Address(_LOOPBACK, port), variables=gloo_environment(address or _LOOPBACK))
    finally:
        del store  # and with it ends its server


def isolate_fault_checkpoint(folder: Path, fault: FaultPlan) -> None:
    """Move the checkpoint before the faulted stretch to the stretch's own folder, once. A node without checkpoints has none."""
    pinned, apart = folder / "checkpoints" / checkpoint_name(fault.resume_from), folder / "fault-checkpoints"
    if pinned.is_dir():
        apart.mkdir(exist_ok=True)
        pinned.rename(apart / pinned.name)


class Job:
    """All ranks of one run, as a context that ends this node's ranks; other nodes end theirs on the announced outcome."""

    def __init__(self, name: RunName, spec: RunSpec, context: JobContext) -> None:
        self.name, self.spec = name, spec
        self._coordinator, self._store = context.coordinator, context.store
        if self._store is not None and isinstance(spec, ScriptSpec):  # rank 0 of a script serves the store of its run itself
            self._store = Address(self._store.host, free_port())
        self._workers = rank_processes(name, spec, context.folder, context.topology, context.shares, self._store, context.variables)
        self._stack = ExitStack()
        self._explanation = CauseResolver()
        self._broken_since_s: float | None = None
        self._first_done_s: float | None = None

    def __enter__(self) -> Job:
        with ExitStack() as stack:
            if self._coordinator is not None and self._store is not None:
                self._coordinator.start(self.name, self._store, resume=self.spec.resume)
            stack.enter_context(started(self._workers))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        by_rank = self._records_by_rank()
        if isinstance(self.spec, ScriptSpec):
            records.adopt_script(self.record, by_rank)
        if len(self._workers) > 1 or self._coordinator is not None:
            self.record.peak_memory = records.max_over_ranks([record.peak_memory for record in by_rank.values()])
            self.record.by_rank = {rank: record.steps for rank, record in by_rank.items()}
            self.record.steps = records.merge_ranks(self.record.by_rank)

    @property
    def record(self) -> RunRecord:
        """Rank 0's record so far; after the block its steps are those of the whole job."""
        return self._workers[0].record

    @property
    def workers(self) -> tuple[RankProcess, ...]:
        return self._workers

    def lines(self, meanwhile: Callable[[], None]) -> Iterator[LogLine | None]:
        """Rank 0's log lines as they come, any rank's line that it holds, and None whenever nothing is new.

        Ends when all ranks have ended well. Else all are ended: RunAborted for a passing cause, TrialFailed for a lasting one or a lost node.
        `meanwhile` is called while other nodes end theirs."""
        interval = _POLL_BEFORE_KILL_S if self.spec.hold is not None else _POLL_S
        while True:
            self._wait(interval)
            ended = self._all_ended()  # before the lines are read: those of the last moment must not be missed
            for worker in self._workers:
                yield from (line for line in worker.take() if worker.rank == 0 or line["event"] == "holding")
            if self._finished():
                self.end(meanwhile)
                return
            if (cause := self._cause()) is not None:
                assert self._broken_since_s is not None
                if not cause.passing:
                    raise TrialFailed(cause.failure_class, cause.detail)
                noticed = time.monotonic_ns() / 1e9
                self.end(meanwhile)
                raise RunAborted(cause, self._broken_since_s, noticed)
            if ended:
                return
            yield None

    def end(self, meanwhile: Callable[[], None]) -> None:
        """End the remaining ranks on all nodes. TrialFailed if one does not end."""
        self._stack.close()
        if self._coordinator is not None:
            self._coordinator.stop(KILL_TIMEOUT_S, meanwhile)

    def _wait(self, seconds: float) -> None:
        wait_for_any(self._workers, self._coordinator.sources if self._coordinator else (), seconds)
        if self._coordinator is not None:
            self._coordinator.receive()

    def _all_ended(self) -> bool:
        return all(worker.ended for worker in self._workers) and (self._coordinator is None or self._coordinator.all_ended)

    def _finished(self) -> bool:
        """Whether a script has done its last step on all ranks that report, or some time ago on one: others may report nothing."""
        if not isinstance(self.spec, ScriptSpec):
            return False
        others = self._coordinator.done if self._coordinator is not None else set[int]()
        if self._first_done_s is None and (others or any(worker.done for worker in self._workers)):
            self._first_done_s = time.monotonic()
        if self._first_done_s is None:
            return False
        everywhere = self._coordinator is None or len(others) == self._coordinator.count
        return (everywhere and finished(self._workers)) or time.monotonic() - self._first_done_s > _PEERS_S

    def _cause(self) -> FailureCause | None:
        others = list(self._coordinator.causes.values()) if self._coordinator else []
        causes = [*others, *failure_causes(self._workers)]
        if causes and self._broken_since_s is None:
            self._broken_since_s = time.monotonic_ns() / 1e9
        return self._explanation.of(causes)

    def _records_by_rank(self) -> dict[int, RunRecord]:
        records = {worker.rank: worker.record for worker in self._workers}
        for logs in self._coordinator.logs.values() if self._coordinator else ():
            for rank, lines in logs.items():
                records[int(rank)] = record = RunRecord(launched_s=0.0)
                for line in lines:
                    record.add(line)
        return dict(sorted(records.items()))
