"""Container workloads: their metrics join the catalogue, and a wrong declaration says what was expected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from plumbline.declarations import DeclarationError, load
from plumbline.declarations.workloads.container import ContainerWorkload
from plumbline.metrics import METRICS

REGEX = {"format": "regex", "pattern": "(?P<box_rate>[0-9.]+)"}
RATE = {"unit": "1/s", "better": "higher"}


def container(primary: str | None = "box_rate", acceptance: tuple[str, ...] = (), **task: Any) -> ContainerWorkload:
    declared: dict[str, Any] = {
        "kind": "training",
        "name": "box",
        "version": 1,
        "needs": {"accelerator": "cpu"},
        "task": {"kind": "container", "command": ["box"], "results": REGEX, "metrics": {"box_rate": RATE}, **task},
        "repeats": {"per_slot": 1, "slots": ["02:00"]},
        "acceptance": acceptance,
        **({} if primary is None else {"primary": primary}),
    }
    return ContainerWorkload.model_validate_json(json.dumps(declared))


def test_its_metrics_join_the_catalogue_before_its_criteria_are_read() -> None:
    box = container(
        primary="crate_rate", acceptance=("crate_rate >= 3/s in steady",), metrics={"crate_rate": {**RATE, "field": "box_rate"}}
    )
    assert box.acceptance[0].limit == 3.0
    known = METRICS["crate_rate"]
    assert (known.unit, known.direction, known.declared, known.warn, known.page) == ("1/s", "higher_is_better", True, 0.05, 0.10)


def test_a_metric_without_a_better_side_never_drifts() -> None:
    container(metrics={"box_rate": RATE, "box_size": {"unit": "bytes", "better": "none", "field": "box_rate"}})
    assert (METRICS["box_size"].direction, METRICS["box_size"].warn) == ("informative", None)


def test_a_declaration_that_changed_its_unit_counts() -> None:
    lids = {"unit": "s", "better": "lower", "field": "box_rate"}
    container(primary="lid_time", metrics={"lid_time": lids})
    container(primary="lid_time", metrics={"lid_time": {**lids, "unit": "count"}})
    assert METRICS["lid_time"].unit == "count"


def test_a_trial_keeps_its_primary() -> None:
    primary = container().of_trial().primary
    assert primary is not None and primary.metric == "box_rate"


BOX = """\
kind: training
name: NAME
version: 1
needs: {accelerator: cpu}
task:
  kind: container
  command: [box]
  results: {format: jsonl}
  metrics:
    sheet_rate: {unit: 1/s, better: higher}
primary: sheet_rate in steady
acceptance: [sheet_rate >= 2/s in steady]
drift: {sheet_rate: {warn: 1%, page: 2%}}
repeats: {per_slot: 1, slots: ["02:00"]}
"""


def test_a_folder_of_declarations(config: Path) -> None:
    for name in ("large-box", "small-box"):
        (config / f"workloads/training/{name}.yaml").write_text(BOX.replace("NAME", name))
    declared = load(config)
    assert isinstance(declared.workloads["small-box"], ContainerWorkload)
    limits = declared.thresholds.drift_limits(declared.workloads["small-box"], "sheet_rate")
    assert limits is not None and limits.page == 0.02


def test_one_name_has_one_unit(config: Path) -> None:
    (config / "workloads/training/large-box.yaml").write_text(BOX.replace("NAME", "large-box"))
    other = BOX.replace("NAME", "small-box").replace("unit: 1/s", "unit: count").replace("2/s", "2")
    (config / "workloads/training/small-box.yaml").write_text(other)
    with pytest.raises(DeclarationError) as raised:
        load(config)
    (problem,) = raised.value.problems
    assert (problem.file.rpartition("/")[2], problem.line, problem.field) == ("small-box.yaml", 10, "task.metrics.sheet_rate")
    assert problem.message == "is in count, better higher; expected these, or another name: large-box declares unit 1/s, better higher"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"primary": None}, "primary is missing; expected one of box_rate, command_time"),
        ({"primary": "step_time"}, "primary names step_time"),
        ({"metrics": {}}, "results.format regex without metrics"),
        ({"results": {"format": "fio-json"}}, "results.format fio-json with metrics"),
        ({"results": {"format": "regex"}}, "without a pattern"),
        ({"results": {"format": "jsonl", "pattern": "x"}}, "with a pattern"),
        ({"results": {"format": "regex", "pattern": "("}}, "no regular expression"),
        ({"results": {"format": "regex", "pattern": "x"}}, "no group for the metric box_rate"),
        ({"results": {"format": "xml"}}, "Input should be"),
        ({"metrics": {"box_rate": {**RATE, "unit": "furlongs"}}}, "Input should be"),
        ({"metrics": {"box_rate": RATE, "step_time": {**RATE, "field": "box_rate"}}}, "step_time is a metric of the catalogue, in s"),
        ({"environment": {"RANK": "0"}}, "environment sets RANK"),
        ({"results": {"format": "jsonl", "file": "../results"}}, "pattern"),
        ({"image": "box:latest"}, "pattern"),
    ],
)
def test_a_wrong_declaration(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        container(**wrong)
