"""The load client's latencies against what a server with set delays really did, and against tritonclient's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from plumbline.harness.child_process import ChildProcess
from plumbline.loadclient import load_generator
from plumbline.loadclient.cross_check import CrossCheck, cross_check
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import RequestLog
from plumbline.loadclient.transport import Target
from plumbline.loadclient.wire import Tensor, Wire
from plumbline.results import CheckLine

_REQUESTS, _TOKENS, _RATE, _CROSSED = 30, 4, 100.0, 6
_FIRST_S, _GAP_S = 0.1, 0.02
_TOLERANCE_S = 0.005
_BETWEEN_CLIENTS_S = 0.01
"""Half a gap between tokens; on a busy machine two clients that run one after the other differ by milliseconds."""
_QUARTILE = 25
"""Percentile of the differences between client and server: a wrong clock or a wrong moment moves all of them, a busy machine only some."""
_PATIENCE_S = 30.0

Drive = Callable[..., RequestLog]


def load_client_lines(drive: Drive = load_generator.drive) -> list[CheckLine]:
    """`load_client` for tritonclient's own client, the first token (from the scheduled arrival) and the gaps between tokens. `drive`: the client."""
    try:
        log, sent, crossed = _drive_golden_server(drive)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return [CheckLine.failed("load_client", f"the golden server could not be used: {type(error).__name__}: {error}")]
    return [_compare_clients(crossed), *_compare_latencies(log, sent)]


def _drive_golden_server(drive: Drive) -> tuple[RequestLog, Mapping[int, Sequence[float]], CrossCheck]:
    wire = Wire("stream", "golden", {"TOKEN": 4, "INDEX": 4})
    load = PhaseLoad(
        "steady",
        duration_s=_REQUESTS / _RATE,
        arrivals_s=np.round(np.arange(_REQUESTS) / _RATE, 6),
        input_tokens=np.full(_REQUESTS, 1, np.int32),
        output_tokens=np.full(_REQUESTS, _TOKENS, np.int32),
        after=np.full(_REQUESTS, -1, np.int32),
    )
    max_tokens = Tensor("MAX_TOKENS", "INT32", np.array([_TOKENS], np.int32))
    bodies = [wire.body(number, [max_tokens]) for number in range(_REQUESTS)]
    command = [sys.executable, "-m", "plumbline.harness.selfcheck.golden_server", str(_FIRST_S), str(_GAP_S)]
    with ChildProcess(command, os.environ | _QUIET, output=subprocess.PIPE, errors=None) as server:
        assert server.stdout is not None
        address = server.stdout.readline().decode().strip()
        if not address:
            raise OSError("the golden server ended before it listened")
        target = Target(address, wire, lambda: server.poll() is None)
        # First: the server keeps the last moments of each number.
        few, lengths = [[max_tokens]] * _CROSSED, load.output_tokens[:_CROSSED]
        crossed = cross_check(few, target, lengths, lengths, within_s=_PATIENCE_S, timeout_s=_PATIENCE_S)
        log = drive(load, bodies, target, timeout_s=_PATIENCE_S)
        printed, _ = server.communicate(timeout=_PATIENCE_S)
    return log, {int(number): moments for number, moments in json.loads(printed).items()}, crossed


_QUIET = {"GRPC_VERBOSITY": "NONE"}


def _compare_clients(crossed: CrossCheck) -> CheckLine:
    if crossed.differ:
        number, difference = min(crossed.differ.items())
        return CheckLine.failed("load_client", f"request {number} of {crossed.n} was answered otherwise: {difference}", of="tritonclient")
    ours, peers = (float(np.median(seconds)) for seconds in (crossed.ours_s, crossed.peers_s))
    reason = f"median latency of {crossed.n} requests by the client, expected by tritonclient's own, with equal answers"
    return CheckLine.compared("load_client", ours, peers, _BETWEEN_CLIENTS_S, "s", reason, of="tritonclient")


def _compare_latencies(log: RequestLog, sent: Mapping[int, Sequence[float]]) -> list[CheckLine]:
    answered = [number for number in range(_REQUESTS) if log.ok[number] and len(sent.get(number, ())) == _TOKENS]
    if len(answered) < _REQUESTS:
        return [CheckLine.failed("load_client", f"{len(answered)} of {_REQUESTS} requests were answered; {log.first_error()}")]
    truth = np.array([[moment - log.began for moment in sent[number]] for number in answered])
    latencies = np.array([log.tokens(number) for number in answered])
    scheduled = log.load.arrivals_s[answered]
    measured = log.latencies("scheduled", "first_token")[answered]
    early = int((latencies < truth).sum())
    if early:
        return [
            CheckLine.failed("load_client", f"{early} of {latencies.size} tokens have a time before the server sent them", of="first token")
        ]
    return [
        _line(measured, truth[:, 0] - scheduled, "first token", "time to the first token from the scheduled arrival"),
        _line(np.diff(latencies).ravel(), np.diff(truth).ravel(), "gap", "time between tokens"),
    ]


def _line(measured: Any, truth: Any, of: str, what: str) -> CheckLine:
    expected = float(np.median(truth))
    difference = measured - truth
    # The difference's own sign says nothing of gaps: a token that came late makes one longer and the next shorter.
    typical = float(np.percentile(difference, _QUARTILE)) if of == "first token" else float(np.median(difference))
    reason = f"{what} of {_REQUESTS} requests by the client, expected by the golden server's own clock"
    return CheckLine.compared("load_client", expected + typical, expected, _TOLERANCE_S, "s", reason, of=of)
