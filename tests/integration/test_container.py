"""Containers in real processes: commands of the shell, fio, and logs of other tools from files."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from tests.documented import page
from tests.integration.test_training import trial as trial_of
from tests.integration.test_training_distributed import node, rendezvous
from tests.unit.formats.test_command_outputs import MLPERF, NCCL

from plumbline.declarations import Trial, criteria_hash, series_key, spec_hash
from plumbline.declarations.workloads.container import ContainerWorkload
from plumbline.harness.contention_monitor import ContentionMonitor
from plumbline.harness.measurement import Measurement, TrialFailed
from plumbline.harness.run import run as run_trial
from plumbline.harness.training.container.trial import measure
from plumbline.quality.attempt_rows import required_metrics
from plumbline.results import ResultDocument

__all__ = ["node", "rendezvous"]
FAST = {"format": "regex", "pattern": r"rate (?P<loaves_rate>[0-9.]+)"}
METRICS = {"loaves_rate": {"unit": "1/s", "better": "higher"}}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A home of its own; and no test leaves a process behind."""
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    before = set(psutil.Process().children(recursive=True))
    yield
    assert {p for p in psutil.Process().children(recursive=True) if p.is_running() and p.status() != psutil.STATUS_ZOMBIE} <= before


def container(shell: str, results: dict[str, Any] = FAST, **task: Any) -> Trial:
    """A trial of a line of the shell."""
    given = {"kind": "container", "command": ["sh", "-c", shell], "results": results, **task}
    if results["format"] in ("regex", "jsonl"):
        given.setdefault("metrics", METRICS)
    workload = {
        "kind": "training",
        "name": "bakery",
        "version": 1,
        "needs": {"accelerator": "cpu"},
        "repeats": {"per_slot": 1, "slots": ["02:00"]},
        "primary": "command_time in steady",
        "task": given,
    }
    return trial_with(workload)


def trial_with(workload: dict[str, Any]) -> Trial:
    declared, trial = ContainerWorkload.model_validate_json(json.dumps(workload)), trial_of()
    hashes = {"spec_hash": spec_hash(declared), "criteria_hash": criteria_hash(declared, trial.validity)}
    changed: Trial = trial.model_copy(update={"workload": declared, "series_key": series_key(declared, trial.provider), **hashes})
    return changed


def run(folder: Path, trial: Trial) -> Measurement:
    work = folder / "work"
    work.mkdir()
    with ContentionMonitor(sorted(os.sched_getaffinity(0))) as watch:
        return measure(trial, work, lambda *_: None, watch)


def values(measured: Measurement) -> dict[str, float | None]:
    return {f"{row.statistic} {row.metric}": row.value for row in measured.metrics}


def failure(folder: Path, trial: Trial) -> TrialFailed:
    with pytest.raises(TrialFailed) as raised:
        run(folder, trial)
    return raised.value


def test_a_command_is_measured(tmp_path: Path) -> None:
    measured = run(tmp_path, container('echo "rate $RATE of node $NODE_RANK in $NNODES"; sleep 0.2', environment={"RATE": "12.5"}))
    assert values(measured)["value loaves_rate"] == 12.5
    assert (values(measured)["value command_time"] or 0) > 0.2
    assert measured.facts["container.environment.RATE"] == "12.5"
    assert (measured.facts["container.results"], measured.facts["container.times"]) == ("reported", "seen")
    (log,) = measured.evidence
    assert log.path.read_text() == "rate 12.5 of node 0 in 1\n"
    assert [event.name for event in measured.events] == ["command_started", "command_ended"]


