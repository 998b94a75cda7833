from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from plumbline.loadclient.load_generator import drive, processes_for, shares
from plumbline.loadclient.multi_process import target_of_share
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.transport import Settings, Target
from plumbline.loadclient.wire import Wire


def load_of(after: list[int], *, duration_s: float = 1.0, closed: bool = False) -> PhaseLoad:
    n = len(after)
    one = np.ones(n, np.int32)
    return PhaseLoad("steady", duration_s, np.zeros(n), one, one, np.array(after, np.int32), closed)


def test_requests_are_dealt_out_in_turn_and_chains_stay_together() -> None:
    assert [list(share) for share in shares(load_of([-1] * 5), 2)] == [[0, 2, 4], [1, 3]]
    # Two conversations (0 → 2 → 4 and 1 → 3) and a request of its own.
    assert [list(share) for share in shares(load_of([-1, -1, 0, 1, 2, -1]), 2)] == [[0, 2, 4, 5], [1, 3]]
    assert [list(share) for share in shares(load_of([-1]), 3)] == [[0], [], []]


def test_as_many_processes_as_the_rate_needs_and_the_cores_allow() -> None:
    four, eight = tuple(range(4)), tuple(range(8))
    assert processes_for(load_of([-1] * 4_000), Settings(cpus=four)) == 1
    assert processes_for(load_of([-1] * 9_000), Settings(cpus=four)) == 3
    assert processes_for(load_of([-1] * 40_000), Settings(cpus=four)) == 4
    assert processes_for(load_of([-1] * 40_000), Settings(cpus=eight)) == 8, "cores of its own are all the client's"
    assert processes_for(load_of([-1] * 40_000), Settings(cpus=(3,))) == 1
    assert processes_for(load_of([-1] * 40_000, closed=True), Settings(cpus=four)) == 1
    assert processes_for(load_of([-1]), Settings(processes=5)) == 5
    assert processes_for(load_of([-1] * 40_000 * 100)) == max(1, len(os.sched_getaffinity(0)) - 1), "of shared ones one is left free"


def test_every_second_request_goes_to_the_second_of_two_servers() -> None:
    wire = Wire("unary", "m", {}, index=None)
    target = Target("127.0.0.1:1", wire, lambda: False, replicas=("127.0.0.1:2",))
    assert [target_of_share(target, k).address for k in range(4)] == ["127.0.0.1:1", "127.0.0.1:2"] * 2
    assert target_of_share(target, 1).replicas == ()
    # Two conversations (0 → 2 and 1 → 3) and a request of its own.
    log = drive(load_of([-1, -1, 0, 1, -1]), [b""] * 5, target, timeout_s=1)
    assert log.replica is not None and log.replica.tolist() == [0, 1, 0, 1, 0]
    assert len(log.cpu_s) == 2, "a process for each server"
    alone = replace(target, replicas=())
    assert drive(load_of([-1]), [b""], alone, timeout_s=1).replica is None


def test_a_body_for_each_request() -> None:
    with pytest.raises(ValueError, match=r"^1 bodies.*2 requests"):
        drive(load_of([-1, -1]), [b""], Target("127.0.0.1:1", Wire("unary", "m", {}, index=None), lambda: True), timeout_s=1)


def test_a_protocol_that_nobody_speaks() -> None:
    target = Target("127.0.0.1:1", Wire("unary", "m", {}, index=None), lambda: True, protocol="pigeon")
    with pytest.raises(ValueError, match="pigeon"):
        drive(load_of([-1]), [b""], target, timeout_s=1)
