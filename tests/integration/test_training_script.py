"""Training scripts in real processes: small ones without torch, in the manners of real ones."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.fakes.nvml import Card, Nvml
from tests.integration.test_training import codes
from tests.integration.test_training import trial as trial_of
from tests.integration.test_training_faults import done, values

from plumbline.declarations import Trial, criteria_hash, series_key, spec_hash
from plumbline.declarations.workloads.script import ScriptWorkload
from plumbline.harness.contention_monitor import ContentionMonitor
from plumbline.harness.gpu_monitor import GpuPhaseMonitor
from plumbline.harness.measurement import Measurement, TrialFailed
from plumbline.harness.training.job.trial import measure
from plumbline.metrics import Phase

TRAIN = """
import json, os, pathlib, sys, time
options = dict(argument.lstrip("-").split("=") for argument in sys.argv[1:])
steps, every, pause = int(options.get("steps", 20)), int(options.get("every", 6)), float(options.get("pause", 0.03))
kept, first = pathlib.Path("out/ckpt.json"), 0
if options.get("resume") == "true":
    first = json.loads(kept.read_text())["step"]
for step in range(first, steps):
    time.sleep(pause)
    print(f"iter {step}: loss {5 - step / 100:.4f}, time {pause * 1000:.2f}ms, mfu -100.00%")
    if (step + 1) % every == 0:
        kept.parent.mkdir(exist_ok=True)
        kept.with_suffix(".tmp").write_text(json.dumps({"step": step + 1}))
        kept.with_suffix(".tmp").rename(kept)
