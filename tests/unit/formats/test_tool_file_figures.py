"""What a tool writes but did not measure is not imported: zeros, contradicted rates, error rates without proof; and other tools' files are named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.formats.test_tool_files import DATA, FILES, declared, edited, read

from plumbline.formats import TOOL_FILES, UnreadableFile, read_benchmark_file
from plumbline.formats.reading.run import LATENCIES, Run
from plumbline.results.published_files import published_results

Change = Callable[[Any], Any]


def updated(**fields: Any) -> Change:
    return lambda content: content.update(fields)


def phase(**fields: Any) -> Change:
    """The one phase of AIPerf's sample with these fields alone."""
    return edited("input_config.phases", [{"kind": "profiling", **fields}])


def all_of(*changes: Change) -> Change:
    """One change after the other."""

    def change(content: Any) -> None:
        for one in changes:
            one(content)

    return change


def one(tool: str, *changes: Change) -> Run:
    """The first run of the tool's sample after these changes."""
    if tool == "sglang":
        content = json.loads((DATA / FILES[tool]).read_bytes().splitlines()[0])
        all_of(*changes)(content)
        return read_benchmark_file(json.dumps(content).encode(), FILES[tool], tool).runs[0]
    return read(tool, all_of(*changes)).runs[0]


def codes(run: Run) -> set[str]:
    return {gap.code for gap in run.gaps}


def zeroed(content: Any) -> None:
    """As vLLM writes a run whose completed requests answered nothing."""
    content.update({name: 0.0 for name in content if name.endswith("_ms")}, total_output_tokens=0, output_throughput=0.0)


def older_aiperf(content: Any) -> None:
    """The layout before `aiperf_version`, of three requests at a time."""
    for name in ("aiperf_version", "schema_version", "is_complete", "request_error_rate"):
        del content[name]
    del content["input_config"]["phases"]
    content["input_config"]["loadgen"] = {"concurrency": 4, "request_count": 40}


def older_guidellm(content: Any) -> None:
    """The layout of 0.2 and 0.3: the strategy in args, totals and statistics of the run beside the metrics, no metadata."""
    del content["metadata"]
    for benchmark in content["benchmarks"]:
        benchmark.update(args=benchmark.pop("config"), run_stats={}, request_totals=benchmark["metrics"].pop("request_totals"))


def nothing_succeeded(benchmark: dict[str, Any]) -> None:
    benchmark["metrics"]["request_totals"] = {"successful": 0, "errored": 8, "incomplete": 0, "total": 8}
    for summaries in benchmark["metrics"].values():
        if summaries and isinstance(summaries["successful"], dict):
            zeros = {name: 0 for name in summaries["successful"] if name != "percentiles"}
            percentiles = summaries["successful"].get("percentiles") or {}
            summaries["successful"] = {**zeros, "percentiles": dict.fromkeys(percentiles, 0)}


# A tool's 0.


def test_answers_without_a_token_have_no_latencies_and_what_did_not_complete_failed() -> None:
    run = one("vllm-bench", zeroed, updated(completed=17, num_prompts=1000), edited("failed"))
    assert not {m.metric for m in run.metrics} & {*LATENCIES, "inter_token_latency", "output_token_throughput"}
    assert run.value("error_rate") == pytest.approx(0.983) and "failed_requests" in codes(run)


@pytest.mark.parametrize(
    ("tool", "path", "metric"),
    [
        ("aiperf", "time_to_first_token", "time_to_first_token"),
        ("genai-perf", "inter_token_latency", "time_per_output_token"),
        ("inference-perf", "successes.latency.time_to_first_token", "time_to_first_token"),
        ("guidellm", "benchmarks.0.metrics.time_to_first_token_ms.successful", "time_to_first_token"),
    ],
)
def test_a_zero_in_the_middle_of_a_latency_is_no_measurement(tool: str, path: str, metric: str) -> None:
    content = json.loads((DATA / FILES[tool]).read_bytes())
    part = content
    for name in path.split("."):
        part = part[int(name)] if isinstance(part, list) else part[name]
    middle = next(name for name in ("median", "p50") if name in part)
    assert one(tool).value(metric, "mean") is not None
    run = one(tool, edited(f"{path}.{middle}", 0.0))
    assert metric not in {m.metric for m in run.metrics} and "missing_metrics" in codes(run)


