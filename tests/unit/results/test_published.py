from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from pydantic import ValidationError

from plumbline.formats.reading.names import slug
from plumbline.results import Environment, Reason, Validity, metric_row
from plumbline.results.published import PublishedResult


def result(**changed: Any) -> PublishedResult:
    """One imported run."""
    fields: dict[str, Any] = {
        "publisher": "Example Bench v1", "protocol": "example-bench", "campaign_id": "example-bench-v1", "reason": "imported",
        "published_at": datetime(2025, 6, 4, tzinfo=timezone.utc), "kind": "training", "workload": "example", "provider": "somebody",
        "region": "unstated", "instance_type": "1x8-gpu", "system": "box", "repeat": 1, "spec": {"batch": 8},
        "environment": Environment.of({"driver.version": "550"}), "validity": Validity(status="valid"),
        "metrics": (metric_row("time_to_train", 600.0, 1),), "url": "https://example.com/results", "original": {"minutes": "10"},
    }  # fmt: skip
    return PublishedResult(**{**fields, **changed})


def test_it_survives_its_json_and_its_checksum_covers_all_of_it() -> None:
    one = result()
    assert PublishedResult.model_validate_json(one.model_dump_json()) == one
    assert one.checksum == result().checksum
    assert one.checksum != result(original={"minutes": "10.0"}).checksum
    assert (one.spec_hash, one.criteria_hash) == (result(repeat=2).spec_hash, result(repeat=2).criteria_hash)
    assert one.spec_hash != result(spec={"batch": 16}).spec_hash


def test_its_series_can_be_none_that_a_harness_measures() -> None:
    from plumbline.declarations.trials import HARNESS_PROTOCOL

    protocol = result().series_key.split("/")[2]
    assert protocol == "example-bench" and protocol not in {f"h{n}" for n in HARNESS_PROTOCOL.values()}


def test_a_valid_result_has_a_number_and_one_that_is_not_has_a_reason() -> None:
    with pytest.raises(ValidationError, match="metric"):
        result(metrics=(metric_row("time_to_train", None, 0),))
    stopped = Validity(status="invalid", reasons=(Reason(code="target_not_reached", detail="stopped"),))
    assert result(metrics=(metric_row("time_to_train", None, 0),), validity=stopped).validity.status == "invalid"


@pytest.mark.parametrize(("text", "name"), [("NVIDIA H200-SXM5-141GB", "nvidia-h200-sxm5-141gb"), ("IBM+CoreWeave ", "ibm-coreweave")])
def test_a_slug_is_a_name(text: str, name: str) -> None:
    assert slug(text) == name


def test_a_slug_of_nothing_is_said() -> None:
    with pytest.raises(ValueError, match=r"^\" \+ \" "):
        slug(" + ")
