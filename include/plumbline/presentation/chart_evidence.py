"""The raw Parquet evidence behind the distribution charts, thinned to what a picture can show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from plumbline.analysis.campaign_data import CampaignData
from plumbline.results import InvalidResult, ResultDocument, ResultStore, bounded_parquet, evidence_files

if TYPE_CHECKING:
    import pyarrow as pa

Array = NDArray[np.float64]
MOST_POINTS = 600
"""Points of one drawn line."""
MOST_BYTES = 64 * 2**20
"""Most bytes of one packed file, and of its unpacked columns that are drawn."""
MOST_ROWS = {"requests": 2_000_000, "steps": 250_000}
"""Most rows of one file: the requests of an hour at 500/s take some 70 bytes each; steps by rank take ten times that."""


class UnreadableEvidence(ValueError):
    """A stored Parquet file does not hold what its kind says; names the trial, the file and what was expected."""


@dataclass(frozen=True)
class StepTimes:
    """The optimizer steps of one trial's undisturbed run: step numbers and seconds, warm-up included; `steady_from` is the first steady step."""

    provider: str
    workload: str
    trial_id: str
    steps: Array
    seconds: Array
    steady_from: int


@dataclass(frozen=True)
class Latencies:
    """Sorted steady latencies of one trial in seconds; a request that failed is infinite: slower than any limit."""

    provider: str
    workload: str
    trial_id: str
    first_token: Array
    scheduled: Array


@dataclass(frozen=True)
class ChartEvidence:
    """`problems`: messages about unreadable files."""

    runs: tuple[StepTimes, ...] = ()
    latencies: tuple[Latencies, ...] = ()
    problems: tuple[str, ...] = field(default=())


def read_evidence(campaign: CampaignData) -> ChartEvidence:
    """Steps and requests of every usable trial of the campaign; nothing without a store."""
    return ChartEvidence() if campaign.store is None else evidence_of(campaign.store, campaign.usable)


def evidence_of(store: ResultStore, documents: Iterable[ResultDocument]) -> ChartEvidence:
    """Steps and requests of these trials, usable or not."""
    runs: list[StepTimes] = []
    latencies: list[Latencies] = []
    problems: list[str] = []
    for document in documents:
        try:
            if (table := _table(store, document, "steps", STEP_COLUMNS)) is not None:
                runs.append(_run(document, table))
            if (table := _table(store, document, "requests", REQUEST_COLUMNS)) is not None:
                latencies.append(_latencies(document, table))
        except UnreadableEvidence as error:
            problems.append(str(error))
    return ChartEvidence(tuple(runs), tuple(latencies), tuple(problems))


STEP_COLUMNS = ("run", "phase", "step", "step_s")
REQUEST_COLUMNS = ("phase", "scheduled_s", "first_token_s", "last_token_s", "status")


def _table(store: ResultStore, document: ResultDocument, kind: str, columns: tuple[str, ...]) -> pa.Table | None:
    item = next((e for e in document.evidence if e.kind == kind and e.uri.endswith(".parquet")), None)
    if item is None:
        return None
    path = f"{store.folder(document.trial)}/{item.uri}"
    try:
        data = store.get(path, MOST_BYTES)
        return bounded_parquet.read_table(data, path, columns=columns, most_rows=MOST_ROWS[kind], most_bytes=MOST_BYTES)
    except FileNotFoundError as error:
        expiry = evidence_files.read_expired(store, store.folder(document.trial))
        if expiry is None or item.uri not in expiry.files:
            raise UnreadableEvidence(f"{path} is missing") from error
        raise UnreadableEvidence(f"{path} expired on {expiry.expired_at:%Y-%m-%d} ({expiry.rule})") from error
    except InvalidResult as error:
        raise UnreadableEvidence(str(error)) from error


def _run(document: ResultDocument, table: pa.Table) -> StepTimes:
    """The run's steps: of several ranks the slowest one's; of a restarted run the last one."""
    rows = table.select(STEP_COLUMNS).to_pylist()
    attempts = [(int(row["run"].partition("-")[2] or 1), row) for row in rows if row["run"] == "run" or row["run"].startswith("run-")]
    latest: dict[int, tuple[int, float, str]] = {}
    for attempt, row in attempts:
        previous = latest.get(row["step"])
        if previous is None or (attempt, row["step_s"]) > previous[:2]:
            latest[row["step"]] = (attempt, row["step_s"], row["phase"])
    steps = sorted(latest.items())
    steady = [step for step, (_, _, phase) in steps if phase == "steady"]
    return StepTimes(
        document.trial.provider.name,
        document.trial.workload.name,
        document.trial.trial_id,
        np.array([step for step, _ in steps], dtype=float),
        np.array([seconds for _, (_, seconds, _) in steps], dtype=float),
        steady[0] if steady else 0,
    )


def _latencies(document: ResultDocument, table: pa.Table) -> Latencies:
    import pyarrow as pa
    import pyarrow.compute as pc

    steady = table.filter(pc.equal(table["phase"], "steady"))
    failed = pc.fill_null(pc.not_equal(steady["status"], "ok"), True).to_numpy()

    def seconds(name: str) -> Array:
        values: Array = pc.cast(steady[name], pa.float64()).to_numpy()
        return values

    scheduled, first, last = seconds("scheduled_s"), seconds("first_token_s"), seconds("last_token_s")

    def latency(moment: Array) -> Array:
        latencies: Array = np.sort(np.where(failed | np.isnan(moment), np.inf, moment - scheduled))
        return latencies

    return Latencies(document.trial.provider.name, document.trial.workload.name, document.trial.trial_id, latency(first), latency(last))


def sample_indices(values: Array) -> NDArray[np.int64]:
    """Indices of at most MOST_POINTS evenly spaced elements, first and last included."""
    if len(values) <= MOST_POINTS:
        return np.arange(len(values))
    indices: NDArray[np.int64] = np.unique(np.linspace(0, len(values) - 1, MOST_POINTS).round().astype(np.int64))
    return indices
