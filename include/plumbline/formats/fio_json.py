"""fio's `--output-format=json`."""

from __future__ import annotations

import re
from json import JSONDecodeError, JSONDecoder
from typing import Any

from plumbline.formats.reading.command_output import CommandOutput, DeclaredNumbers, Output, UnreadableOutput
from plumbline.formats.reading.lines import numbers
from plumbline.formats.registry import register
from plumbline.metrics.rows import Reason, metric_row

_BEGIN = re.compile(r"^\{\s*$", re.MULTILINE)
_LATENCIES = {"clat_ns": "completion", "lat_ns": "submission and completion"}
"""Which percentiles a job has depends on its options; those of completion are the default."""


@register
class FioJson(CommandOutput):
    name = "fio-json"
    order = 140
    metrics = (
        *("storage_read_bandwidth", "storage_write_bandwidth", "storage_read_rate", "storage_write_rate"),
        *("storage_read_latency", "storage_write_latency"),
    )

    def read(self, text: str, declared: DeclaredNumbers) -> Output:
        """Sums over the jobs of a direction, which must be one group; of latencies the highest of them. Of several reports the last one counts."""
        jobs = _jobs(text)
        rows = []
        for way in ("read", "write"):
            done = [side for job in jobs if (side := job[way])["total_ios"]]
            n = int(sum(side["total_ios"] for side in done))
            if done:
                rows.append(metric_row(f"storage_{way}_bandwidth", sum(side["bw_bytes"] for side in done), n))
                rows.append(metric_row(f"storage_{way}_rate", sum(side["iops"] for side in done), n))
            for statistic, rank in (("p50", "50.000000"), ("p99", "99.000000")):
                for name, method in _LATENCIES.items():
                    slowest = [number for side in done for number in numbers(side.get(name, {}).get("percentile", {}).get(rank), 1e-9)]
                    if slowest:
                        rows.append(metric_row(f"storage_{way}_latency", max(slowest), n, statistic=statistic, method=method))
                        break
        if not rows:
            raise UnreadableOutput("fio's JSON has no job that read or wrote")
        failed = [f"{job.get('jobname', '?')}: error {job['error']}" for job in jobs if job.get("error")]
        return Output(rows, invalid=[Reason(code="io_errors", detail=f"fio's jobs failed: {', '.join(failed)}")] if failed else ())


def _jobs(text: str) -> list[dict[str, Any]]:
    """Of the last whole report. UnreadableOutput with what else it is."""
    report = None
    for begin in _BEGIN.finditer(text):
        try:
            found, _ = JSONDecoder().raw_decode(text, begin.start())
        except (JSONDecodeError, RecursionError):
            continue
        report = found if isinstance(found, dict) and "fio version" in found else report
    if report is None:
        raise UnreadableOutput("no whole JSON of fio; expected its --output-format=json")
    version = str(report["fio version"])
    if (major := re.search(r"(\d+)\.", version)) is not None and int(major[1]) < 3:
        raise UnreadableOutput(f"{version} counts in other units; expected fio 3.0 or newer")
    if "client_stats" in report:
        raise UnreadableOutput("fio's report of several clients (--client), which has no jobs of its own; expected fio without --client")
    jobs: list[dict[str, Any]] = report["jobs"]
    if any("mixed" in job for job in jobs):
        raise UnreadableOutput("fio added reads and writes up; expected unified_rw_reporting=none")
    for way, verb in (("read", "read"), ("write", "wrote")):
        busy = [job for job in jobs if job[way]["total_ios"]]
        if len(groups := {job.get("groupid", 0) for job in busy}) > 1:  # by stonewall or new_group, of which the report says nothing
            names = ", ".join(str(job.get("jobname", "?")) for job in busy[:4])
            raise UnreadableOutput(
                f"{len(groups)} groups of jobs {verb} ({names}), and groups usually run one after another, so that their sum is no bandwidth; "
                f"expected one group that {verb}, or a workload of each"
            )
    return jobs
