from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.unit.harness.inference.test_arrivals import workload
from tests.unit.harness.inference.test_metrics import log_of

from plumbline.harness.inference.arrivals import schedule_of
from plumbline.harness.inference.evidence import write_requests, write_schedule


def test_requests_are_kept_with_every_token(tmp_path: Path) -> None:
    first, second = log_of(n=4), log_of(n=3)
    second.requests[1].tokens.clear()
    second.requests[1].fail("timeout", "too late")
    file = write_requests([first, second], tmp_path)
    assert (file.kind, file.path, file.rows) == ("requests", tmp_path / "requests.parquet", 7)
    rows = pq.read_table(file.path).to_pylist()
    assert [r["number"] for r in rows] == [0, 1, 2, 3, 0, 1, 2]
    assert rows[2]["token_times_s"] == pytest.approx([0.05, 0.06, 0.07, 0.08, 0.09])
    assert rows[2]["scheduled_s"] == pytest.approx(0.2)
    assert (rows[2]["status"], rows[2]["detail"]) == ("ok", None)
    failed = rows[5]
    assert (failed["status"], failed["detail"], failed["received_tokens"], failed["token_times_s"]) == ("timeout", "too late", 0, [])
    assert failed["first_token_s"] is None, "absent, not NaN"


def test_the_schedule_is_kept(tmp_path: Path) -> None:
    schedule = schedule_of(workload())
    file = write_schedule(schedule, tmp_path)
    rows = pq.read_table(file.path).to_pylist()
    assert file.rows == len(rows) == schedule.n
    assert [r["arrival_s"] for r in rows if r["phase"] == "steady"] == schedule.phases[1].arrivals_s.tolist()