def test_the_example_of_the_page(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", page("any-container"), re.S)
    measured = run(tmp_path, trial_with(yaml.safe_load(example)))
    assert values(measured)["value row_rate"] == 125000
    assert values(measured)["value batch_time"] == 0.25


def test_its_document_has_what_the_quality_checks_require(tmp_path: Path) -> None:
    trial = container("echo rate 12.5")
    document = run_trial(trial, f"file://{tmp_path}/out", probe=lambda *_: [])
    names = {f"{row.phase}.{row.metric}.{row.statistic}" for row in document.metrics}
    assert document.validity.status != "failed", document.validity
    assert set(required_metrics(trial)) <= names
    assert ResultDocument.model_validate_json(document.model_dump_json()) == document


def test_results_in_a_file(tmp_path: Path) -> None:
    results = {**FAST, "file": "out/summary.txt"}
    measured = run(tmp_path, container("mkdir out; echo rate 3 >out/summary.txt; echo rate 99", results))
    assert values(measured)["value loaves_rate"] == 3
    assert {item.path.name for item in measured.evidence} == {"run.worker.log", "summary.txt"}


@pytest.mark.fault("a container's output matches no format", ends="failed (bad_declaration), with its last lines", keeps="its output")
def test_an_output_that_matches_nothing(tmp_path: Path) -> None:
    failed = failure(tmp_path, container("for i in $(seq 30); do echo bread $i; done"))
    assert failed.failure_class == "bad_declaration"
    assert "no line matches rate" in failed.detail
    assert "bread 30" in failed.detail and "bread 11\n" in failed.detail and "bread 10\n" not in failed.detail
    assert values(failed.partial)["value command_time"] is not None
    assert failed.partial.evidence


@pytest.mark.fault("a container's command fails", ends="failed (harness_error), with its last lines", keeps="its output")
def test_a_command_that_fails(tmp_path: Path) -> None:
    failed = failure(tmp_path, container("echo rate 1; echo the oven is cold >&2; exit 3"))
    assert failed.failure_class == "harness_error", "whose fault a status is cannot be known"
    assert "exit code 3" in failed.detail and "the oven is cold" in failed.detail and "training" not in failed.detail
    assert failed.partial.evidence


@pytest.mark.fault(
    "a collective's results are wrong, and its program says so by its exit status", ends="invalid (wrong_results)", keeps="all metrics"
)
def test_a_program_that_ends_with_a_status_because_its_result_is_wrong(tmp_path: Path) -> None:
    wrong = NCCL.replace("357.91      0", "357.91      3")
    measured = run(tmp_path, container(f"cat <<'EOF'\n{wrong}\nEOF\nexit 1", {"format": "nccl-tests"}, metrics={}))
    assert [judged.reason.code for judged in measured.judgements] == ["wrong_results"]
    assert values(measured)["value collective_bus_bandwidth"] == 357.91e9


@pytest.mark.fault("storage fails under a container's command", ends="failed (provider_fault)", keeps="its output")
def test_a_command_whose_storage_fails(tmp_path: Path) -> None:
    failed = failure(tmp_path, container("echo 'cp: error writing /data/x: Input/output error' >&2; exit 1"))
    assert failed.failure_class == "provider_fault" and "storage failed" in failed.detail


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    failed = failure(tmp_path, container("", command=["no-such-oven"]))
    assert failed.failure_class == "bad_declaration"
    assert "no-such-oven is no program here" in failed.detail


def test_a_file_of_results_that_is_not_written(tmp_path: Path) -> None:
    failed = failure(tmp_path, container("echo rate 1", {**FAST, "file": "summary.txt"}))
    assert failed.failure_class == "bad_declaration"
    assert "wrote no file summary.txt" in failed.detail


@pytest.mark.parametrize("shell", ["echo secret bread; exit 3", "echo secret bread"])
def test_a_private_container_leaves_no_word_of_its_output(tmp_path: Path, shell: str) -> None:
    failed = failure(tmp_path, container(shell, private=True))
    assert "secret bread" not in failed.detail.replace("sh -c", "")
    assert not failed.partial.evidence


def test_a_result_in_the_middle_of_a_long_output_is_read(tmp_path: Path) -> None:
    pad = "yes 'pad pad pad pad pad pad pad pad' 2>/dev/null | head -c"
    metrics = {"wait": {"unit": "s", "better": "lower"}, "rows": {"unit": "1/s", "better": "higher"}}
    shell = f"{pad} 1500000; echo '{{\"wait\": 7}}'; {pad} 2500000; echo '{{\"rows\": 5}}'"
    measured = run(tmp_path, container(shell, {"format": "jsonl"}, metrics=metrics))
    assert (values(measured)["value wait"], values(measured)["value rows"]) == (7, 5)


def test_what_a_command_leaves_behind_is_ended(tmp_path: Path) -> None:
    measured = run(tmp_path, container("(trap '' TERM; setsid sleep 300 >/dev/null 2>&1) & echo rate 5"))
    assert values(measured)["value loaves_rate"] == 5


def test_a_file_that_a_command_leaves_elsewhere_is_named(tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    command = f"exec 3>{tmp_path}/left.bin; echo rate 2; sleep 0.5"
    measured = run(tmp_path, container(command, environment={"TMPDIR": f"{tmp_path}/temporary"}))
    (left,) = [item.reason.detail for item in measured.judgements if item.reason.code == "files_left_outside"]
    assert f"{tmp_path}/left.bin" in left


def test_an_output_of_many_megabytes_is_bounded(tmp_path: Path) -> None:
    measured = run(tmp_path, container("yes bread | head -c 20000000; echo rate 7"))
    assert values(measured)["value loaves_rate"] == 7
    assert measured.evidence[0].path.stat().st_size < 3 << 20


@pytest.mark.parametrize(
    ("results", "text", "metric", "value"),
    [("nccl-tests", NCCL, "value collective_bus_bandwidth", 357.91e9), ("mlperf-log", MLPERF, "value time_to_train", 600.5)],
)
def test_the_log_of_another_tool(tmp_path: Path, results: str, text: str, metric: str, value: float) -> None:
    (tmp_path / "log.txt").write_text(text)
    measured = run(tmp_path, container(f"cat {tmp_path}/log.txt", {"format": results}))
    assert values(measured)[metric] == pytest.approx(value)


@pytest.mark.full
def test_two_nodes_of_which_the_first_decides(tmp_path: Path, node: Any, rendezvous: str) -> None:
    """The other one, which would never end, is ended with it."""
    shell = 'if [ "$NODE_RANK" = 0 ]; then sleep 1; echo rate 4 $MASTER_ADDR; else echo rate 9; exec sleep 300; fi'
    one = node(1, of=container(shell, nodes=2))
    measured = run(tmp_path, container(shell, nodes=2))
    assert one.end()[0] == 0
    assert values(measured)["value loaves_rate"] == 4
    assert (values(measured)["value command_time"] or 0) < 60


@pytest.mark.full
@pytest.mark.fault("a container's command fails on another node", ends="failed (bad_declaration), naming the node", keeps="node 0's output")
def test_a_command_that_fails_on_the_other_node(tmp_path: Path, node: Any, rendezvous: str) -> None:
    shell = 'if [ "$NODE_RANK" = 0 ]; then sleep 300; else echo burnt; exit 7; fi'
    one = node(1, of=container(shell, nodes=2))
    failed = failure(tmp_path, container(shell, nodes=2))
    one.end()
    assert "node 1" in failed.detail and "exit code 7" in failed.detail and "burnt" in failed.detail


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
def test_fio(tmp_path: Path) -> None:
    line = "fio --output-format=json --size=8M --filename=scratch --ioengine=psync --name=write --rw=write --bs=1M --name=read --stonewall --rw=randread --bs=128k"
    measured = run(tmp_path, container(line, {"format": "fio-json"}))
    assert all((value or 0) > 0 for value in values(measured).values())
    assert {f"{s} storage_{way}_{what}" for way in ("read", "write") for s, what in (("value", "bandwidth"), ("p99", "latency"))} <= set(
        values(measured)
    )
