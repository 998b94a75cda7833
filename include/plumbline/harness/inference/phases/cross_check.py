"""After the steady phase of a trial on Triton: some of its requests again, one at a time, through our client and through tritonclient's own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plumbline.harness.inference.phases.load_phase import Driver
from plumbline.harness.inference.server.under_test import ManagedTriton
from plumbline.harness.measurement import TrialJudgement, degraded, invalid
from plumbline.loadclient.cross_check import CrossCheck, cross_check
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.prompt import Prompt
from plumbline.metrics.quantiles import interval, percentile
from plumbline.results import MetricRow, metric_row

_REQUESTS, _TOKENS = 100, 16
_WITHIN_S = 2.5
"""For each of the two clients; slow models are asked fewer requests."""
_EQUAL = 0.95
"""Share of the answers that must be equal: rounding may turn a choice between two tokens of the same probability."""
_DIFFERENCE, _LEAST_S = 0.5, 0.01
"""Allowed difference of the median latencies, as a share and in seconds, both: a wrong moment moves all requests, a busy machine some."""


def measure_cross_check(driver: Driver, load: PhaseLoad, prompts: Sequence[Prompt]) -> None:
    """Record how far the two clients agree. `load`, `prompts`: of the steady phase. Nothing for servers other than a Triton that was started here."""
    record, served = driver.record, driver.served
    if not isinstance(served, ManagedTriton):
        return
    record.event("cross_check_started")
    chosen, tokens = prompts[:_REQUESTS], min(_TOKENS, int(load.output_tokens.min()))
    found = cross_check(
        [served.repository.inputs(number, prompt, tokens) for number, prompt in enumerate(chosen)],
        served.target(),
        load.input_tokens[: len(chosen)],
        np.full(len(chosen), tokens, np.int32),
        within_s=_WITHIN_S,
        timeout_s=record.workload.request_timeout,
        settings=driver.settings,
    )
    record.event("cross_check_ended")
    served.answered(2 * len(found.ours_s))
    record.result.metrics += cross_check_rows(found)
    record.result.judgements += judge_cross_check(found)


def cross_check_rows(found: CrossCheck) -> list[MetricRow]:
    equal = len(found.ours_s)
    ratios = np.sort(found.ours_s / found.peers_s)
    return [
        metric_row("client_agreement", equal / found.n if found.n else None, found.n, phase="steady"),
        metric_row("client_latency_ratio", percentile(ratios, 0.5) if equal else None, equal, phase="steady", ci=interval(ratios, 0.5)),
    ]


def judge_cross_check(found: CrossCheck) -> list[TrialJudgement]:
    """`cross_check_failed`: other answers make the trial invalid, other latencies degrade it."""
    if found.n and len(found.differ) > (1 - _EQUAL) * found.n:
        number, difference = min(found.differ.items())
        detail = (
            f"{len(found.differ)} of {found.n} answers differ from those that tritonclient gets to the same requests; first, request {number}: "
            f"{difference}; expected at least {_EQUAL:.0%} equal"
        )
        return [invalid("cross_check_failed", detail)]
    differences = np.sort(found.ours_s - found.peers_s)
    limit = max(_LEAST_S, _DIFFERENCE * float(np.median(found.peers_s))) if len(differences) else 0.0
    between = interval(differences, 0.5)
    if between is None or (between[0] <= limit and between[1] >= -limit):
        return []
    detail = (
        f"the median latency of {len(differences)} requests is {np.median(found.ours_s) * 1e3:.1f} ms by the load client and "
        f"{np.median(found.peers_s) * 1e3:.1f} ms by tritonclient; expected at most {limit * 1e3:.0f} ms between them"
    )
    return [degraded("cross_check_failed", detail)]