def test_gaps_between_tokens_of_one_event_may_be_zero() -> None:
    assert one("inference-perf", edited("successes.latency.inter_token_latency.median", 0.0)).value("inter_token_latency") == 0.0


def test_an_empty_row_of_a_csv_is_a_run_without_a_figure_beside_the_others() -> None:
    header, first, *_ = (DATA / FILES["perf_analyzer"]).read_text().splitlines()
    empty = ",".join(["8", *("0" for _ in header.split(",")[1:])])
    raw = f"{header}\n{first}\n{empty}\n".encode()
    results = published_results(read_benchmark_file(raw, "r.csv", "perf_analyzer"), raw, "r.csv", *declared(), DAY)
    assert [r.validity.status for r in results] == ["valid", "invalid"]
    assert results[1].validity.reasons[0].code == "nothing_observed" and results[1].metrics[0].value is None


# Errors.


@pytest.mark.parametrize(
    ("tool", "changes", "rate", "lost"),
    [
        ("vllm-bench", [updated(completed=30, num_prompts=40), edited("failed")], 0.25, None),
        ("vllm-bench", [updated(completed=30, num_prompts=40, failed=4)], None, "6 of 40"),
        ("llmperf", [updated(results_num_requests_started=50)], None, "10 of 50"),
        ("llmperf", [updated(results_num_completed_requests_per_min=26.5)], None, "4 of 44"),  # 40 / 26.5 a minute = 90.6 s
        ("llmperf", [updated(results_num_completed_requests_per_min=28.0)], 0.0, None),
        ("inference-perf", [edited("load_summary.count", 44)], None, "4 of 44"),
        ("inference-perf", [edited("load_summary.count", 50), edited("failures.count", 10)], 0.2, None),
        ("guidellm", [edited("benchmarks.0.metrics.request_totals.total", 42)], None, "2 of 42"),
        ("guidellm", [edited("benchmarks.0.metrics.request_totals", {"successful": 40, "errored": 0, "incomplete": 3, "total": 43})], 0.0, None),
        ("aiperf", [edited("input_config.phases.0.requests", 45)], None, "5 of 45"),
        ("aiperf", [phase(type="concurrency", concurrency=4, requests=45, duration=60)], 0.0, None),
        ("sglang", [updated(completed=0, total_output_tokens=0)], 1.0, None),
        ("sglang", [updated(completed=96, errors=["", "refused"] * 60, total_output_tokens=96 * 48, request_throughput=3.2, output_throughput=153.6)], 0.2, None),
        ("aiperf", [updated(error_summary=[{"count": 10}], error_request_count={"unit": "requests", "avg": 10.0})], 0.2, None),
    ],
)  # fmt: skip
def test_the_error_rate_comes_from_what_was_attempted(tool: str, changes: list[Change], rate: float | None, lost: str | None) -> None:
    run = one(tool, *changes)
    assert run.value("error_rate") == (None if rate is None else pytest.approx(rate))
    details = [gap.detail for gap in run.gaps if gap.code == "unaccounted_requests"]
    assert [detail.startswith(f"{lost} requests") for detail in details] == ([] if lost is None else [True])


def test_a_load_in_which_nothing_succeeded_is_a_run_of_errors_beside_the_others() -> None:
    found = read("guidellm", lambda content: nothing_succeeded(content["benchmarks"][1]))
    good, bad = found.runs
    assert good.value("request_latency") == pytest.approx(read("guidellm").runs[0].value("request_latency"))
    assert [(m.metric, m.value) for m in bad.metrics] == [("error_rate", 1.0)] and "failed_requests" in codes(bad)


