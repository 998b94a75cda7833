"""Bringing a server into the state that a phase is to begin in: its cache emptied or primed, its queue empty."""

from __future__ import annotations

import time
from collections.abc import Sequence

from plumbline.declarations.phases import LoadPhase
from plumbline.harness.inference.metrics import good
from plumbline.harness.inference.phases import Driver
from plumbline.harness.inference.prompts import Prompt, Prompts
from plumbline.harness.inference.serving import OwnTriton, told
from plumbline.harness.measurement import TrialFailed

_SETTLED_WITHIN_S = 60.0


def prepare(driver: Driver, phase: LoadPhase, prompts: Prompts) -> None:
    """Bring the prefix cache into its declared state.

    Raises TrialFailed("server_error") if the requests for that are not answered, and as `Triton.reload` does.
    """
    state = driver.record.workload.server.prefix_cache
    if state == "cold":
        served = driver.served
        assert isinstance(served, OwnTriton), "nobody can empty the cache of somebody else's server"
        served.reload()
        # A model that was just loaded is slow at its first inference, which is no matter of the cache: a prompt without shared prefix takes that.
        _ask(driver, phase, [prompts.cold_start])
    elif state == "primed":
        _ask(driver, phase, prompts.prefixes)


def settle(driver: Driver, phase: LoadPhase, prompt: Prompt) -> None:
    """Wait until the server, which had more to do than it could, answers a single request within the SLO.

    Raises TrialFailed("server_error") if that takes more than a minute.
    """
    slo, deadline = driver.record.workload.slo, time.monotonic() + _SETTLED_WITHIN_S
    while True:
        log = driver.drive_each(phase, [prompt], 1, note="settling: ")
        if good(log, slo).all():
            return
        if time.monotonic() > deadline:
            raise TrialFailed("server_error", f"{_SETTLED_WITHIN_S:g}s after its load ended: {told(log)}; {driver.served.state()}")


def _ask(driver: Driver, phase: LoadPhase, prompts: Sequence[Prompt]) -> None:
    log = driver.drive_each(phase, prompts, 1, note="filling the cache: ")
    if log.finished < log.n:
        raise TrialFailed("server_error", f"before {phase}, for the prefix cache: {told(log)}; {driver.served.state()}")
