"""What the raw evidence of one trial shows: read from the result store when somebody asks, and never more than a page can carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from plumbline.declarations import InferenceWorkload
from plumbline.reports.chart import Chart
from plumbline.reports.charts_latency import distribution
from plumbline.reports.charts_training import step_times
from plumbline.reports.evidence import MOST_BYTES, Latencies, Run, evidence_of
from plumbline.reports.figures import size
from plumbline.results import ResultDocument, ResultStore, addresses

_DRAWN = ("requests", "steps")


@dataclass(frozen=True)
class RawCharts:
    """Charts of one trial, and in words what could not be drawn and why."""

    charts: tuple[Chart, ...]
    said: tuple[str, ...]


def raw_charts(document: ResultDocument, folder: str) -> RawCharts:
    """Latency distribution of the requests, time of the steps. `folder`: the attempt's, in its result store, as the archive names it."""
    drawn = [e for e in document.evidence if e.kind in _DRAWN and e.uri.endswith(".parquet")]
    if not drawn:
        return RawCharts((), ("The trial kept no requests and no steps.",))
    large = [e for e in drawn if e.bytes > MOST_BYTES]
    if large:
        return RawCharts(
            (), tuple(f"{e.uri} has {size(e.bytes)}, more than a page can draw ({size(MOST_BYTES)}): download it." for e in large)
        )
    trial = document.trial
    below = f"/{ResultStore.folder(trial)}"
    if not folder.endswith(below):
        return RawCharts((), (f"The archive says that the trial lies at {folder}; expected an address that ends with {below}.",))
    try:
        store = ResultStore(addresses.permitted(folder).removesuffix(below), patience_s=0.0)
        found = evidence_of(store, [document])
    except (OSError, ValueError, ImportError) as error:
        return RawCharts((), (f"The result store cannot be read: {error}",))
    return RawCharts(tuple(_charts(document, found.latencies, found.runs)), found.problems)


def _charts(document: ResultDocument, latencies: Sequence[Latencies], runs: Sequence[Run]) -> list[Chart]:
    name, slo = (
        document.trial.provider.name,
        document.trial.workload.slo if isinstance(document.trial.workload, InferenceWorkload) else None,
    )
    charts = [
        distribution("raw", "", [name], latencies, "time_to_first_token", slo.time_to_first_token if slo else None),
        distribution("raw", "", [name], latencies, "request_scheduled_latency", slo.request_scheduled_latency if slo else None),
        step_times("raw", "", [name], runs),
    ]
    told = {
        "raw-steps": "Every step. The shaded start is warm-up and counts in no steady number.",
        "": "Share of the steady phase's requests answered within a time, measured from the scheduled arrival; a failed request never arrives.",
    }
    return [replace(chart, caption=told.get(chart.name, told[""])) for chart in charts if chart is not None]
