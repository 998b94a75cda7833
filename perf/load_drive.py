"""One run of the load client as a separate process: `python perf/load_drive.py ADDRESS RATE SECONDS SEED`; prints one line of JSON.

As in a trial, the schedule and every request are built first, and every answer's status and size are checked.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "include"))

from plumbline.loadclient.load_generator import LOOP, drive
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.transport import Target
from plumbline.loadclient.wire import Tensor, Wire

MODEL = "noop"
VALUES = 16
"""float32 values of a request and of its answer."""
TIMEOUT_S = 10.0


def main() -> None:
    address, rate, seconds, seed = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    rng = np.random.default_rng(seed)
    gaps = rng.standard_exponential(int(rate * seconds * 1.2) + 100) / rate
    at = np.rint(np.cumsum(gaps) * 1e6) / 1e6
    at = at[at < seconds]
    n = len(at)
    one = np.ones(n, np.int32)
    load = PhaseLoad("steady", seconds, at, one, one, np.full(n, -1, np.int32))
    wire = Wire("unary", MODEL, {"OUT": 4 * VALUES}, index=None)
    values = np.arange(VALUES, dtype=np.float32)[None]
    bodies = [wire.body(i, [Tensor("IN", "FP32", values)]) for i in range(n)]
    log = drive(load, bodies, Target(address, wire, lambda: True), timeout_s=TIMEOUT_S)
    took = log.latencies("scheduled", "last_token") * 1e3
    p50, p99 = np.percentile(took, [50, 99], method="inverted_cdf")
    # After the start answers must keep pace with requests: a client that only queues requests at the server does not sustain the rate.
    inside = 0.1 * seconds
    answered = float(((log.ended > inside) & (log.ended <= seconds) & log.ok).sum() / max((at > inside).sum(), 1))
    print(
        json.dumps(
            {
                "requests": n,
                "finished": log.finished,
                "sent": float((log.dispatched <= seconds).sum() / n),
                "answered": answered,
                "p50_ms": float(p50),
                "p99_ms": float(p99),
                "dispatch_p99_ms": float(np.percentile(log.dispatch_delays(), 99, method="inverted_cdf") * 1e3),
                "errors": log.errors(),
                "first_error": log.first_error(),
                "processes": len(log.cpu_s),
                "loop": LOOP,
            }
        )
    )


if __name__ == "__main__":
    main()
