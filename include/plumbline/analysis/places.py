"""What a place does to a latency and to a fetch: round trip and first token by the client's place, reads of data by the data's place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from plumbline.analysis.campaign_data import CampaignData
from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import AnyWorkload, Provider
from plumbline.declarations.data_places import address_of, data_of
from plumbline.metrics.pooling import PooledMetric, pool_measurements

Number = tuple[str, str, str]
"""(metric, statistic, phase)"""
LATENCIES: tuple[Number, ...] = (("network_round_trip_time", "p50", "steady"), ("time_to_first_token", "p50", "steady"))
READS: tuple[Number, ...] = (("data_fetch_bandwidth", "value", "cold_start"), ("data_warm_read_bandwidth", "value", "cold_start"))


@dataclass(frozen=True)
class PlaceMatrix:
    """One workload's usable repeats by place: of inference a row for each place of a client, of training for each place of data, and a column for
    each provider. `cells`: the medians of `LATENCIES` or `READS`; a pair that no repeat measured has no cell."""

    kind: str
    workload: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Mapping[tuple[str, str], tuple[PooledMetric, ...]]


def place_matrices(campaign: CampaignData, trials: Sequence[TrialSample]) -> Iterator[PlaceMatrix]:
    """Of each workload for which a place was measured. `trials`: the campaign's, with their quality verdicts."""
    specifications = {(d.trial.trial_id, d.trial.attempt): d.trial for d in campaign.documents}

    def place(trial: TrialSample) -> str | None:
        asked = specifications.get((trial.trial_id, trial.attempt))
        return None if asked is None else place_of(asked.workload, asked.provider)

    yield from matrices(trials, place)


def matrices(trials: Iterable[TrialSample], place: Callable[[TrialSample], str | None]) -> Iterator[PlaceMatrix]:
    """Of each workload the usable trials by `place`, that of the client or of the data; those without one are left out."""
    measured: dict[tuple[str, str], dict[tuple[str, str], list[TrialSample]]] = defaultdict(lambda: defaultdict(list))
    for trial in (t for t in trials if t.usable):
        if (row := place(trial)) is not None:
            measured[trial.kind, trial.workload][row, trial.provider].append(trial)
    for (kind, workload), own in sorted(measured.items()):
        numbers = LATENCIES if kind == "inference" else READS
        cells = {key: tuple(_pooled(number, repeats) for number in numbers) for key, repeats in own.items()}
        shown = {key: values for key, values in cells.items() if values[0].value is not None}
        if shown:
            rows, columns = (tuple(sorted({key[i] for key in shown})) for i in (0, 1))
            yield PlaceMatrix(kind, workload, rows, columns, shown)


def place_of(workload: AnyWorkload, provider: Provider) -> str | None:
    """Where the client is, else beside its server, or where a script's data is; None of a training that reads none from a place."""
    if workload.kind == "inference":
        return provider.launcher.client_place or f"{provider.cloud} {provider.region}"
    data = data_of(workload)
    return None if data is None else address_of(data, provider)


def _pooled(number: Number, repeats: Sequence[TrialSample]) -> PooledMetric:
    values = [(t.trial_id, value) for t in repeats if (value := t.value(*number)) is not None]
    return pool_measurements(number[0], values, "not measured")
