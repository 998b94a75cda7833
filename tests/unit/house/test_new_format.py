"""A format of results is one file: dropped into the room, a toy of each kind goes through the real commands, and without it nothing knows it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.documented import ROOT, page
from tests.fakes.installation import CONFIG
from tests.fakes.quick_python import search_path
from typer.testing import CliRunner

import plumbline
from plumbline.cli.app import app
from plumbline.declarations.workloads.script import KnownReport
from plumbline.formats import COMMAND_OUTPUTS, TOOL_FILES, Format, register
from plumbline.formats.reading.access_log import ACCESS_LOGS
from plumbline.formats.reading.published_table import PUBLISHED_TABLES
from plumbline.formats.reading.training_log import TRAINING_LOGS
from plumbline.formats.registry import REGISTERED

PACKAGE = Path(plumbline.__file__).parent
TOOL_FILE = """
from plumbline.formats import BenchmarkFile, JsonFile, Load, OtherJson, Run, register
from plumbline.metrics.rows import metric_row


@register
class ToyBench(JsonFile):
    name = "toy-bench"
    file = "the JSON report of `toy-bench`"
    marks = ("toy_version", "rate")
    others = (OtherJson("toy-bench's own settings", ("toy_settings",)),)

    def read(self, whole):
        row = metric_row("request_throughput", whole.number("rate", "requests/s"), 40, method="rate, requests/s")
        run = Run(Load("closed", concurrency=whole.whole("clients", least=1)), (row,), 40)
        return BenchmarkFile(self.name, whole.text("toy_version"), whole.day("ended"), (run,))
"""
OUTPUT = """
from plumbline.formats import CommandOutput, Output, UnreadableOutput, register
from plumbline.metrics.rows import metric_row

@register
class ToyRing(CommandOutput):
    name = "toy-ring"
    metrics = ("collective_latency",)

    def read(self, text, declared):
        if "ring took" not in text:
            raise UnreadableOutput("no line of toy-ring with its time")
        micros = float(text.split("ring took")[1].split()[0])
        return Output([metric_row("collective_latency", micros * 1e-6, 1)])
"""
ACCESS_LOG = """
import json

from plumbline.formats.reading.access_log import AccessLogFormat, LoggedRequest
from plumbline.formats.registry import register


@register
class ToyGateway(AccessLogFormat):
    name = "toy-gateway"
    expected = "lines that begin with toy"
    hint = "each line has both lengths"

    def matches(self, text, name):
        return text.startswith("toy ")

    def read(self, text, name, log):
        for number, line in enumerate(text.splitlines(), start=1):
            at, read, written = line.removeprefix("toy ").split()
            log.requests.append(LoggedRequest(number, float(at), int(read), int(written)))
"""
TRAINING_LOG = r"""
from plumbline.formats.reading.training_log import NUMBER, PrintedSteps
from plumbline.formats.registry import register


@register
class ToyTrainer(PrintedSteps):
    name = "toy-trainer"
    pattern = rf"toy (?P<step>\d+) lost (?P<loss>{NUMBER})"
"""
LOGS = """\
import sys
from plumbline.declarations.workloads.script import KnownReport
from plumbline.formats.reading.access_log import read_log
from plumbline.harness.training.script.reports import reader_of

log = read_log("toy 2.5 10 20\\ntoy 1.0 30 40", "a.log")
step = reader_of(KnownReport(format="toy-trainer")).read("toy 7 lost 0.25")
print(log.format, [request.input_tokens for request in log.requests], step.step, step.loss)
"""
RESULT = {"toy_version": "3.1", "rate": 12.5, "clients": 4, "ended": 1763900000}
WORKLOAD = """\
kind: training
name: ring
version: 1
needs: {accelerator: cpu, count: 1}
task:
  kind: container
  command: [echo, the ring took 25 us]
  results: {format: toy-ring}
  expected: 1s
primary: collective_latency in steady
repeats: {per_slot: 1, slots: ["02:00"]}
"""
WHERE = ("--provider", "local-2core", "--workload", "chat-cpu")

RUN = """\
import json, sys
from typer.testing import CliRunner
from plumbline.cli.app import app

done = [CliRunner().invoke(app, words) for words in json.loads(sys.argv[1])]
print(json.dumps([[one.exit_code, one.stdout, " ".join(one.stderr.split())] for one in done]))
"""
MEASURE = """\
import json, os, sys
from pathlib import Path
import yaml
from tests.fakes.trials import a_trial
from plumbline.declarations.workloads.container import ContainerWorkload
from plumbline.harness.contention_monitor import ContentionMonitor
from plumbline.harness.training.container.trial import measure

workload = ContainerWorkload.model_validate_json(json.dumps(yaml.safe_load(sys.argv[1])))
trial = a_trial().model_copy(update={"workload": workload})
with ContentionMonitor(sorted(os.sched_getaffinity(0))) as monitor:
    measured = measure(trial, Path.cwd(), lambda *_: None, monitor)
