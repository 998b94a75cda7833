"""Files of nine benchmark tools: each figure from its own field, each gap by its code, each damage by its field."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from plumbline.declarations import InferenceWorkload, Provider, load
from plumbline.declarations.installation import REPOSITORY
from plumbline.formats import TOOL_FILES, BenchmarkFile, JsonFile, UnreadableFile, read_benchmark_file
from plumbline.results.published_files import published_results

DATA = Path(__file__).parents[2] / "data/imported_results"
FILES = {
    "aiperf": "aiperf-0.13.0.json",
    "genai-perf": "genai-perf-0.0.16.json",
    "perf_analyzer": "perf_analyzer-2.60.0.csv",
    "vllm-bench": "vllm-bench-0.32.0.json",
    "sglang": "sglang.jsonl",
    "guidellm": "guidellm-0.8.1.json",
    "inference-perf": "inference-perf-0.7.0.json",
    "llmperf": "llmperf.json",
    "mlperf": "mlperf-loadgen-6.0.17-server.txt",
}
JSON_TOOLS = [tool for tool, name in FILES.items() if not name.endswith((".csv", ".txt"))]
CLOSED = {"closed_loop", "coordinated_omission"}
TIMES = ("p50", "p99")
E2EL = [f"{name}_e2el_ms" for name in ("mean", "std", "median", "p50", "p90", "p95", "p99")]
"""What vLLM leaves out by default."""


def read(tool: str, change: Callable[[Any], Any] | None = None) -> BenchmarkFile:
    """The tool's file, after `change` to its JSON."""
    raw = (DATA / FILES[tool]).read_bytes()
    if change is not None:
        content = json.loads(raw)
        change(content)
        raw = json.dumps(content).encode()
    return read_benchmark_file(raw, FILES[tool], tool)


def edited(path: str, value: Any = ...) -> Callable[[Any], None]:
    """Sets the field at a dotted path, or deletes it."""

    def change(content: Any) -> None:
        *parents, last = path.split(".")
        for name in parents:
            content = content[int(name)] if isinstance(content, list) else content[name]
        if value is ...:
            del content[last]
        else:
            content[last] = value

    return change


@pytest.mark.parametrize(
    ("tool", "version", "day", "loads", "first", "gaps"),
    [
        ("aiperf", "0.13.0", date(2026, 11, 23), ["concurrency-4"],
         {"time_to_first_token": (0.042146869, 0.0639526489), "time_per_output_token": (0.005605200666666667, 0.00761683025),
          "request_latency": (0.1780923, 0.23738595251), "request_throughput": 19.64114468844615, "error_rate": 0.0},
         CLOSED | {"few_requests", "tpot_as_itl", "tokens_counted_by_client"}),
        ("genai-perf", None, None, ["concurrency-4"],
         {"time_to_first_token": (0.035883007, 0.05861841924), "request_throughput": 22.27881589766643},
         CLOSED | {"few_requests", "tpot_as_itl", "missing_metrics"}),
        ("perf_analyzer", None, None, ["concurrency-2", "concurrency-4"],
         {"request_latency": (0.179535, 0.198784), "request_throughput": 10.664},
         CLOSED | {"missing_metrics", "unknown_count"}),
        ("vllm-bench", None, date(2026, 11, 23), ["rate-5"],
         {"time_per_output_token": (0.006199297934749072, 0.007622038073920481), "inter_token_latency": (0.006214178, 0.012144697529),
          "output_token_throughput": 116.9013383668443},
         {"counted_from_send", "few_requests", "itl_between_events"}),
        ("sglang", None, None, ["rate-4", "concurrency-8"],
         {"time_to_first_token": (0.04, 0.08), "time_per_output_token": (0.00975, 0.012675), "request_latency": (0.5, 0.8),
          "request_throughput": 4.0, "output_token_throughput": 192.0},
         {"counted_from_send", "missing_metrics", "missing_percentiles", "itl_between_events"}),
        ("guidellm", "0.8.1", date(2026, 11, 23), ["concurrency-2", "concurrency-4"],
         {}, CLOSED | {"few_requests", "tpot_as_itl", "tpot_includes_first_token"}),
        ("inference-perf", None, None, ["rate-5"],
         {"time_to_first_token": (0.03894586749993323, 0.05447965771090821), "time_per_output_token": (0.005226084928707797, 0.00655216151636),
          "inter_token_latency": (0.0, 0.009116405658915033)},
         {"counted_from_send", "rate_differs", "few_requests", "itl_between_tokens_of_events", "client_delay", "tokens_counted_by_client"}),
        ("llmperf", "layout 2023-08-31", date(2026, 11, 23), ["concurrency-4"],
         {"time_to_first_token": (0.047145774000455276, 0.07633059112999034), "request_throughput": 262.89637055850017 / 60},
         CLOSED | {"few_requests", "missing_metrics", "itl_includes_first_token"}),
        ("mlperf", "6.0.17", date(2026, 11, 23), ["rate-20"],
         {"request_scheduled_latency": (0.187676512, 0.233377894), "time_per_output_token": (0.006471866, None)}, set()),
    ],
)  # fmt: skip
def test_figures_are_in_the_catalogues_units_and_gaps_are_named(
    tool: str, version: str | None, day: date | None, loads: list[str], first: dict[str, Any], gaps: set[str]
) -> None:
    found = read(tool)
    assert (found.tool, found.version, found.day) == (tool, version, day)
    assert [run.load.name for run in found.runs] == loads
    run = found.runs[0]
    for metric, expected in first.items():
        pairs = [("value", expected)] if isinstance(expected, float) else list(zip(TIMES, expected, strict=True))
        for statistic, value in pairs:
            assert value is None or run.value(metric, statistic) == pytest.approx(value, rel=1e-6), (metric, statistic)
    assert {gap.code for gap in run.gaps} == gaps
    assert all(row.method for row in run.metrics), "each figure names the file's field"


