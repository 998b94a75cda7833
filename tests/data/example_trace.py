"""The example trace: `python -m tests.data.example_trace > include/config/traces/afternoon.csv`. Invented here, recorded nowhere."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta

import numpy as np

from plumbline.declarations.workloads.load import Arrivals, Tokens
from plumbline.harness.inference.load.schedule import arrival_times, lengths

_BEGAN = datetime(2026, 11, 16, 14, 0)  # noqa: DTZ001  published traces have no zone either
_CALM_AND_BUSY = {"on_off": {"on": {"rate": "10/s", "duration": "3s"}, "off": {"rate": "2/s", "duration": "7s"}}}
_QUESTIONS = {"mixed": [{"share": "80%", "normal": {"mean": 16, "stddev": 6, "min": 4, "max": 40}}, {"share": "20%", "constant": 64}]}
_ANSWERS = {"normal": {"mean": 12, "stddev": 5, "min": 1, "max": 32}}


def example_trace() -> str:
    """A minute of short conversations in busy and calm stretches, in the layout `azure`."""
    rng = np.random.Generator(np.random.PCG64(20261116))
    times = arrival_times(Arrivals.model_validate_json(json.dumps(_CALM_AND_BUSY)), 60.0, rng)
    read, written = (lengths(Tokens.model_validate_json(json.dumps(tokens)), len(times), rng) for tokens in (_QUESTIONS, _ANSWERS))
    rows = (
        f"{(_BEGAN + timedelta(seconds=at)).isoformat(' ', 'microseconds')},{a},{b}"
        for at, a, b in zip(times.tolist(), read.tolist(), written.tolist(), strict=True)
    )
    return "\n".join(("TIMESTAMP,ContextTokens,GeneratedTokens", *rows, ""))


if __name__ == "__main__":
    sys.stdout.write(example_trace())
