"""Results of containers: what each format says, and one sentence where it says nothing."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tests.documented import page

from plumbline.declarations.workloads.container import ContainerTask
from plumbline.formats import COMMAND_OUTPUTS, Output, UnreadableOutput

METRICS = {
    "served_rate": {"unit": "bytes/s", "better": "higher", "scale": 1e9},
    "wait_of_a_call": {"unit": "s", "better": "lower", "field": "wait.ms", "scale": 0.001},
}
PATTERN = {"served_rate": METRICS["served_rate"], "wait_of_a_call": {"unit": "s", "better": "lower", "field": "wait", "scale": 0.001}}
NCCL = """\
# nThread 1 nGpus 4 minBytes 8 maxBytes 1073741824 step: 1024(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid   4711 on     node-0 device  0 [0x04] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    31.50    0.00    0.00      0    30.10    0.00    0.00      0
        8192          2048     float     sum      -1    33.00    0.25    0.37      0    32.20    0.25    0.38      0
  1073741824     268435456     float     sum      -1   4500.0  238.61  357.91      0   4490.0  239.14  358.71      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 119.4275
#
"""
MLPERF = """\
:::MLLOG {"namespace": "", "time_ms": 1700000000000, "event_type": "INTERVAL_START", "key": "run_start", "value": null, "metadata": {"lineno": 3}}
step 100 of something
:::MLLOG {"namespace": "", "time_ms": 1700000300000, "event_type": "POINT_IN_TIME", "key": "eval_accuracy", "value": 0.71, "metadata": {"epoch_num": 2}}
:::MLLOG {"namespace": "", "time_ms": 1700000590500, "event_type": "POINT_IN_TIME", "key": "eval_accuracy", "value": 0.76, "metadata": {"epoch_num": 3}}
:::MLLOG {"namespace": "", "time_ms": 1700000600500, "event_type": "INTERVAL_END", "key": "run_stop", "value": null, "metadata": {"status": "success"}}
"""


def fio(*jobs: dict[str, Any]) -> str:
    return "fio: a note before it\n" + json.dumps({"fio version": "fio-3.33", "jobs": jobs}, indent=1) + "\n"


def side(ios: int, bw_bytes: int, p99_ns: int) -> dict[str, Any]:
    percentiles = {"50.000000": p99_ns // 2, "99.000000": p99_ns}
    return {"total_ios": ios, "bw_bytes": bw_bytes, "iops": float(ios), "clat_ns": {"percentile": percentiles} if ios else {"N": 0}}


SIDES = {"read": side(10, 1000, 400), "write": side(0, 0, 0)}


def read(results: dict[str, Any], text: str, metrics: dict[str, Any] | None = None) -> Output:
    declared = {"kind": "container", "command": ["it"], "results": results, "metrics": metrics or {}}
    task = ContainerTask.model_validate_json(json.dumps(declared))
    return COMMAND_OUTPUTS[task.results.format].output(text, task.declared_numbers)


def values(found: Output) -> dict[str, float | None]:
    return {f"{row.statistic} {row.metric}": row.value for row in found.rows}


def test_the_last_line_of_json_counts_and_other_lines_are_skipped() -> None:
    text = 'starting\n{"served_rate": 1, "wait": {"ms": 9}}\n{"broken": \nINFO {"served_rate": 2.5, "wait": {"ms": "1,200"}}\n[1]\n'
    assert values(read({"format": "jsonl"}, text, METRICS)) == {"value served_rate": 2.5e9, "value wait_of_a_call": 1.2}


def test_groups_of_a_pattern_may_be_on_different_lines() -> None:
    pattern = r"rate (?P<served_rate>[0-9.]+) GB/s|wait (?P<wait>[0-9.]+) ms"
    found = read({"format": "regex", "pattern": pattern}, "rate 3 GB/s\nwait 250 ms\nrate 4 GB/s\n", PATTERN)
    assert values(found) == {"value served_rate": 4e9, "value wait_of_a_call": 0.25}


def test_a_number_that_is_absent_or_not_finite_has_a_reason() -> None:
    rows = read({"format": "jsonl"}, '{"served_rate": NaN, "wait": {"ms": 4}}\n', METRICS).rows
    assert [(row.value, row.reason) for row in rows] == [(None, "the results have no served_rate"), (0.004, None)]


def test_nccl_tests() -> None:
    found = read({"format": "nccl-tests"}, NCCL)
    assert values(found) == {"value collective_bus_bandwidth": 357.91e9, "value collective_latency": pytest.approx(31.5e-6)}
    assert [row.method for row in found.rows] == ["1073741824 bytes", "8 bytes"]
    assert [(point.at, point.value) for point in found.curves[0].points] == [(8, 0.0), (8192, 0.37e9), (1073741824, 357.91e9)]
    assert not found.invalid


def test_wrong_values_of_nccl_tests_make_the_trial_invalid() -> None:
    (reason,) = read({"format": "nccl-tests"}, NCCL.replace("357.91      0", "357.91      3")).invalid
    assert reason.code == "wrong_results" and "3 wrong values" in reason.detail


def test_fio_adds_its_jobs_up_and_takes_the_slowest_ones_percentile() -> None:
    nothing = side(0, 0, 0)
    found = read(
        {"format": "fio-json"}, fio({"read": side(10, 1000, 400), "write": nothing}, {"read": side(30, 3000, 600), "write": nothing})
    )
    assert values(found) == {
        "value storage_read_bandwidth": 4000,
        "value storage_read_rate": 40,
        "p50 storage_read_latency": pytest.approx(300e-9),
        "p99 storage_read_latency": pytest.approx(600e-9),
    }
    assert {row.n for row in found.rows} == {40}


def test_an_mlperf_log() -> None:
    found = read({"format": "mlperf-log"}, MLPERF)
    assert values(found) == {"value time_to_train": pytest.approx(600.5), "value epochs_to_train": 3}
    assert not found.invalid


def test_an_mlperf_run_that_was_aborted_is_invalid_and_has_no_time() -> None:
    found = read({"format": "mlperf-log"}, MLPERF.replace("success", "aborted"))
    assert set(values(found).values()) == {None}
    assert [reason.code for reason in found.invalid] == ["target_not_reached"]


@pytest.mark.parametrize("prefix", ["[1,0]<stdout>:", "0: ", "[pod/nccl-0/main] ", "[default3]:", "2026-11-30T02:00:00.123456789Z "])
def test_what_launchers_write_before_each_line_is_left_out(prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in NCCL.splitlines())
    assert values(read({"format": "nccl-tests"}, f"mpirun: a note without it\n{text}")) == values(read({"format": "nccl-tests"}, NCCL))
    report = "".join(f"{prefix}{line}\n" for line in fio(SIDES).splitlines())
    assert values(read({"format": "fio-json"}, report)) == values(read({"format": "fio-json"}, fio(SIDES)))


def test_programs_that_ran_beside_each_other_are_no_result_of_all_ranks() -> None:
    rank = next(line for line in NCCL.splitlines() if "Rank  0" in line)
    two = NCCL.replace(rank, "\n".join([rank, rank.replace("Rank  0", "Rank  1")]))
    assert (read({"format": "nccl-tests"}, two).ranks, read({"format": "nccl-tests"}, two).invalid) == (2, [])
    for doubled, what in ((NCCL.replace(rank, f"{rank}\n{rank}"), "rank 0"), (NCCL + NCCL.replace(rank, "#"), "size 8")):
        (reason,) = read({"format": "nccl-tests"}, doubled).invalid
        assert reason.code == "ranks_missing" and f"{what} comes twice" in reason.detail


def test_of_several_operations_the_first_counts_and_empty_sizes_do_not() -> None:
    rows = [line for line in NCCL.splitlines() if not line.startswith("#")]
    other = "\n".join(line.replace("sum", "max").replace("357.91", "111.11").replace(" 0.37 ", " 0.11 ") for line in rows)
    empty = rows[0].replace("   8  ", "   0  ", 1).replace("31.50", " 5.70")
    assert values(read({"format": "nccl-tests"}, f"{NCCL}{empty}\n{empty}\n{other}\n")) == values(read({"format": "nccl-tests"}, NCCL))


def test_the_last_report_of_fio_counts_and_its_errors_are_named() -> None:
    interim = fio({"read": side(1, 10, 40), "write": side(0, 0, 0)})
    found = read({"format": "fio-json"}, interim + fio(SIDES) + "\nRun status group 0 (all jobs):\n")
    assert values(found)["value storage_read_bandwidth"] == 1000 and not found.invalid
    (reason,) = read({"format": "fio-json"}, fio({"jobname": "seq", "error": 5, **SIDES})).invalid
    assert (reason.code, reason.detail) == ("io_errors", "fio's jobs failed: seq: error 5")


def test_fio_s_latencies_with_submission_are_read_where_those_of_completion_have_no_ranks() -> None:
    whole = {**side(10, 1000, 400), "lat_ns": side(10, 0, 800)["clat_ns"], "clat_ns": {"N": 10}}
    rows = read({"format": "fio-json"}, fio({"read": whole, "write": side(0, 0, 0)})).rows
    assert [(row.value, row.method) for row in rows if row.statistic == "p99"] == [(pytest.approx(800e-9), "submission and completion")]


def test_fio_s_groups_are_read_where_each_direction_has_one() -> None:
    write, read_back = {"read": side(0, 0, 0), "write": side(10, 1000, 400)}, {"read": side(20, 3000, 500), "write": side(0, 0, 0)}
    found = values(read({"format": "fio-json"}, fio({"groupid": 0, **write}, {"groupid": 1, **read_back})))
    assert (found["value storage_write_bandwidth"], found["value storage_read_bandwidth"]) == (1000, 3000)


def test_an_mlperf_log_that_counts_samples_or_is_old() -> None:
    samples = (
        MLPERF.replace('"epoch_num": 3', '"epoch_num": 2320253') + ':::MLLOG {"time_ms": 1, "key": "train_samples", "value": 2320253}\n'
    )
    samples = "\n".join([*samples.splitlines()[:-2], samples.splitlines()[-1], samples.splitlines()[-2]])
    rows = {row.metric: (row.value, row.reason) for row in read({"format": "mlperf-log"}, samples).rows}
    assert rows["epochs_to_train"] == (None, "its epoch_num counts samples") and rows["time_to_train"][0] == pytest.approx(600.5)
    old = ':::MLL 100.5 run_start: {"value": null}\n:::MLL 160.5 run_stop: {"metadata": {"status": "success"}}\n'
    assert values(read({"format": "mlperf-log"}, old)) == {"value time_to_train": 60}


@pytest.mark.parametrize(
    ("results", "text", "metrics", "message"),
    [
        ({"format": "jsonl"}, '{"other": 1}\n', METRICS, "no line of JSON has any of served_rate, wait_of_a_call"),
        ({"format": "regex", "pattern": "(?P<served_rate>x)(?P<wait>y)"}, "nothing\n", PATTERN, "no line matches"),
        ({"format": "nccl-tests"}, "mpirun was unable to launch\n", None, "no table of nccl-tests"),
        ({"format": "fio-json"}, "fio: not an option\n", None, "--output-format=json"),
        ({"format": "fio-json"}, '{\n "jobs": 3\n}', None, "no whole JSON of fio"),
        ({"format": "fio-json"}, '{\n "jobs": [', None, "no whole JSON of fio"),
        ({"format": "fio-json"}, fio({"read": side(0, 0, 0), "write": side(0, 0, 0)}), None, "no job that read or wrote"),
        ({"format": "fio-json"}, '{\n "fio version": "fio-3.33", "jobs": 3\n}', None, "damaged.*TypeError"),
        ({"format": "fio-json"}, '{\n "fio version": "fio-2.1.4", "jobs": []\n}', None, "fio-2.1.4 counts in other units"),
        ({"format": "fio-json"}, '{\n "fio version": "fio-3.33", "client_stats": []\n}', None, "several clients"),
        ({"format": "fio-json"}, fio({"mixed": side(1, 1, 1)}), None, "unified_rw_reporting=none"),
        ({"format": "fio-json"}, fio({"groupid": 0, **SIDES}, {"groupid": 1, **SIDES}), None, "2 groups of jobs read"),
        ({"format": "nccl-tests"}, re.sub(r"(?m)^ +(8192|8|1073741824) ", " 0 ", NCCL), None, "a size above 0"),
        ({"format": "mlperf-log"}, MLPERF.replace("run_stop", "stopped"), None, "run_start and run_stop"),
        ({"format": "mlperf-log"}, MLPERF + MLPERF.splitlines()[0], None, "ended from outside"),
    ],
)
def test_an_output_of_another_format(results: dict[str, Any], text: str, metrics: dict[str, Any] | None, message: str) -> None:
    with pytest.raises(UnreadableOutput, match=message):
        read(results, text, metrics)


def test_the_page_lists_the_formats_and_what_they_bring() -> None:
    table = page("any-container").split("| `format` |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \|.*\| (.+) \|$", table, re.M)
    assert [name for name, _ in rows] == list(COMMAND_OUTPUTS)
    for name, brings in rows:
        metrics, named = COMMAND_OUTPUTS[name].metrics, set(re.findall(r"`(\w+)`", brings))
        assert (brings == "declared") == (not metrics) and named <= set(metrics)
        assert {metric.replace("_write_", "_read_") for metric in metrics} <= named, "writes have the names of reads"