def test_guidellms_own_tpot_is_left_out_for_its_inter_token_latency() -> None:
    raw = (DATA / "guidellm-0.8.1-poisson.json").read_bytes()
    (run,) = read_benchmark_file(raw, "guidellm.json", "guidellm").runs
    metrics = json.loads(raw)["benchmarks"][0]["metrics"]
    assert run.value("time_per_output_token") == pytest.approx(metrics["inter_token_latency_ms"]["successful"]["median"] / 1e3)
    assert run.value("request_scheduled_latency", "p99") == metrics["request_scheduled_latency"]["successful"]["percentiles"]["p99"]
    assert (run.load.kind, run.load.rate, run.load.arrivals) == ("open", 5.0, "poisson")
    assert {"counted_from_send", "rate_differs"} <= {gap.code for gap in run.gaps}


def test_perf_analyzers_server_times_are_tritons() -> None:
    file = "perf_analyzer-2.60.0-triton.csv"
    raw = (DATA / file).read_bytes()
    one, two = read_benchmark_file(raw, file, "perf_analyzer").runs
    assert one.value("queue_time") == pytest.approx(24e-6) and two.value("queue_time") == pytest.approx(92e-6)
    assert one.value("compute_time") == pytest.approx((9 + 266 + 92) * 1e-6)
    assert (one.value("request_latency", "mean"), one.value("request_latency")) == (pytest.approx(545e-6), pytest.approx(225e-6))
    short = b"".join(b",".join(line.split(b",")[:13]) + b"\n" for line in raw.splitlines())
    assert read_benchmark_file(short, file, "perf_analyzer").runs[0].value("request_latency", "mean") is None, "without --verbose-csv"


def test_llmperfs_inter_token_latency_is_in_no_figure() -> None:
    (run,) = read("llmperf").runs
    assert not {"inter_token_latency", "time_per_output_token"} & {row.metric for row in run.metrics}


@pytest.mark.parametrize(
    ("file", "load", "invalid", "metrics"),
    [
        ("mlperf-loadgen-6.0.17-single-stream.txt", "concurrency-1", 1, {"request_latency", "time_to_first_token"}),
        ("mlperf-loadgen-6.0.17-offline.txt", "at-once", 1, {"request_throughput"}),
    ],
)
def test_scenarios_of_mlperf(file: str, load: str, invalid: int, metrics: set[str]) -> None:
    (run,) = read_benchmark_file((DATA / file).read_bytes(), file, "mlperf").runs
    found = {row.metric for row in run.metrics}
    assert (run.load.name, len(run.invalid)) == (load, invalid) and metrics <= found
    assert ("request_latency" in found) == (load == "concurrency-1")


