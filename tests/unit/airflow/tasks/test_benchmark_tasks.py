"""What the benchmark's tasks hand to each other, also when they fail."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from plumbline import workflows
from plumbline.airflow.tasks.benchmark import record
from plumbline.workflows.lane_outcome import LaneOutcome


@pytest.mark.fault("the archive refuses one trial of a lane", ends="record is red, the others are reviewed", keeps="the recorded trials")
def test_what_is_recorded_is_published_although_the_task_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    row: dict[str, Any] = {"campaign_id": "2026-11", "trial_id": "a", "recorded": ["inserted"]}
    monkeypatch.setattr(workflows.record, "record_group", lambda checked: LaneOutcome([row], [ConnectionError("away")]))
    ti = Mock()
    with pytest.raises(ConnectionError):
        record.function([], ti=ti)
    ti.xcom_push.assert_called_once_with("return_value", [row])
