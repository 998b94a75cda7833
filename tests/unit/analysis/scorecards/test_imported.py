"""Runs of other tools beside a scorecard: a ratio only where load, lengths and definition are the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.fakes.trials import a_trial
from tests.unit.formats.test_tool_files import DATA, FILES
from tests.unit.scorecards.made import launched, number

from plumbline.analysis.scorecards.imported import ImportedComparison, compare_imported
from plumbline.analysis.scorecards.scorecard import Scorecard, scorecard
from plumbline.declarations import InferenceWorkload, load
from plumbline.declarations.installation import REPOSITORY
from plumbline.declarations.workloads.load import Arrivals
from plumbline.formats import read_benchmark_file
from plumbline.results.published import PublishedResult
from plumbline.results.published_files import published_results

DECLARED = load(REPOSITORY / "include" / "config")
CHAT = a_trial("inference").workload


def card(**measured: float) -> Scorecard:
    """A card that measured these medians in the steady phase."""
    return scorecard(
        [launched(1, kind="inference", metrics=tuple(number(name, value, statistic="p50") for name, value in measured.items()))]
    )


def results(change: Callable[[Any], None] = lambda content: None) -> list[PublishedResult]:
    """The runs of vLLM's file after a change, at 8 requests/s with the workload's lengths."""
    content = json.loads((DATA / FILES["vllm-bench"]).read_bytes())
    content.update(
        request_rate=12.0, request_throughput=12.0, total_input_tokens=24 * 40, total_output_tokens=16 * 40, output_throughput=192.0
    )
    change(content)
    raw = json.dumps(content).encode()
    assert isinstance(CHAT, InferenceWorkload)
    return published_results(read_benchmark_file(raw, "run.json", "vllm-bench"), raw, "run.json", DECLARED.providers["local-2core"], CHAT)


def compared(change: Callable[[Any], None] = lambda content: None, workload: Any = CHAT) -> ImportedComparison:
    (result,) = results(change)
    measured = card(request_latency=0.2, time_to_first_token=0.05, inter_token_latency=0.01)
    return compare_imported(result, measured, workload)


def ratio(found: ImportedComparison, metric: str, statistic: str = "p50") -> tuple[float | None, tuple[str, ...]]:
    figure = next(f for f in found.figures if (f.imported.metric, f.imported.statistic) == (metric, statistic))
    return figure.ratio, figure.why


def test_at_the_same_load_a_figure_of_the_same_definition_has_a_ratio() -> None:
    found = compared()
    assert found.differs == ()
    value, why = ratio(found, "request_latency")
    assert value == pytest.approx(0.2 / 0.1827637259993935) and why == ()
    assert ratio(found, "time_to_first_token") == (None, ("counted_from_send",))
    assert ratio(found, "inter_token_latency") == (None, ("itl_between_events",))
    assert ratio(found, "request_latency", "p99") == (None, ()), "nothing measured this statistic"


@pytest.mark.parametrize(
    "change",
    [
        {"request_rate": 12.7, "request_throughput": 12.7},
        {"request_rate": "inf", "max_concurrency": 8},
        {"burstiness": 0.5},
        {"total_input_tokens": 30 * 40},
        {"total_output_tokens": 12 * 40, "output_throughput": 12.0 * 12},
        {"request_rate": "inf", "ramp_up_strategy": "linear", "ramp_up_start_rps": 1, "ramp_up_end_rps": 15},
    ],
)
def test_another_load_or_other_lengths_have_no_ratio_and_are_named(change: dict[str, Any]) -> None:
    found = compared(lambda content: content.update(change))
    assert len(found.differs) == 1
    assert all(f.ratio is None and "other_load" in f.why for f in found.figures)


def compared_with(measured: Scorecard, workload: Any = CHAT, **fields: Any) -> ImportedComparison:
    """The run of vLLM's file with these fields beside that card."""
    (result,) = results(lambda content: content.update(fields))
    return compare_imported(result, measured, workload)


def value_card(**measured: float) -> Scorecard:
    """A card that measured these values in the steady phase, beside a latency."""
    metrics = [
        number("request_latency", 0.2, statistic="p50"),
        *(number(name, value, statistic="value") for name, value in measured.items()),
    ]
    return scorecard([launched(1, kind="inference", metrics=tuple(metrics))])


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"failed": 1}, ("failed_requests",)),  # 1 of 41
        ({"failed": None, "num_prompts": 41}, ("failed_requests",)),
        ({"num_prompts": 60}, ("unaccounted_requests", "unknown_errors")),
        ({}, ()),
    ],
)
def test_a_run_in_which_requests_failed_or_vanished_has_no_ratio(fields: dict[str, Any], why: tuple[str, ...]) -> None:
    value, reasons = ratio(compared_with(value_card(), **fields), "request_latency")
    assert (value is None, reasons) == (bool(why), why)


def test_failures_here_take_the_ratio_too() -> None:
    assert ratio(compared_with(value_card(error_rate=0.2)), "request_latency") == (None, ("failed_here",))


def test_answers_are_compared_as_long_as_they_were_not_as_declared() -> None:
    here = value_card(request_throughput=12.0, output_token_throughput=12.0 * 4)
    found = compared_with(here)
    assert ratio(found, "request_latency")[1] == ("other_load",) and found.differs == ("answers of 16 tokens on average; here 4",)
    assert compared_with(here, total_output_tokens=4 * 40, output_throughput=32.0).differs == ()


@pytest.mark.parametrize(("cv", "same"), [(0.5, True), (0.6, False)])
def test_gamma_arrivals_are_the_same_load_if_their_gaps_vary_alike(cv: float, same: bool) -> None:
    assert isinstance(CHAT, InferenceWorkload)
    gamma = Arrivals.model_validate({"gamma": {"rate": "12/s", "cv": cv}})
    phases = tuple(p.model_copy(update={"arrivals": gamma}) if getattr(p, "name", "") == "steady" else p for p in CHAT.phases)
    found = compared_with(value_card(), CHAT.model_copy(update={"phases": phases}), burstiness=4.0)  # cv = 1 / √4
    assert (found.differs == ()) == same


def test_without_a_card_or_a_workload_nothing_is_compared() -> None:
    (result,) = results()
    assert all(f.measured is None and f.ratio is None for f in compare_imported(result, None, CHAT).figures)
    assert len(compared(workload=None).differs) == 1


def test_a_run_that_its_tool_rejects_has_no_ratio() -> None:
    raw = (DATA / FILES["mlperf"]).read_bytes().replace(b'"result_validity", "value": "VALID"', b'"result_validity", "value": "INVALID"')
    assert isinstance(CHAT, InferenceWorkload)
    read = read_benchmark_file(raw, "log.txt", "mlperf")
    (result,) = published_results(read, raw, "log.txt", DECLARED.providers["local-2core"], CHAT)
    found = compare_imported(result, card(time_to_first_token=0.05), CHAT)
    assert result.validity.status == "invalid" and ratio(found, "time_to_first_token") == (None, ("other_load", "rejected_by_tool"))
