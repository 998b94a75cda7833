"""The distribution of the lengths of prompts and answers, where a workload does not declare both."""

from __future__ import annotations

import numpy as np

from plumbline.declarations.workloads.load import Requests
from plumbline.harness.inference.load.request_log import RequestLog
from plumbline.metrics import LENGTH_DEPENDENT, NATURAL_LENGTHS
from plumbline.results import MetricRow, Telemetry


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
        low, high, mean = (float(f(values)) for f in (np.min, np.max, np.mean))
        rows.append(
            Telemetry(
                phase=log.load.name,
                signal=signal,
                unit="tokens",
                n=len(values),
                mean=mean,
                min=low,
                p50=float(p50),
                p95=float(p95),
                max=high,
            )
        )
    return rows


def noted_lengths(rows: list[MetricRow], requests: Requests) -> list[MetricRow]:
    """The rows, those that depend on the answers' lengths marked where the model ended its answers itself."""
    if requests.output == "forced":
        return rows
    return [row.model_copy(update={"method": NATURAL_LENGTHS}) if row.metric in LENGTH_DEPENDENT else row for row in rows]
