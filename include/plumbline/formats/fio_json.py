"""fio's `--output-format=json`."""

from __future__ import annotations

from pydantic_core import from_json

from plumbline.formats.reading.command_output import CommandOutput, DeclaredNumbers, Output, UnreadableOutput
from plumbline.formats.reading.lines import numbers
from plumbline.formats.registry import register
from plumbline.metrics.rows import metric_row


@register
class FioJson(CommandOutput):
    name = "fio-json"
    order = 140
    metrics = (
        *("storage_read_bandwidth", "storage_write_bandwidth", "storage_read_rate", "storage_write_rate"),
        *("storage_read_latency", "storage_write_latency"),
    )

    def read(self, text: str, declared: DeclaredNumbers) -> Output:
        """Sums over the jobs; of latencies the highest of them."""
        start = text.find("{\n")
        if start < 0:
            raise UnreadableOutput("no JSON of fio; expected its --output-format=json")
        jobs = from_json(text[start : text.rfind("\n}") + 2])["jobs"]
        rows = []
        for way in ("read", "write"):
            done = [side for job in jobs if (side := job[way])["total_ios"]]
            n = int(sum(side["total_ios"] for side in done))
            if done:
                rows.append(metric_row(f"storage_{way}_bandwidth", sum(side["bw_bytes"] for side in done), n))
                rows.append(metric_row(f"storage_{way}_rate", sum(side["iops"] for side in done), n))
            for statistic, rank in (("p50", "50.000000"), ("p99", "99.000000")):
                slowest = [number for side in done for number in numbers(side.get("clat_ns", {}).get("percentile", {}).get(rank), 1e-9)]
                if slowest:
                    rows.append(metric_row(f"storage_{way}_latency", max(slowest), n, statistic=statistic))
        if not rows:
            raise UnreadableOutput("fio's JSON has no job that read or wrote")
        return Output(rows)