@pytest.mark.parametrize(
    ("tool", "changes"),
    [
        ("vllm-bench", [zeroed, updated(completed=0, request_throughput=0.0, failed=40)]),
        ("inference-perf", [edited("successes.count", 0), edited("failures.count", 40), edited("successes.latency", {}), edited("successes.throughput", {})]),
        ("aiperf", [updated(request_count=None, request_latency=None, request_throughput=None, time_to_first_token=None, inter_token_latency=None,
                            output_token_throughput=None, error_request_count={"unit": "requests", "avg": 40})]),
    ],
)  # fmt: skip
def test_a_run_of_errors_has_no_other_figure(tool: str, changes: list[Change]) -> None:
    assert [(m.metric, m.value) for m in one(tool, *changes).metrics] == [("error_rate", 1.0)]


# Rates.


def test_requests_in_flight_over_their_latency_replace_a_rate_that_they_and_the_tokens_contradict() -> None:
    at = "benchmarks.0.metrics"
    latency, tokens = 0.18798907399177553, 24.0
    in_flight = edited(f"{at}.request_concurrency", {"successful": {"mean": 1.9}})
    by_time = 1.9 / latency  # 10.107 requests/s
    measured = [in_flight, edited(f"{at}.output_tokens_per_second.successful.mean", by_time * tokens)]
    run = one("guidellm", *measured, edited(f"{at}.requests_per_second.successful.mean", 7.5))
    assert run.value("request_throughput") == pytest.approx(by_time) and "rate_contradicted" in codes(run)
    run = one("guidellm", *measured, edited(f"{at}.requests_per_second.successful.mean", by_time * 1.022))
    assert run.value("request_throughput") == pytest.approx(by_time), "2 % off, two figures against it"
    run = one("guidellm", *measured, edited(f"{at}.requests_per_second.successful.mean", by_time * 1.005))
    assert run.value("request_throughput") == pytest.approx(by_time * 1.005) and "rate_contradicted" not in codes(run)


def test_rates_that_contradict_each_other_or_the_loop_are_not_imported() -> None:
    run = one("vllm-bench", updated(request_throughput=9.0))
    assert run.value("request_throughput") is None and run.value("output_token_throughput") is None
    assert "rate_contradicted" in codes(run)
    run = one(
        "genai-perf", edited("request_throughput.avg", 60.0), edited("output_token_throughput.avg", 60.0 * 24)
    )  # 4 at a time of 178 ms
    assert run.value("request_throughput") is None and "rate_contradicted" in codes(run)


def test_inferences_of_a_batch_are_not_requests() -> None:
    raw = (DATA / FILES["perf_analyzer"]).read_text().replace("10.664", "85.312").encode()
    first, second = read_benchmark_file(raw, "report.csv", "perf_analyzer").runs
    assert first.value("request_throughput") == pytest.approx(85.312 / 8) and "inferences_of_a_batch" in codes(first)
    assert second.value("request_throughput") == pytest.approx(21.9804) and "inferences_of_a_batch" not in codes(second)


# Loads.


@pytest.mark.parametrize(
    ("tool", "changes", "load", "code"),
    [
        ("vllm-bench", [updated(request_rate="inf", ramp_up_strategy="linear", ramp_up_start_rps=1, ramp_up_end_rps=20)],
         "open loop, poisson arrivals, linear ramp from 1 to 20 requests/s", "load_varies"),
        ("vllm-bench", [updated(max_concurrency=2, request_rate=40)],
         "open loop, poisson arrivals at 40 requests/s, at most 2 at a time", "concurrency_limited"),
        ("vllm-bench", [updated(burstiness=4.0)], "open loop, gamma (burstiness 4) arrivals at 5 requests/s", "counted_from_send"),
        ("aiperf", [phase(type="poisson", rate_series={"points": []})],
         "open loop, poisson arrivals, a series of rates", "load_varies"),
        ("aiperf", [phase(type="constant", rate=20, rate_ramp={"duration": 5})],
         "open loop, constant arrivals at 20 requests/s, a ramp of the rate at the start", "load_varies"),
        ("aiperf", [lambda c: c["input_config"]["phases"].append({"kind": "profiling", "type": "concurrency", "concurrency": 8})],
         "unknown load, 2 phases one after another", "load_varies"),
        ("guidellm", [edited("benchmarks.0.config.strategy.rampup_duration", 30.0)],
         "closed loop, 2 requests at a time, a ramp over 30 s at the start", "load_varies"),
        ("guidellm", [edited("benchmarks.0.config.strategy", {"type_": "throughput", "max_concurrency": 16})],
         "closed loop, 16 requests at a time", "closed_loop"),
        ("sglang", [updated(request_rate="trace")], "unknown load, a trace's arrival times", "load_varies"),
        ("sglang", [edited("request_rate"), edited("dataset_name")], "unknown load", "unknown_load"),
        ("inference-perf", [edited("load_summary.achieved_rate", 2.0)], "open loop, 5 requests/s", "rate_differs"),
    ],
)  # fmt: skip
def test_the_load_is_named_from_all_its_fields(tool: str, changes: list[Change], load: str, code: str) -> None:
    run = one(tool, *changes)
    assert str(run.load) == load and code in codes(run)