@pytest.mark.parametrize("tool", FILES)
@pytest.mark.parametrize("share", [0.0, 0.5, 0.97])
def test_a_truncated_file_is_refused(tool: str, share: float) -> None:
    raw = (DATA / FILES[tool]).read_bytes()
    with pytest.raises(UnreadableFile, match=FILES[tool]):
        read_benchmark_file(raw[: int(share * len(raw))], FILES[tool], tool)


@pytest.mark.parametrize("tool", JSON_TOOLS)
@pytest.mark.parametrize("other", FILES)
def test_a_file_of_another_tool_is_refused_by_a_field_that_it_lacks(tool: str, other: str) -> None:
    if tool == other:
        return
    with pytest.raises(UnreadableFile) as refused:
        read_benchmark_file((DATA / FILES[other]).read_bytes(), FILES[other], tool)
    assert str(refused.value).endswith(other) == (other in JSON_TOOLS), refused.value
    assert other in str(refused.value)
    chosen = TOOL_FILES[tool]
    if other in JSON_TOOLS:
        assert isinstance(chosen, JsonFile) and any(f"{mark} is missing" in str(refused.value) for mark in chosen.marks)


@pytest.mark.parametrize("tool", ["perf_analyzer", "mlperf"])
@pytest.mark.parametrize("other", FILES)
def test_a_file_that_is_no_csv_or_log_is_refused(tool: str, other: str) -> None:
    if tool == other:
        return
    with pytest.raises(UnreadableFile, match=FILES[other]):
        read_benchmark_file((DATA / FILES[other]).read_bytes(), FILES[other], tool)


@pytest.mark.parametrize(
    ("tool", "path", "value"),
    [
        ("aiperf", "request_latency.avg", ...),
        ("aiperf", "request_latency.unit", "fortnights"),
        ("aiperf", "time_to_first_token.p50", "42"),
        ("aiperf", "request_count.avg", -1),
        ("aiperf", "input_config.phases.0.concurrency", "many"),
        ("aiperf", "start_time", "yesterday"),
        ("genai-perf", "request_throughput.avg", ...),
        ("genai-perf", "input_config.perf_analyzer.stimulus", {}),
        ("vllm-bench", "date", "2026-11-23"),
        ("vllm-bench", "output_throughput", "fast"),
        ("vllm-bench", "completed", ...),
        ("vllm-bench", "p99_ttft_ms", -1),
        ("vllm-bench", "request_rate", "fast"),
        ("guidellm", "benchmarks", ...),
        ("guidellm", "benchmarks.0.metrics.request_totals.successful", 2.5),
        ("guidellm", "benchmarks.1.metrics.request_latency.successful.mean", ...),
        ("guidellm", "benchmarks.0.config.strategy.streams", True),
        ("inference-perf", "successes.latency.request_latency", []),
        ("inference-perf", "failures.count", ...),
        ("llmperf", "results_ttft_s_mean", -1.0),
        ("llmperf", "timestamp", ...),
    ],
)
def test_a_wrong_field_is_named_by_its_path(tool: str, path: str, value: Any) -> None:
    with pytest.raises(UnreadableFile) as refused:
        read(tool, edited(path, value))
    shown = path if "stimulus" not in path else f"{path}.request_rate"
    assert f"{FILES[tool]}: {shown} " in str(refused.value) and "; expected " in str(refused.value)


def test_a_report_without_its_last_line_break_is_cut() -> None:
    raw = (DATA / FILES["perf_analyzer"]).read_bytes()
    with pytest.raises(UnreadableFile, match="line 3"):
        read_benchmark_file(raw[:-1], "report.csv", "perf_analyzer")


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("p99 latency", "p98 latency", "p99 latency"),
        ("Concurrency", "Users", "Concurrency"),
        ("10.664", "quick", "line 2.Inferences/Second"),
        (",198784,177195,145904,37315", "", "p99 latency"),
    ],
)
def test_a_wrong_column_is_named(old: str, new: str, field: str) -> None:
    raw = (DATA / FILES["perf_analyzer"]).read_text().replace(old, new).encode()
    with pytest.raises(UnreadableFile, match=field):
        read_benchmark_file(raw, "report.csv", "perf_analyzer")


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('"value": "PerformanceOnly"', '"value": "AccuracyOnly"', "effective_test_mode"),
        ('"key": "result_completed_tokens_per_second"', '"key": "other"', "result_completed_tokens_per_second"),
        ('"value": "Server"', '"value": "MultiStream"', "effective_scenario"),
        (":::MLLOG", "MLLOG", "line 1"),
        ("", "=====\nMLPerf Results Summary\n", "mlperf_log_summary.txt"),
    ],
)
def test_a_wrong_line_of_mlperfs_log_is_named(old: str, new: str, field: str) -> None:
    raw = (DATA / FILES["mlperf"]).read_text()
    with pytest.raises(UnreadableFile, match=field):
        read_benchmark_file((raw.replace(old, new) if old else new + raw).encode(), "log.txt", "mlperf")