"""
"""In nanoGPT's manner."""
SCRIPT: dict[str, Any] = {
    "kind": "training",
    "name": "ours",
    "version": 1,
    "needs": {"accelerator": "cpu"},
    "work": {"tokens": 1000, "flops": 6e6},
    "precision": "fp32",
    "steps": {"discard": 3, "measure": 17},
    "repeats": {"per_slot": 1, "slots": ["02:00"]},
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A home of its own; and no test leaves a process behind."""
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    yield
    assert left() == []


def left() -> list[str]:
    """Processes of scripts and their workers below this one."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            line = " ".join(process.cmdline())
            if "train.py" in line or "training.script" in line:
                found.append(line)
    return found


def script(folder: Path, text: str = TRAIN, task: dict[str, Any] | None = None, **changed: Any) -> Trial:
    """A trial of a script that lies in a folder of the machine."""
    place = folder / "script"
    place.mkdir(exist_ok=True)
    (place / "train.py").write_text(text)
    given = {
        "kind": "script",
        "command": [sys.executable, "train.py"],
        "folder": str(place),
        "report": {"format": "nanogpt"},
        "checkpoints": {"folder": "out", "every": 6},
        "resume_arguments": ["--resume=true"],
    }
    workload = ScriptWorkload.model_validate_json(json.dumps(SCRIPT | {"task": given | (task or {})} | changed))
    planned = trial_of()
    hashes = {"spec_hash": spec_hash(workload), "criteria_hash": criteria_hash(workload, planned.validity)}
    made: Trial = planned.model_copy(update={"workload": workload, "series_key": series_key(workload, planned.provider), **hashes})
    return made


def run(folder: Path, *arguments: Any, **changed: Any) -> Measurement:
    work = folder / "work"
    work.mkdir()
    with ContentionMonitor(sorted(os.sched_getaffinity(0))) as watch:
        return measure(script(folder, *arguments, **changed), work, lambda *_: None, watch)


def value(measured: Measurement, metric: str, statistic: str | None = None, phase: str = "steady") -> float:
    rows = [
        row for row in measured.metrics if row.metric == metric and row.phase == phase and (statistic is None or row.statistic == statistic)
    ]
    found = rows[0].value
    assert found is not None
    return found


def test_a_script_is_measured_as_it_is(tmp_path: Path) -> None:
    measured = run(tmp_path)
    assert done(measured) == {"run": list(range(20))}
    assert value(measured, "step_time", "median") >= 0.03
    assert value(measured, "tokens_per_second", "median") == pytest.approx(1000 / value(measured, "step_time", "median"))
    assert value(measured, "model_flops") == pytest.approx(6e6 * value(measured, "tokens_per_second", "median"))
    assert value(measured, "final_loss") == 4.81
    assert value(measured, "checkpoint_size") == len('{"step": 18}')
    assert value(measured, "training_peak_memory") > 1e6
    assert (tmp_path / "script" / "out").exists() is False, "it ran in a copy"
    facts = measured.facts
    assert {name: facts[f"script.{name}"] for name in ("times", "work", "loss", "checkpoints")} == {
        "times": "seen",
        "work": "declared",
        "loss": "reported",
        "checkpoints": "seen",
    }
    assert "script_files" in measured.hashes and "losses" in measured.hashes
    assert not [metric for metric in measured.metrics if metric.metric in ("data_wait_time", "first_step_time")] or value(
        measured, "first_step_time", phase="cold_start"
    ) == pytest.approx(0.03, rel=0.2), "the script reports how long its first step took"
    (log,) = [item.path for item in measured.evidence if item.kind == "log"]
    assert log.read_text().count("iter ") == 20
    (names,) = [item.path for item in measured.evidence if item.kind == "variables"]
    assert "PLUMBLINE_REPORT" in names.read_text().splitlines()


@pytest.mark.fault("a rank of a training script killed", ends="valid, with its restart penalty", keeps="its checkpoints; equal losses")
def test_a_script_is_killed_and_goes_on(tmp_path: Path) -> None:
    measured = run(tmp_path, fault={"inject": "rank_kill", "at_step": 9}, deterministic=True)
    steps = done(measured)
    # On a busy machine the kill may come later than the middle of the step.
    assert (steps["run"], steps["fault"][:9], steps["recovery"]) == (list(range(20)), list(range(9)), [6, 7, 8, 9, 10, 11])
    value = values(measured)
    assert "checkpoint_load_time" not in value  # it says nothing of loading
    parts = [value[name] for name in ("restart_detect_time", "restart_launch_time", "restart_recompute_time")]
    assert value["restart_penalty"] == pytest.approx(sum(part or 0.0 for part in parts))
    assert all(part is not None and part >= 0 for part in parts)
    assert 0 < (value["training_goodput"] or 0.0) < 1
    assert "losses_continue_exactly" in measured.guarantees
    assert not codes(measured) & {"losses_diverge_after_resume", "unplanned_restart"}


class GrownMemory(GpuPhaseMonitor):
    """The GPU's memory is taken when the cold start ends, so before its last reading: a script's phases may be too short for any other."""

    def __init__(self, card: Card, grown: float) -> None:
        super().__init__(0.02, Nvml(card))
        self._card, self._grown = card, grown

    def change(self, left: Phase | None, entered: Phase | None) -> None:
        if left == "cold_start":
            self._card.used = self._grown
        super().change(left, entered)


def test_a_script_s_memory_on_a_gpu_is_what_the_gpu_holds_beyond_before(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    trial = script(tmp_path, needs={"accelerator": "gpu"})
    with ContentionMonitor(sorted(os.sched_getaffinity(0)), gpus=GrownMemory(Card(used=1e9), 9e9)) as watch:
        measured = measure(trial, work, lambda *_: None, watch)
    (peak,) = [row for row in measured.metrics if row.metric == "training_peak_memory"]
    assert (peak.value, peak.method) == (8e9, "used on the GPU beyond what was used before")


REPORTER = """
import sys, time
from plumbline_report import checkpoint, evaluated, step
for number in range(1000):
    with step(tokens=500) as done:
        time.sleep(0.05)
        done.loss, done.data_wait = 3.0, 0.001
    if number % 6 == 5:
        with checkpoint("weights.bin"):
            open("weights.bin", "wb").write(b"x" * 4096)
            time.sleep(0.1)
"""


def test_a_script_reports_by_the_reporter_and_is_ended_after_its_last_step(tmp_path: Path) -> None:
    task = {"report": {"format": "reporter"}, "checkpoints": {"folder": "out", "every": 6}}
    measured = run(tmp_path, REPORTER, task, work={})
    assert done(measured)["run"] == list(range(20))
    assert measured.facts["script.times"] == measured.facts["script.checkpoints"] == measured.facts["script.work"] == "reported"
    assert value(measured, "step_time", "median") == pytest.approx(0.05, rel=0.2)
    assert value(measured, "checkpoint_save_time") == pytest.approx(0.1, rel=0.2)
    assert value(measured, "checkpoint_size") == 4096
    assert value(measured, "data_wait_time") == pytest.approx(0.001)
    assert value(measured, "tokens_per_second", "median") == pytest.approx(500 / value(measured, "step_time", "median"))
    assert "reported_times_disagree" not in codes(measured), "pauses for checkpoints are no part of steps"


LYING = TRAIN.replace("time {pause * 1000:.2f}ms", "time {pause * 900:.2f}ms")


@pytest.mark.fault(
    "a training script reports other step times than it takes", ends="degraded (reported_times_disagree)", keeps="both numbers"
)
def test_reported_times_that_disagree_with_the_wall(tmp_path: Path) -> None:
    measured = run(tmp_path, LYING)
    (found,) = [item.reason.detail for item in measured.judgements if item.reason.code == "reported_times_disagree"]
    assert "of wall time" in found


@pytest.mark.parametrize(
    ("text", "task", "failure_class", "words"),
    [
        pytest.param("print('epoch 1')", {}, "bad_declaration", r"without reporting a step; expected lines that match .*iter[\s\S]*epoch 1", id="silent"),
        pytest.param("print('epoch 1')", {"private": True}, "bad_declaration", r"without reporting a step; expected lines that match [^\n]*$", id="private"),
        pytest.param("import sys; print('no such data', file=sys.stderr); sys.exit(3)", {}, "bad_declaration", "exit code 3[\\s\\S]*no such data", id="exit"),
        pytest.param("import sys; print('hush'); sys.exit(3)", {"private": True}, "bad_declaration", "exit code 3$", id="private exit"),
        pytest.param(TRAIN.replace("iter {step}", "iter {step if step < 12 else 5}"), {}, "bad_declaration", "step 5 after step 11", id="backwards"),
        pytest.param(TRAIN.replace("iter {step}", "iter {step * 10}"), {}, "bad_declaration", "step 10 after step 0; expected report.first", id="every"),
        pytest.param(TRAIN, {"command": [sys.executable, "train.py", "--steps=9"]}, "bad_declaration", "after 9 of 20 steps", id="short"),
        pytest.param(TRAIN, {"command": ["./nothing"]}, "bad_declaration", "nothing is no program here", id="program"),
        pytest.param("import nothing_of_the_kind", {}, "image_error", "nothing_of_the_kind", id="package"),
    ],
)  # fmt: skip
@pytest.mark.fault(
    "a training script ends without its steps, or reports them wrong", ends="bad_declaration", keeps="its last lines, unless private"
)
def test_what_a_script_does_wrong_is_said(tmp_path: Path, text: str, task: dict[str, Any], failure_class: str, words: str) -> None:
    with pytest.raises(TrialFailed, match=words) as caught:
        run(tmp_path, text, task)
    assert caught.value.failure_class == failure_class
    assert bool([item for item in caught.value.partial.evidence if item.kind == "log"]) is not task.get("private", False)
    if task.get("private"):
        assert "hush" not in caught.value.detail and "epoch" not in caught.value.detail


DAEMON = """
import os, subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "train.py"], start_new_session=True)
print("started")
"""


@pytest.mark.fault("a training script leaves a daemon and ends", ends="bad_declaration", keeps="no process")
def test_a_script_that_becomes_a_daemon_is_ended(tmp_path: Path) -> None:
    with pytest.raises(TrialFailed, match=r"without reporting a step; it left .* behind"):
        run(tmp_path, DAEMON)
    assert not [p for p in psutil.process_iter(["cmdline"]) if "time.sleep(600)" in " ".join(p.info["cmdline"] or ())]


STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + TRAIN


@pytest.mark.fault("a training script ignores SIGTERM", ends="valid", keeps="no process")
def test_a_script_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    measured = run(tmp_path, STUBBORN, {"command": [sys.executable, "train.py", "--steps=100000"]})
    assert done(measured)["run"][-1] >= 19


@pytest.mark.fault("a training script's loss is no number", ends="invalid (loss_not_finite)", keeps="its steps")
def test_a_loss_that_is_no_number(tmp_path: Path) -> None:
    measured = run(tmp_path, TRAIN.replace("{5 - step / 100:.4f}", "{'nan' if step > 12 else 5 - step / 100}"))
    assert "loss_not_finite" in codes(measured)


@pytest.mark.fault("a training script killed from outside the plan", ends="degraded (unplanned_restart)", keeps="its checkpoints")
def test_a_script_killed_by_another_program_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    slow = {"command": [sys.executable, "train.py", "--pause=0.1"]}

    def kill() -> None:
        while not (saved := list((tmp_path / "work").glob("script/out/ckpt.json"))):
            time.sleep(0.02)
        time.sleep(0.25)
        assert saved
        for process in psutil.process_iter(["cmdline"]):
            if process.info["cmdline"] and process.info["cmdline"][-2:] == ["train.py", "--pause=0.1"]:
                process.send_signal(signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    measured = run(tmp_path, TRAIN, slow)
    killer.join()
    assert "unplanned_restart" in codes(measured)
    assert done(measured)["run-2"][0] == 6
    assert sorted({*done(measured)["run"], *done(measured)["run-2"]}) == list(range(20))


@pytest.mark.fault(
    "a training script writes outside its folder", ends="degraded (files_left_outside)", keeps="all metrics; names the files"
)
@pytest.mark.parametrize("private", [False, True])
def test_files_that_a_script_leaves_elsewhere_are_named(tmp_path: Path, private: bool) -> None:
    for name in ("elsewhere", "temporary", "home/.cache", "hub"):
        (tmp_path / name).mkdir(parents=True)
    old = tmp_path / "elsewhere" / "old.db"
    old.touch()
    os.utime(old, (0, 0))
    opened = [f"{tmp_path}/{name}" for name in ("elsewhere/weights.bin", "temporary/a", "home/.cache/b", "hub/c")] + ["log.txt"]
    text = f"held = [open(path, 'w') for path in {opened}]\n[file.write('x') and file.flush() for file in held]\nread = open({str(old)!r}, 'r+')\n"
    environment = {"TMPDIR": f"{tmp_path}/temporary", "HOME": f"{tmp_path}/home", "HF_HOME": f"{tmp_path}/hub"}
    measured = run(tmp_path, text + TRAIN, {"environment": environment, "private": private})
    (left,) = [item.reason.detail for item in measured.judgements if item.reason.code == "files_left_outside"]
    assert left.startswith("the command wrote 1 file outside of its folder")
    assert (opened[0] in left) is not private


def test_a_script_that_keeps_to_its_folder_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    measured = run(tmp_path, "held = open('log.txt', 'w')\n" + TRAIN, {"environment": {"TMPDIR": f"{tmp_path}/temporary"}})
    assert "files_left_outside" not in codes(measured)


COUNTED = """
import json, time
for step in range(20):
    time.sleep(0.1)
    LINE
"""
"""Longer than the second in which a new file is looked for once."""
OF_OUTPUT = "print({'loss': 2.0 - step / 100, 'epoch': 0.1}, flush=True)"
IN_A_FILE = "open('log.jsonl', 'a').write(json.dumps({'loss': 2.0}) + '\\n')"
BAR = "print(f' 5%|x| {(step + 1) * EACH}/90 [00:0{step % 10}<00:09, 8.0it/s]', end=chr(13), flush=True); "


@pytest.mark.fault("a training script's reports have no step number", ends="degraded (steps_counted)", keeps="all metrics")
@pytest.mark.fault("steps are counted, and a progress bar shows another number", ends="invalid (steps_miscounted)", keeps="all metrics")
@pytest.mark.parametrize(
    ("line", "report", "code"),
    [
        pytest.param(OF_OUTPUT, {"format": "huggingface"}, "steps_counted", id="output"),
        pytest.param(IN_A_FILE, {"format": "jsonl", "loss": "loss", "file": "log.jsonl"}, "steps_counted", id="file"),
        pytest.param(BAR.replace("EACH", "1") + OF_OUTPUT, {"format": "huggingface"}, None, id="a bar agrees"),
        pytest.param(BAR.replace("EACH", "4") + OF_OUTPUT, {"format": "huggingface"}, "steps_miscounted", id="a bar does not"),
    ],
)
def test_steps_that_are_only_counted_are_said_to_be(tmp_path: Path, line: str, report: dict[str, Any], code: str | None) -> None:
    measured = run(tmp_path, COUNTED.replace("LINE", line), {"report": report, "checkpoints": None, "resume_arguments": None})
    assert codes(measured) & {"steps_counted", "steps_miscounted"} == ({code} if code else set())


FORGING = """
import json, pathlib, sys, time
log = pathlib.Path("../run.steps.jsonl")
began = time.monotonic_ns()
with log.open("a") as file:
    for step in range(20):
        line = {"event": "step", "step": step, "start": began + step * 10**6, "ns": began + (step + 1) * 10**6, "stages": {}, "loss": 1.0, "work": None}
        file.write(json.dumps(line) + "\\n")
    file.write(json.dumps({"event": "done", "ns": time.monotonic_ns()}) + "\\n")
time.sleep(5)
"""


@pytest.mark.fault("a script writes steps into the harness's step log", ends="bad_declaration", keeps="no step of it")
def test_a_forged_step_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrialFailed, match=r"line \d+ of run\.steps\.jsonl was not written by the harness") as failed:
        run(tmp_path, FORGING)
    assert failed.value.failure_class == "bad_declaration"
    assert failed.value.partial is not None and not [row for row in failed.value.partial.metrics if row.metric == "step_time"]


@pytest.mark.fault("a script looks for the store's keys and a person's files", ends="measured", keeps="the keys: it has a home of its own")
def test_a_script_gets_no_key_of_the_harness_and_a_home_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "PLUMBLINE_ARCHIVE_URL", "PLUMBLINE_EVIDENCE_KEY", "AIRFLOW__CORE__FERNET_KEY", "SLACK_TOKEN"):
        monkeypatch.setenv(name, "hunter2")
    looking = TRAIN.replace("for step in", f'pathlib.Path("{tmp_path}/seen").write_text(json.dumps(dict(os.environ)))\nfor step in', 1)
    run(tmp_path, looking)
    seen = json.loads((tmp_path / "seen").read_text())
    assert "hunter2" not in json.dumps(seen) and not seen.keys() & {"AWS_SECRET_ACCESS_KEY", "PLUMBLINE_HOME", "PLUMBLINE_ARCHIVE_URL"}
    assert seen["HOME"] == str(tmp_path / "work" / "home") and Path(seen["HOME"]).is_dir()