def test_a_late_client_is_late_in_seconds() -> None:
    run = one("inference-perf", edited("load_summary.schedule_delay.p99", 88.7))
    assert any("at most 88.7 s after" in gap.detail for gap in run.gaps)


# Layouts.


def test_optional_figures_may_be_missing_or_not_finite() -> None:
    run = one(
        "llmperf", updated(results_ttft_s_stddev=float("nan"), results_number_input_tokens_mean=None, results_ttft_s_mean=float("inf"))
    )
    assert run.value("time_to_first_token") is not None and "input_tokens" not in run.asked
    bare = [edited(f"{name}_ttft_ms") for name in ("mean", "std", "median", "p50", "p90", "p95", "p99")]
    assert one("vllm-bench", *bare).value("time_per_output_token") is not None


def test_json_lines_are_a_run_a_line_each_of_its_own_day() -> None:
    content = json.loads((DATA / FILES["vllm-bench"]).read_bytes())
    later = {**content, "date": "20261124-000103", "request_rate": 6.0}
    raw = f"{json.dumps(content)}\n{json.dumps(later)}\n".encode()
    results = published_results(read_benchmark_file(raw, "runs.json", "vllm-bench"), raw, "runs.json", *declared())
    assert [(r.spec["load.rate"], r.published_at.day) for r in results] == [(5.0, 23), (6.0, 24)]
    with pytest.raises(UnreadableFile, match="line 2 is not whole JSON"):
        read_benchmark_file(raw[:-40], "runs.json", "vllm-bench")
    with pytest.raises(UnreadableFile, match=r"line 2\.request_rate is missing"):
        read_benchmark_file(raw.replace(json.dumps(later).encode(), b'{"num_prompts": 4}'), "runs.json", "vllm-bench")


def test_older_layouts_are_read() -> None:
    old, new = read("aiperf", older_aiperf), read("aiperf")
    assert old.version == "layout before aiperf_version"
    assert (old.runs[0].load, old.runs[0].metrics) == (new.runs[0].load, new.runs[0].metrics)
    old, new = read("guidellm", older_guidellm), read("guidellm")
    assert old.version == "layout 0.2 to 0.3"
    assert [(r.load, [m.value for m in r.metrics]) for r in old.runs] == [(r.load, [m.value for m in r.metrics]) for r in new.runs]
    totals = {"successes.prompt_tokens": {"total": 8000.0}, "successes.output_tokens": {"total": 1000.0}}
    run = one("inference-perf", *(edited(path, value) for path, value in totals.items()))
    assert (run.asked["input_tokens"], run.asked["output_tokens"]) == (200.0, 25.0)


def test_genai_perfs_flat_command_line_is_read() -> None:
    def older(content: Any) -> None:
        content["input_config"] = {"model": ["tiny"], "service_kind": "openai", "streaming": True, "concurrency": 4, "request_rate": None}
        del content["request_count"]

    old, new = one("genai-perf", older), one("genai-perf")
    assert (str(old.load), old.requests) == (str(new.load), None)
    assert [m.value for m in old.metrics] == [m.value for m in new.metrics]


