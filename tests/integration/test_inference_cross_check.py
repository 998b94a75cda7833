"""Trials on a real Triton check their own client by tritonclient's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_inference import measure, nothing_is_left, short_trial

from plumbline.harness.measurement import Measurement
from plumbline.loadclient.wire import Tensor

__all__ = ["nothing_is_left"]


def rows(result: Measurement) -> dict[str, Any]:
    return {row.metric: row for row in result.metrics if row.metric.startswith("client_") and row.phase == "steady"}


def failed(result: Measurement) -> list[str]:
    return [each.reason.detail for each in result.judgements if each.level == "invalid" and each.reason.code == "cross_check_failed"]


def test_a_trial_says_that_both_clients_agree(tmp_path: Path) -> None:
    result = measure(short_trial(), tmp_path)
    agreement, ratio = rows(result)["client_agreement"], rows(result)["client_latency_ratio"]
    assert (agreement.value, failed(result)) == (1, [])
    assert agreement.n == ratio.n > 5 and ratio.value > 0
    began, ended = (next(e.monotonic_s for e in result.events if e.name == f"cross_check_{when}") for when in ("started", "ended"))
    steady = next(e.monotonic_s for e in result.events if e.name == "steady_ended")
    assert steady <= began <= ended
    assert [j.reason.code for j in result.judgements if j.reason.code == "counts_differ"] == []


def test_a_broken_wire_makes_the_trial_invalid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model answers the prompt that it got, which is another one than was declared."""
    monkeypatch.setattr(Tensor, "data", property(lambda tensor: tensor.values[::-1].tobytes()))
    result = measure(short_trial(), tmp_path)
    assert rows(result)["client_agreement"].value < 0.5
    (detail,) = failed(result)
    assert "answers differ from those that tritonclient gets" in detail
