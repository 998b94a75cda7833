"""What limited a highest rate, of a search or of a closed loop. It is a claim about the hardware only if the hardware was what gave out.

The evidence is of the loads around that rate: the one that was just held and those that were not; of a closed loop itself.

client          its own limits were reached
contended       others used the trial's cores: not shown
path            the server and the protocol, with the same messages and as many requests at once and the model replaced by nothing, carry hardly more
cores           at least 70 % of the trial's cores were busy with it
accelerator     it was busy 70 % of the time, and its power or its arithmetic was at least 30 % of what the probe reached
memory          as either of these, where reading the weights took 70 % of the probed bandwidth
engine setting  the hardware was idle in part, and as many requests as the engine takes were in it
service         an endpoint whose hardware is not seen: the rate is a property of what is sold
not shown       the hardware was idle and nothing of the above was seen"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from plumbline.judgement import judges
from plumbline.metrics import Phase
from plumbline.results.limit import AT_WORK, BUSY, Limit, LimitName

PATH_NEAR, PATH_NEAR_ON_CORES = 0.8, 0.5
"""Share of the path's own rate from which it is the limit. A model on the same cores runs in turn with its path: there it is the larger part."""


@dataclass(frozen=True)
class CapacityEvidence:
    """Loads around a highest rate. Shares are of 1; None: not measured.

    `rate`: requests a second. `own`, `foreign`: shares of the trial's cores that it and others used, the highest of these loads; `client`: share that the client took. `path_rate`: requests a second without the model (`path_missing`: why not).
    `bandwidth`, `arithmetic`: what the model read and computed over what was probed. `utilization`, `power`: of accelerators, busy time, and
    power over the most that the probes drew. `in_flight`: mean requests in the server at `rate`; `slots`: as many as it takes at once."""

    rate: float
    accelerated: bool
    in_flight: float
    slots: int
    own: float | None = None
    foreign: float | None = None
    foreign_from: float = 0.1
    client: float | None = None
    client_limited: str = ""
    path_rate: float | None = None
    path_missing: str = ""
    bandwidth: float | None = None
    arithmetic: float | None = None
    utilization: float | None = None
    power: float | None = None
    phase: Phase = "sweep"
    hidden: bool = field(default=False, metadata={"meaning": "of an endpoint: its hardware is not seen"})

    @property
    def path_share(self) -> float | None:
        return self.rate / self.path_rate if self.path_rate else None


@judges("capacity of a sweep")
def judge_capacity(evidence: CapacityEvidence | None) -> Limit:
    """The limit of a search's highest rate. None: no search held a rate."""
    if evidence is None or not evidence.rate > 0:
        return Limit(
            phase="sweep",
            limit="not_shown",
            seen="no rate was held",
            missing="no capacity",
            decides="a range that contains the highest rate",
        )
    if evidence.client_limited:
        return _not_shown(evidence, "client", evidence.client_limited, "more cores for the client, or a client on another node")
    if evidence.hidden:
        return Limit.shown(
            evidence.phase, "service", "the endpoint's hardware is not seen: the rate is a property of the endpoint as it is sold"
        )
    if evidence.foreign is not None and evidence.foreign >= evidence.foreign_from:
        seen = f"others used {evidence.foreign:.0%} of the trial's cores at the limit"
        return _not_shown(evidence, "not_shown", seen, "the same trial on a machine with nothing beside it")
    near = PATH_NEAR if evidence.accelerated else PATH_NEAR_ON_CORES
    if evidence.path_share is not None and evidence.path_share >= near:
        decides = "a larger model, longer prompts, or more cores for the server"
        return _not_shown(evidence, "path", f"{_path(evidence)}, which is {evidence.path_share:.0%} of it", decides)
    return _of_accelerator(evidence) if evidence.accelerated else _of_cores(evidence)


def _of_cores(evidence: CapacityEvidence) -> Limit:
    if evidence.own is None:
        return _not_shown(evidence, "not_shown", "how busy the trial's cores were was not seen", "a machine whose /proc can be read")
    words = [f"{evidence.own:.0%} of the trial's cores were busy with it at the limit"]
    if evidence.client is not None:
        words.append(f"the client on these cores took {evidence.client:.0%} of them")
    words += [_work(evidence), _path(evidence)]
    seen = "; ".join(filter(None, words))
    if evidence.own >= BUSY:
        if evidence.path_share is None:
            decides = "a backend whose model can be taken out, to measure what the rest of the server carries"
            return _not_shown(evidence, "not_shown", seen, decides)
        memory = evidence.bandwidth is not None and evidence.bandwidth >= BUSY
        return Limit.shown(evidence.phase, "memory" if memory else "cores", seen)
    return _of_idle(evidence, evidence.own, seen)


def _of_accelerator(evidence: CapacityEvidence) -> Limit:
    if evidence.utilization is None:
        return _not_shown(evidence, "not_shown", "how busy the accelerators were was not seen", "a driver that reports their use")
    words = [f"the accelerators were busy {evidence.utilization:.0%} of the time at the limit"]
    if evidence.power is not None:
        words.append(f"their power was {evidence.power:.0%} of the most that the probes drew")
    seen = "; ".join(filter(None, [*words, _work(evidence), _path(evidence)]))
    if evidence.utilization < BUSY:
        return _of_idle(evidence, evidence.utilization, seen)
    known = [share for share in (evidence.bandwidth, evidence.arithmetic, evidence.power) if share is not None]
    if not known:
        return _not_shown(evidence, "not_shown", seen, "their power, or a model whose operations are known")
    if max(known) < AT_WORK:
        return _not_shown(evidence, "not_shown", seen, "a larger batch or model: their computation waited for the program that drives it")
    memory = evidence.bandwidth is not None and evidence.bandwidth >= BUSY
    return Limit.shown(evidence.phase, "memory" if memory else "accelerator", seen)


def _of_idle(evidence: CapacityEvidence, busy: float, seen: str) -> Limit:
    if evidence.in_flight >= 0.9 * evidence.slots and busy >= AT_WORK:
        full = f"{evidence.in_flight:.3g} requests were in the server, which takes {evidence.slots} at once"
        return Limit.shown(evidence.phase, "engine_setting", f"{full}; {seen}")
    decides = "a larger model, longer prompts or larger batches, until the hardware is busy at least 70 % of the time"
    return _not_shown(evidence, "not_shown", f"{seen}: it was idle, and what it waited for was not seen", decides)


def _not_shown(evidence: CapacityEvidence, limit: LimitName, seen: str, decides: str) -> Limit:
    return Limit(
        phase=evidence.phase,
        limit=limit,
        seen=seen,
        missing=f"{evidence.rate:.4g}/s is not shown to be what the hardware serves",
        decides=decides,
    )


def _path(evidence: CapacityEvidence) -> str:
    if evidence.path_rate is None:
        return f"the path without the model was not measured: {evidence.path_missing}" if evidence.path_missing else ""
    return f"the path without the model carries {evidence.path_rate:.4g}/s"


def _work(evidence: CapacityEvidence) -> str:
    known: Mapping[str, float | None] = {"arithmetic": evidence.arithmetic, "bandwidth": evidence.bandwidth}
    return ", ".join(f"its {name} was {share:.1%} of the probe's" for name, share in known.items() if share is not None)
