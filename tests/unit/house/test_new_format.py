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
from tests.documented import page
from tests.fakes.installation import CONFIG
from tests.fakes.quick_python import search_path

import plumbline
from plumbline.formats import COMMAND_OUTPUTS, TOOL_FILES, Format, register
from plumbline.formats.reading.published_table import PUBLISHED_TABLES
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

    def read(self, text, asked):
        if "ring took" not in text:
            raise UnreadableOutput("no line of toy-ring with its time")
        micros = float(text.split("ring took")[1].split()[0])
        return Output([metric_row("collective_latency", micros * 1e-6, 1)])
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

Command = Callable[..., subprocess.CompletedProcess[str]]
"""command(words, room=True): `plumbline` with those words; without the room's copy, the package as it is."""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The package with two files more in the room of formats, everything else a link to its own."""
    room = tmp_path / "site" / "plumbline" / "formats"
    room.mkdir(parents=True)
    for folder, target in ((PACKAGE, room.parent), (PACKAGE / "formats", room)):
        for each in folder.iterdir():
            if each.name not in ("formats", "__pycache__"):
                (target / each.name).symlink_to(each)
    (room / "toy_bench.py").write_text(TOOL_FILE)
    (room / "toy_ring.py").write_text(OUTPUT)
    config = tmp_path / "config"
    config.mkdir()
    for shipped in CONFIG.iterdir():
        (config / shipped.name).symlink_to(shipped)
    for name in [name for name in os.environ if name.startswith("PLUMBLINE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(config))

    def call(*words: str, room: bool = True) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PYTHONPATH": search_path(*([tmp_path / "site"] if room else [])), "COLUMNS": "200"}
        arguments = [sys.executable, "-m", "plumbline.cli", *words]
        return subprocess.run(arguments, env=env, capture_output=True, text=True, cwd=tmp_path, check=False)

    return call


def test_a_file_of_a_new_tool_is_imported_from_one_file(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "toy.json"
    file.write_text(json.dumps(RESULT))
    words = ("archive", "import", str(file), "--from", "toy-bench", *WHERE)
    done = command(*words, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    (run,) = found["runs"]
    assert (found["imported"], found["source"]["tool"], found["source"]["tool_version"]) == (1, "toy-bench", "3.1")
    assert [(f["metric"], f["value"]) for f in run["figures"]] == [("request_throughput", 12.5)]
    assert "toy-bench" in command("archive", "import", "--help").stdout
    assert "llmperf, mlperf, toy-bench" in command("archive", "import", str(file)).stderr, "formats without an order come last"
    other = command("archive", "import", str(file), "--from", "guidellm", *WHERE)
    assert other.returncode == 2 and "the file is one of toy-bench" in " ".join(other.stderr.split())
    file.write_text('{"toy_settings": 1}')
    settings = command(*words)
    assert settings.returncode == 2 and "the file is toy-bench's own settings" in " ".join(settings.stderr.split())
    gone = command(*words, room=False)
    assert gone.returncode == 2 and 'no tool is called "toy-bench"; expected one of' in " ".join(gone.stderr.split())


@pytest.mark.integration
def test_an_output_of_a_new_program_is_measured_from_one_file(command: Command, tmp_path: Path) -> None:
    workloads = tmp_path / "config" / "workloads"
    workloads.unlink()
    (workloads / "training").mkdir(parents=True)
    (workloads / "inference").symlink_to(CONFIG / "workloads" / "inference")
    for shipped in (CONFIG / "workloads" / "training").iterdir():
        (workloads / "training" / shipped.name).symlink_to(shipped)
    (workloads / "training" / "ring.yaml").write_text(WORKLOAD)
    assert command("check").returncode == 0
    done = command("trial", "ring", "--provider", "local", "--json")
    document: dict[str, Any] = json.loads(done.stdout)
    values = {row["metric"]: row["value"] for row in document["metrics"] if row["phase"] == "steady"}
    assert values["collective_latency"] == pytest.approx(25e-6)
    gone = command("check", room=False)
    expected = "task.results.format: Input should be 'jsonl', 'regex', 'nccl-tests', 'fio-json' or 'mlperf-log'"
    assert gone.returncode == 2 and expected in " ".join(gone.stdout.split()) + " ".join(gone.stderr.split())


def test_a_name_is_of_one_format() -> None:
    class Second(Format):
        name = "fio-json"

    before = COMMAND_OUTPUTS["fio-json"]
    with pytest.raises(ValueError, match="a format is called fio-json already"):
        register(Second)
    assert COMMAND_OUTPUTS["fio-json"] is before and "fio-json" not in TOOL_FILES


def test_each_format_has_a_file_of_its_own_and_one_kind() -> None:
    kinds = [list(TOOL_FILES), list(COMMAND_OUTPUTS), list(PUBLISHED_TABLES)]
    assert sorted(name for kind in kinds for name in kind) == sorted(REGISTERED), "each format is of one kind, and known by a command"
    files = [Path(sys.modules[type(one).__module__].__file__ or "") for one in REGISTERED.values()]
    assert sorted(file.stem for file in files) == sorted(
        path.stem for path in (PACKAGE / "formats").glob("*.py") if path.stem not in ("__init__", "registry")
    )


def test_the_toy_of_the_page_is_the_one_that_is_tried() -> None:
    assert TOOL_FILE.strip() in page("extend")
