"""Container workloads: their metrics stand beside the catalogue, and a wrong declaration says what was expected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from plumbline.declarations import DeclarationError, Declarations, load
from plumbline.declarations.workloads.container import ContainerWorkload
from plumbline.formats import COMMAND_OUTPUTS
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


def test_its_criteria_name_its_metrics() -> None:
    box = container(
        primary="crate_rate", acceptance=("crate_rate >= 3/s in steady",), metrics={"crate_rate": {**RATE, "field": "box_rate"}}
    )
    assert box.acceptance[0].limit == 3.0
    known = box.catalogue["crate_rate"]
    assert box.acceptance[0].known == known and box.primary is not None and box.primary.known == known
    assert "crate_rate" not in METRICS and box.catalogue.keys() - METRICS.keys() == {"crate_rate"}
    assert (known.unit, known.direction, known.declared, known.warn, known.page) == ("1/s", "higher_is_better", True, 0.05, 0.10)


def test_a_metric_without_a_better_side_never_drifts() -> None:
    box = container(metrics={"box_rate": RATE, "box_size": {"unit": "bytes", "better": "none", "field": "box_rate"}})
    assert (box.catalogue["box_size"].direction, box.catalogue["box_size"].warn) == ("informative", None)


def test_two_workloads_with_one_name_keep_their_own_unit() -> None:
    lids = {"unit": "s", "better": "lower", "field": "box_rate"}
    timed = container(primary="lid_time", metrics={"lid_time": lids}, acceptance=("lid_time <= 900ms in steady",))
    counted = container(primary="lid_time", metrics={"lid_time": {**lids, "unit": "count"}}, acceptance=("lid_time <= 9 in steady",))
    assert [box.catalogue["lid_time"].unit for box in (timed, counted)] == ["s", "count"]
    assert [box.acceptance[0].limit for box in (timed, counted)] == [0.9, 9.0]  # type: ignore[union-attr]


def test_a_line_knows_its_metric_again_when_it_is_read_back() -> None:
    lids = {"unit": "s", "better": "lower", "field": "box_rate"}
    box = container(primary="lid_time", metrics={"lid_time": lids}, acceptance=("lid_time within 10% of baseline in steady",))
    again = ContainerWorkload.model_validate_json(box.model_dump_json())
    assert again == box and again.acceptance[0].known.unit == "s"
    assert again.acceptance[0].limited_by(2.0, "a baseline").known.unit == "s"  # type: ignore[union-attr]


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
    box = declared.workloads["small-box"]
    limits = declared.thresholds.drift_limits(box, box.catalogue["sheet_rate"])
    assert limits is not None and limits.page == 0.02


TEAM = """\
name: own
training:
  workloads: [small-box]
  weights: {NAMED: 0.5, command_time: 0.5}
  values: {NAMED: {worst: 1/s, best: 9/s}}
  gates: [NAMED >= 2/s in steady]
"""


def test_other_files_name_the_metrics_of_workloads(config: Path) -> None:
    (config / "workloads/training/small-box.yaml").write_text(BOX.replace("NAME", "small-box"))
    (config / "teams/own.yaml").write_text(TEAM.replace("NAMED", "sheet_rate"))
    thresholds = config / "thresholds.yaml"
    thresholds.write_text(thresholds.read_text().replace("  metrics:", "  metrics:\n    sheet_rate: {warn: 3%, page: 4%}"))
    declared = load(config)
    preference = declared.teams["own"].training
    assert preference is not None and preference.metric("sheet_rate").unit == "1/s" and preference.gates[0].known.unit == "1/s"
    assert declared.thresholds.drift.metrics["sheet_rate"].page == 0.04


def test_what_was_read_before_changes_nothing(config: Path) -> None:
    (config / "teams/own.yaml").write_text("name: own\ntraining: {workloads: [small-box], weights: {sheet_rate: 1.0}}\n")

    def read(unit: str, least: str) -> Declarations:
        box = BOX.replace("NAME", "small-box").replace("unit: 1/s", f"unit: {unit}").replace("2/s", least)
        (config / "workloads/training/small-box.yaml").write_text(box)
        return load(config)

    rates, counts = read("1/s", "2/s"), read("count", "2")
    for declared, unit in ((rates, "1/s"), (counts, "count")):
        preference = declared.teams["own"].training
        assert preference is not None and preference.metric("sheet_rate").unit == unit
        assert declared.workloads["small-box"].acceptance[0].known.unit == unit
    assert (read("1/s", "2/s"), read("count", "2")) == (rates, counts)


def test_a_metric_that_no_workload_declares_is_named_with_its_place(config: Path) -> None:
    (config / "workloads/training/small-box.yaml").write_text(BOX.replace("NAME", "small-box"))
    (config / "teams/own.yaml").write_text(TEAM.replace("NAMED", "sheets_rate"))
    with pytest.raises(DeclarationError) as raised:
        load(config)
    place, *_ = [problem for problem in raised.value.problems if problem.file.endswith("own.yaml")]
    assert (place.line, place.field) == (4, "training.weights.sheets_rate") and "such as sheet_rate" in place.message


def test_a_broken_workload_leaves_its_metrics_known(config: Path) -> None:
    (config / "workloads/training/small-box.yaml").write_text(BOX.replace("NAME", "small-box").replace("2/s", "two"))
    (config / "teams/own.yaml").write_text(TEAM.replace("NAMED", "sheet_rate"))
    with pytest.raises(DeclarationError) as raised:
        load(config)
    assert [problem.file.rpartition("/")[2] for problem in raised.value.problems] == ["small-box.yaml"]


def test_another_workload_s_metric_is_unknown(broken: Any, config: Path) -> None:
    (config / "workloads/training/small-box.yaml").write_text(BOX.replace("NAME", "small-box"))
    (config / "workloads/training/large-box.yaml").write_text(
        BOX.replace("NAME", "large-box").replace("sheet_rate: {unit", "lid_rate: {unit").replace("primary: sheet_rate", "primary: lid_rate")
    )
    with pytest.raises(DeclarationError) as raised:
        load(config)
    assert {problem.field.partition(".")[0].partition("[")[0] for problem in raised.value.problems} == {"acceptance", "drift"}


def test_one_name_has_one_unit(config: Path) -> None:
    (config / "workloads/training/large-box.yaml").write_text(BOX.replace("NAME", "large-box"))
    other = BOX.replace("NAME", "small-box").replace("unit: 1/s", "unit: count").replace("2/s", "2")
    (config / "workloads/training/small-box.yaml").write_text(other)
    with pytest.raises(DeclarationError) as raised:
        load(config)
    (problem,) = raised.value.problems
    assert (problem.file.rpartition("/")[2], problem.line, problem.field) == ("small-box.yaml", 10, "task.metrics.sheet_rate")
    assert problem.message == "is in count, better higher; expected these, or another name: large-box declares unit 1/s, better higher"


def test_no_metric_of_a_command_has_the_name_of_one_that_the_harness_measures() -> None:
    printed = {name for output in COMMAND_OUTPUTS.values() for name in output.metrics}
    better = {"higher_is_better": "higher", "lower_is_better": "lower", "informative": "none"}
    taken = []
    for name, known in METRICS.items():
        row = {"unit": known.unit, "better": better[known.direction], "field": "box_rate"}
        try:
            container(metrics={"box_rate": RATE, name: row})
        except ValidationError as error:
            taken += [name] if "is what the harness itself measures; expected another name" in str(error) or known.of_provider else []
    assert set(METRICS) - set(taken) == printed and {"command_time", "matmul_tflops"} <= set(taken)


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