@pytest.mark.parametrize(
    ("changes", "kind", "codes"),
    [
        ({"request_rate": "inf"}, "at_once", {"all_at_once"}),
        ({"request_rate": "inf", "max_concurrency": 8}, "closed", CLOSED),
        ({"max_concurrency": 8}, "open", {"concurrency_limited", "counted_from_send"}),
        ({"request_rate": 20}, "open", {"rate_differs", "counted_from_send"}),
        ({"burstiness": 0.5, "completed": 4000, "total_output_tokens": 96000}, "open", {"counted_from_send"}),
        ({"p95_ttft_ms": None}, "open", {"missing_percentiles", "counted_from_send"}),
        (dict.fromkeys(E2EL), "open", {"missing_metrics", "counted_from_send"}),
    ],
)
def test_the_load_decides_on_the_gaps(changes: dict[str, Any], kind: str, codes: set[str]) -> None:
    (run,) = read("vllm-bench", lambda content: content.update(changes)).runs
    few = set() if changes.get("completed") else {"few_requests"}
    assert run.load.kind == kind and {gap.code for gap in run.gaps} == codes | few | {"itl_between_events"}


def test_a_median_without_its_percentile_is_p50() -> None:
    (run,) = read("vllm-bench", edited("p50_ttft_ms")).runs
    assert run.value("time_to_first_token", "p50") == pytest.approx(0.03840662750099)


def test_the_page_names_every_tool_and_every_gap() -> None:
    page = (REPOSITORY / "docs" / "import-results.md").read_text(encoding="utf-8")
    folder = REPOSITORY / "include" / "plumbline" / "formats"
    codes = {code for file in folder.rglob("*.py") for code in re.findall(r'gap\(\s*"([a-z_]+)"', file.read_text(encoding="utf-8"))}
    assert len(codes) > 15 and [code for code in sorted(codes) if f"`{code}`" not in page] == []
    table = page.split("| `--from` |")[1].split("\n\n")[0]
    rows = dict(re.findall(r"^\| `([a-z_-]+)` \|.*, (yes|no) \|$", table, re.M))
    assert list(rows) == list(TOOL_FILES)
    assert rows == {tool: "yes" if read(tool).day else "no" for tool in FILES}, "a file without a date needs --date"


def declared() -> tuple[Provider, InferenceWorkload]:
    """A provider and a workload of the repository."""
    found = load(REPOSITORY / "include" / "config")
    workload = found.workloads["chat-cpu"]
    assert isinstance(workload, InferenceWorkload)
    return found.providers["local-2core"], workload


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every field of a JSON value, by its path."""
    for key, value in content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ():
        yield (*path, key)
        yield from places(value, (*path, key))


@pytest.mark.full
@pytest.mark.parametrize("tool", JSON_TOOLS)
def test_no_damage_of_a_field_ends_in_another_error(tool: str) -> None:
    content = json.loads((DATA / FILES[tool]).read_bytes().splitlines()[0] if tool == "sglang" else (DATA / FILES[tool]).read_bytes())
    refused, where = 0, declared()
    for *parents, last in list(places(content)):
        if parents[:2] == ["benchmarks", 1]:
            continue  # like the first one
        holder = content
        for name in parents:
            holder = holder[name]
        before = holder[last]
        for damage in (None, "x", -1, 0, 1e308, [], {}, True):
            holder[last] = damage
            raw = json.dumps(content).encode()
            try:
                published_results(read_benchmark_file(raw, "run.json", tool), raw, "run.json", *where, date(2026, 11, 23))
            except (UnreadableFile, ValueError) as error:
                refused += 1
                assert str(error).startswith("run.json: "), (parents, last, damage, error)
        holder[last] = before
    assert refused > 50
