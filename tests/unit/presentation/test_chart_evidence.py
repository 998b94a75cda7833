"""Steps as a report reads them."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
from tests.data.result_documents import document, provider, trial

from plumbline.analysis.campaign_data import CampaignData
from plumbline.presentation.chart_evidence import read_evidence
from plumbline.results import Evidence, ResultStore


def test_a_step_is_its_slowest_ranks_and_one_that_was_done_twice_counts_as_the_last_time(tmp_path) -> None:
    rows = [
        {"run": "run", "phase": "cold_start", "step": 0, "rank": 0, "step_s": 1.0},
        {"run": "run", "phase": "steady", "step": 1, "rank": 0, "step_s": 9.0},
        {"run": "run", "phase": "cold_start", "step": 0, "rank": 1, "step_s": 1.5},
        {"run": "run-2", "phase": "steady", "step": 1, "rank": 0, "step_s": 2.0},
        {"run": "run-2", "phase": "steady", "step": 1, "rank": 1, "step_s": 2.5},
        {"run": "recovery", "phase": "recovery", "step": 1, "rank": 0, "step_s": 7.0},
    ]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    store, data = ResultStore(tmp_path.as_uri()), sink.getvalue()
    found = document(
        trial("training"),
        evidence=(Evidence(kind="steps", uri="evidence/steps.parquet", sha256="a" * 64, bytes=len(data), rows=len(rows)),),
    )
    store.put(f"{store.folder(found.trial)}/evidence/steps.parquet", data)
    campaign = CampaignData("2025-11", "a test", (found,), {"lab-2core": provider()}, {}, found.trial.planned_at, store=store)
    (run,) = read_evidence(campaign).runs
    assert (run.steps.tolist(), run.seconds.tolist(), run.steady_from) == ([0, 1], [1.5, 2.5], 1)