print([row.value for row in measured.metrics if row.metric == "collective_latency"])
"""

Python = Callable[..., str]
"""python(code, *arguments): what the code prints in a process whose room of formats has the two files."""


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Python:
    """The package with two files more in the room of formats, everything else a link to its own; an installation with a folder of workloads."""
    room, config = tmp_path / "site" / "plumbline" / "formats", tmp_path / "config"
    for folder, copy in (
        *((PACKAGE, room.parent), (PACKAGE / "formats", room)),
        *((CONFIG, config), (CONFIG / "workloads", config / "workloads"), (CONFIG / "workloads/training", config / "workloads/training")),
    ):
        copy.mkdir(parents=True, exist_ok=True)
        for each in folder.iterdir():
            if each.name not in ("formats", "workloads", "training", "__pycache__"):
                (copy / each.name).symlink_to(each)
    (room / "toy_bench.py").write_text(TOOL_FILE)
    (room / "toy_ring.py").write_text(OUTPUT)
    for kind, code in (("access_logs", ACCESS_LOG), ("training_logs", TRAINING_LOG)):
        (room / kind).unlink()
        (room / kind).mkdir()
        for each in (PACKAGE / "formats" / kind).glob("*.py"):
            (room / kind / each.name).symlink_to(each)
        (room / kind / "toy.py").write_text(code)
    for name in [name for name in os.environ if name.startswith("PLUMBLINE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(config))

    def call(code: str, *arguments: str) -> str:
        env = {**os.environ, "PYTHONPATH": search_path(tmp_path / "site", ROOT)}
        command = [sys.executable, "-c", code, *arguments]
        return subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, cwd=tmp_path, check=True).stdout

    return call


def run(python: Python, *commands: tuple[str, ...]) -> list[tuple[int, str, str]]:
    """Exit status, output and errors of each command in the room with the two files."""
    return [(code, stdout, stderr) for code, stdout, stderr in json.loads(python(RUN, json.dumps(commands)).splitlines()[-1])]


def test_a_file_of_a_new_tool_is_imported_from_one_file(python: Python, tmp_path: Path) -> None:
    file, settings = tmp_path / "toy.json", tmp_path / "settings.json"
    file.write_text(json.dumps(RESULT))
    settings.write_text('{"toy_settings": 1}')
    words = ("archive", "import", str(file), "--from", "toy-bench", *WHERE)
    imported, listed, without, other, own = run(
        python,
        (*words, "--json"),
        ("archive", "import", "--help"),
        ("archive", "import", str(file)),
        ("archive", "import", str(file), "--from", "guidellm", *WHERE),
        ("archive", "import", str(settings), "--from", "toy-bench", *WHERE),
    )
    found: dict[str, Any] = json.loads(imported[1])
    assert (found["imported"], found["source"]["tool"], found["source"]["tool_version"]) == (1, "toy-bench", "3.1")
    assert [(f["metric"], f["value"]) for f in found["runs"][0]["figures"]] == [("request_throughput", 12.5)]
    assert "toy-bench" in listed[1] and "llmperf, mlperf, toy-bench" in without[2], "formats without an order come last"
    assert other[0] == own[0] == 2
    assert "the file is one of toy-bench" in other[2] and "the file is toy-bench's own settings" in own[2]
    gone = CliRunner().invoke(app, words)
    assert gone.exit_code == 2 and 'no tool is called "toy-bench"; expected one of' in " ".join(gone.stderr.split())


@pytest.mark.integration
def test_logs_of_a_new_gateway_and_of_a_new_trainer_are_read_from_one_file_each(python: Python) -> None:
    assert python(LOGS).split() == ["toy-gateway", "[30,", "10]", "7", "0.25"]
    with pytest.raises(ValueError, match="toy-trainer"):
        KnownReport(format="toy-trainer")


@pytest.mark.integration
def test_an_output_of_a_new_program_is_measured_from_one_file(python: Python) -> None:
    assert json.loads(python(MEASURE, WORKLOAD)) == pytest.approx([25e-6])


@pytest.mark.full
@pytest.mark.integration
def test_a_workload_names_a_new_format_and_is_tried(python: Python, tmp_path: Path) -> None:
    (tmp_path / "config" / "workloads" / "training" / "ring.yaml").write_text(WORKLOAD)
    check, trial = run(python, ("check",), ("trial", "ring", "--provider", "local", "--json"))
    assert check[0] == 0, check[2]
    document: dict[str, Any] = json.loads(trial[1])
    values = {row["metric"]: row["value"] for row in document["metrics"] if row["phase"] == "steady"}
    assert values["collective_latency"] == pytest.approx(25e-6)
    gone = CliRunner().invoke(app, ["check"])
    expected = "ring.yaml:8 task.results.format: \"toy-ring\" is not valid (input should be 'jsonl', 'regex', 'nccl-tests', 'fio-json' or"
    assert gone.exit_code == 2 and expected in " ".join(gone.stderr.split())


def test_a_name_is_of_one_format() -> None:
    class Second(Format):
        name = "fio-json"

    before = COMMAND_OUTPUTS["fio-json"]
    with pytest.raises(ValueError, match="a format is called fio-json already"):
        register(Second)
    assert COMMAND_OUTPUTS["fio-json"] is before and "fio-json" not in TOOL_FILES


def test_each_format_has_a_file_of_its_own_and_one_kind() -> None:
    kinds = [list(TOOL_FILES), list(COMMAND_OUTPUTS), list(PUBLISHED_TABLES), list(ACCESS_LOGS), list(TRAINING_LOGS)]
    assert sorted(name for kind in kinds for name in kind) == sorted(REGISTERED), "each format is of one kind, and known by a command"
    files = [Path(sys.modules[type(one).__module__].__file__ or "") for one in REGISTERED.values()]
    own = {
        path for path in (PACKAGE / "formats").rglob("*.py") if path.stem not in ("__init__", "registry") and path.parent.name != "reading"
    }
    assert sorted(files) == sorted(own)


def test_the_toy_of_the_page_is_the_one_that_is_tried() -> None:
    assert TOOL_FILE.strip() in page("extend")
