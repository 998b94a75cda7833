"""Teams: weights by metric and by group, value functions, further choices; each mistake is told with what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from plumbline.declarations import DeclarationError, Preference, Team, load, with_weights
from plumbline.declarations.teams import LinearValue


def made(**given: object) -> Preference:
    return Preference.model_validate({"workloads": ("chat",), **given})


def refused(**given: object) -> str:
    with pytest.raises(ValidationError) as raised:
        made(**given)
    errors = raised.value.errors()
    assert len(errors) == 1, errors
    return str(errors[0]["msg"])


def test_a_group_is_spread_evenly_over_its_metrics_and_reads_back_the_same() -> None:
    found = made(groups={"latency": ("time_to_first_token", "inter_token_latency")}, weights={"latency": 0.6, "cost_per_good_request": 0.4})
    assert found.weights == {"time_to_first_token": 0.3, "inter_token_latency": 0.3, "cost_per_good_request": 0.4}
    assert Preference.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize(
    ("groups", "weights", "name"),
    [
        ({"latency": ("time_to_ready",)}, {"latency": 1.0}, '"time_to_ready"'),
        ({"latency": ("time_to_first",)}, {"latency": 1.0}, '"time_to_first"'),
        ({"latency": ()}, {"latency": 1.0}, '"latency"'),
        ({"latency": ("queue_time",)}, {"latency": 0.5, "queue_time": 0.5}, '"queue_time"'),
        ({"latency": ("queue_time",)}, {"error_rate": 1.0}, '"latency"'),
        ({}, {"latency": 1.0}, '"latency"'),
        ({}, {"error_rate": 0.5}, "0.5; expected 1"),
        ({}, {"final_loss": 1.0}, '"final_loss"'),
    ],
)
def test_groups_and_weights_that_do_not_fit(groups: dict[str, object], weights: dict[str, object], name: str) -> None:
    assert name in refused(groups=groups, weights=weights)


@pytest.mark.parametrize(
    ("metric", "function", "said"),
    [
        ("cost_per_1k_requests", {"worst": "3USD", "best": "1USD"}, "expected ratio"),
        ("cost_per_1k_requests", {"worst": "3USD"}, "{worst: 3x best}"),
        ("cost_per_1k_requests", {"worst": "0.5x best"}, "worst 0.5x best"),
        ("cost_per_1k_requests", {"worst": "3x best", "best": "0.5x best"}, "expected 1x best"),
        ("time_to_first_token", {"worst": "2s"}, "a multiple of the best and a number"),
        ("time_to_first_token", {"worst": "200ms", "best": "2s"}, "worst 200ms"),
        ("time_to_first_token", {"worst": "2", "best": "1s"}, 'time_to_first_token: "2" has no unit; expected a duration such as 900ms'),
        ("output_token_throughput", {"worst": "9tokens/s", "best": "5tokens/s"}, "is better when higher"),
        ("error_rate", {"worst": "3x best"}, "{worst: 5%, best: 0%}"),
        ("error_rate", "steep", "'steep'"),
    ],
)
def test_value_functions_that_do_not_fit(metric: str, function: object, said: str) -> None:
    assert said in refused(weights={metric: 1.0}, values={metric: function})


@pytest.mark.parametrize(
    ("metric", "function", "ends"),
    [
        ("cost_per_1k_requests", {"worst": "3x best"}, (3.0, 1.0)),
        ("cost_per_1k_requests", {"worst": "3x best", "best": "1.5x best"}, (3.0, 1.5)),
        ("time_to_first_token", {"worst": "2s", "best": "200ms"}, (2.0, 0.2)),
        ("output_token_throughput", {"worst": "0.2x best"}, (0.2, 1.0)),
        ("error_rate", {"worst": "5%", "best": "0%"}, (0.05, 0.0)),
    ],
)
def test_value_functions_that_fit(metric: str, function: object, ends: tuple[float, float]) -> None:
    from plumbline.metrics import METRICS

    assert made(weights={metric: 1.0}, values={metric: function}).values[metric].ends(METRICS[metric]) == pytest.approx(ends)
    assert made(weights={metric: 1.0}, values={metric: "ratio"}).values == {}


def test_a_value_function_of_what_nobody_weighs() -> None:
    assert '"queue_time"' in refused(weights={"error_rate": 1.0}, values={"queue_time": {"worst": "2s", "best": "1s"}})


def test_weights_moved_by_hand_leave_the_others_in_proportion() -> None:
    before = made(
        groups={"latency": ("time_to_first_token", "inter_token_latency")},
        weights={"latency": 0.6, "error_rate": 0.4},
        values={"error_rate": {"worst": "5%", "best": "0%"}},
    )
    assert with_weights(before, {"error_rate": 0.7}).weights == pytest.approx(
        {"time_to_first_token": 0.15, "inter_token_latency": 0.15, "error_rate": 0.7}
    )
    gone = with_weights(before, {"error_rate": 0.0})
    assert (gone.weights, gone.values) == ({"time_to_first_token": 0.5, "inter_token_latency": 0.5}, {})
    assert with_weights(before, {"error_rate": 1.0}).weights == {"error_rate": 1.0}
    assert with_weights(before, {"error_rate": 0.4}).values == {"error_rate": LinearValue(worst="5%", best="0%")}
    assert Preference.model_validate_json(gone.model_dump_json()) == gone
    for wrong, value in (
        ({"queue_time": 0.5}, '"queue_time"'),
        ({"error_rate": 1.5}, "error_rate=1.5"),
        ({"error_rate": 0.8, "time_to_first_token": 0.4}, "1.2; expected at most 1"),
        ({"error_rate": 0.2, "time_to_first_token": 0.2, "inter_token_latency": 0.2}, "0.6; expected 1"),
    ):
        with pytest.raises(ValueError, match=value):
            with_weights(before, wrong)


def test_further_choices_of_a_team_are_about_workloads_of_their_own() -> None:
    one = {"workloads": ("chat",), "weights": {"error_rate": 1.0}}
    other = {**one, "workloads": ("chat-8b",)}
    team = Team.model_validate({"name": "a", "inference": one, "also": {"inference": (other,)}})
    assert [p.workloads for p in team.preferences("inference")] == [("chat",), ("chat-8b",)]
    assert team.preferences("training") == ()
    with pytest.raises(ValidationError, match='"chat"'):
        Team.model_validate({"name": "a", "inference": one, "also": {"inference": (one,)}})
    with pytest.raises(ValidationError, match="training"):
        Team.model_validate({"name": "a", "also": {"inference": (one,)}})


def test_a_further_choice_that_names_no_workload_is_told_with_its_line(config: Path) -> None:
    path = config / "teams/platform.yaml"
    path.write_text(path.read_text() + "also:\n  training:\n    - workloads: [nobody]\n      weights: {step_time: 1.0}\n")
    with pytest.raises(DeclarationError) as raised:
        load(config)
    (problem,) = raised.value.problems
    assert (problem.file, problem.line, problem.field) == ("config/teams/platform.yaml", 7, "also.training[0].workloads[0]")
    assert '"nobody"' in problem.message


def test_a_value_function_in_a_file_is_told_with_its_line(config: Path) -> None:
    path = config / "teams/platform.yaml"
    path.write_text(path.read_text() + "  values:\n    step_time: {worst: 1s, best: 2s}\n")
    with pytest.raises(DeclarationError) as raised:
        load(config)
    (problem,) = raised.value.problems
    assert (problem.file, problem.line, problem.field) == ("config/teams/platform.yaml", 6, "training.values.step_time")


@pytest.mark.parametrize("cost", ["cost_per_run", "cost_per_finished_run"])
@pytest.mark.parametrize("field", ["weights", "gates"])
def test_the_cost_of_an_inference_run_decides_nothing(field: str, cost: str) -> None:
    """Its length is the benchmark's own."""
    changed = {"weights": {cost: 1.0}} if field == "weights" else {"weights": {"error_rate": 1.0}, "gates": (f"{cost} <= 4USD in steady",)}
    for preferences in (
        {"inference": {"workloads": ("chat",), **changed}},
        {"training": {"workloads": ("gpt",), "weights": {"step_time": 1.0}}, "also": {"inference": ({"workloads": ("chat",), **changed},)}},
    ):
        with pytest.raises(ValidationError, match=f"{field}: {cost}.*cost_per_good_request"):
            Team.model_validate({"name": "a", **preferences})
    trained = {"workloads": ("gpt",), "weights": {cost: 1.0}}
    assert Team.model_validate({"name": "a", "training": trained}).training is not None


@pytest.mark.parametrize(
    ("file", "added", "field"),
    [
        ("teams/platform.yaml", "inference:\n  workloads: [chat]\n  weights: {cost_per_run: 1.0}\n", "inference"),
        ("workloads/inference/chat.yaml", "  - cost_per_run <= 4USD in steady\n", "acceptance[2]"),
        ("workloads/inference/chat.yaml", "primary: cost_per_finished_run in steady\n", "primary"),
    ],
)
def test_the_cost_of_an_inference_run_is_told_with_file_and_field(config: Path, file: str, added: str, field: str) -> None:
    path = config / file
    path.write_text(path.read_text() + added)
    with pytest.raises(DeclarationError) as raised:
        load(config)
    (problem,) = raised.value.problems
    assert problem.file == f"config/{file}" and problem.field.startswith(field) and problem.line > 1
    assert "cost_per_good_request" in problem.message