def test_the_servers_count_of_tokens_does_not_contradict_the_clients() -> None:
    at = "successes.throughput.output_tokens_per_sec"
    by_server = 6.0205401658052935 * 24  # use_server_output_tokens, 7 % below the client's count
    run = one("inference-perf", edited(at, by_server))
    assert run.value("output_token_throughput") == pytest.approx(by_server) and "rate_contradicted" not in codes(run)


def test_a_load_generator_that_does_not_count_errors_leaves_them_unknown() -> None:
    file = "mlperf-loadgen-6.0.17-offline.txt"
    kept = [line for line in (DATA / file).read_text().splitlines() if '"num_errors"' not in line]
    (run,) = read_benchmark_file("\n".join(kept).encode(), file, "mlperf").runs
    assert run.value("error_rate") is None and run.value("request_throughput")


# Other kinds of files.


@pytest.mark.parametrize(
    ("tool", "content", "kind"),
    [
        ("vllm-bench", {"num_prompts": 9, "request_rate": 1, "completed": 9, "date": "20260101-000000", "median_ttft": 0.1}, "InferenceX"),
        ("vllm-bench", {"avg_latency": 4.0, "latencies": [4.0], "percentiles": {"50": 4.0}}, "vllm bench latency"),
        ("vllm-bench", {"elapsed_time": 4.0, "requests_per_second": 1.0, "tokens_per_second": 9.0}, "vllm bench throughput"),
        ("inference-perf", {"load_summary": {}, "successes": {"count": 9, "rate": 1.0}, "failures": {}}, "Prometheus"),
        ("llmperf", [{"ttft_s": 0.1, "end_to_end_latency_s": 1.0}], "a row a request"),
        ("llmperf", {"1": {"concurrency": 1, "first-time-to-token_mean_in_ms": 190.0}}, "by concurrency"),
        ("aiperf", [{"metadata": {"request_start_ns": 4}, "metrics": {}}], "a row a request"),
        ("aiperf", {"metadata": {"aggregation_type": "confidence"}, "metrics": {}}, "aggregate"),
        ("guidellm", "benchmarks:\n- type_: generative_benchmark\n", "YAML"),
        ("guidellm", {"version": "0.2", "run": {}, "scenario": {}, "results": {}}, "llm-d"),
        ("guidellm", {"benchmarks": [{"mode": "sweep"}]}, "before 0.2"),
        ("guidellm", "version: '0.2'\n\nrun:\n  uid: a\nscenario:\n", "llm-d"),
        ("vllm-bench", "prompt_tokens,generation_tokens,ttft,generation_time\n7,2,0.1,0.9\n", "LMBench"),
        ("vllm-bench", "Successful requests,Benchmark duration (s),Mean TTFT (ms)\n9,2,4\n", "console output"),
        ("mlperf", "================\nMLPerf Results Summary\n================\n", "mlperf_log_summary.txt"),
        ("mlperf", '"pid": 4, "tid": 4, "ts": 10ns : LoadgenVersionInfo:\n', "before 1.0"),
        ("mlperf", '3: :::MLLOG {"namespace": "", "key": "submission_benchmark", "value": "x"}\n', "MLPerf Training"),
        ("aiperf", "Concurrency,Inferences/Second,p50 latency\n1,2,3\n", "one of perf_analyzer"),
    ],
)  # fmt: skip
def test_a_file_of_another_kind_is_named(tool: str, content: Any, kind: str) -> None:
    raw = content.encode() if isinstance(content, str) else json.dumps(content).encode()
    with pytest.raises(UnreadableFile) as refused:
        read_benchmark_file(raw, "result", tool)
    assert str(refused.value).startswith("result: the file is ") and kind in str(refused.value)
    assert str(refused.value).endswith(f"; expected {TOOL_FILES[tool].file}")


DAY = read("aiperf").day


@pytest.mark.parametrize("file", sorted(path.name for path in Path(DATA).iterdir() if path.suffix != ".md"))
def test_no_sample_is_taken_for_another_kind(file: str) -> None:
    tool = next(name for name in sorted(TOOL_FILES, key=len, reverse=True) if file.startswith(name))
    assert read_benchmark_file((DATA / file).read_bytes(), file, tool).tool == tool
