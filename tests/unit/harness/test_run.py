"""From a trial to its stored document, with small real measurements in the place of training and inference."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial

import fsspec
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from tests.fakes.nvml import Card, Nvml
from tests.fakes.quick_python import search_path
from tests.fakes.trials import a_trial, declared

from plumbline.declarations import Trial, criteria_hash, installation_paths
from plumbline.harness import contention_monitor, probes
from plumbline.harness.delivery import DeliveryFailed, StoreUnreachable, UnusableStore
from plumbline.harness.environment import collect_facts
from plumbline.harness.gpu_monitor import GpuPhaseMonitor
from plumbline.harness.measurement import EvidenceFile, Measurement, TrialFailed, TrialJudgement
from plumbline.harness.probes import disk
from plumbline.harness.run import run
from plumbline.results import CheckLine, Event, Reason, ResultDocument, ResultStore, Telemetry, log_transport, metric_row
from plumbline.results.evidence_files import damaged_files


def disk_alone(cpus, workdir, device, ranks, collective_s):
    return disk.disk_rows(workdir)


def products(trial, workdir, progress, watch, probed):
    """Times matrix products: a measurement in miniature."""
    times = []
    with watch.phase("steady"):
        for i in range(20):
            before, worked = time.perf_counter(), time.thread_time()
            # CPU time, not wall time: many ticks of the kernel's clock also where others use the cores, of which they then never have all.
            while time.thread_time() - worked < 0.01:
                np.ones((128, 128)) @ np.ones((128, 128))
            times.append(time.perf_counter() - before)
            progress("steady", (i + 1) / 20, f"{i + 1} of 20 products")
    pq.write_table(pa.table({"seconds": times}), workdir / "products.parquet")
    return Measurement(
        metrics=[metric_row("step_time", float(np.median(times)), len(times))],
        evidence=[EvidenceFile("steps", workdir / "products.parquet", len(times))],
        facts={"blas.name": "numpy's"},
        seeds={"model": 7},
        hashes={"data": "0" * 64},
        guarantees=["same_products"],
    )


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(disk, "_SIZE", disk._BLOCK)  # 12 MiB a test, not 192
    # A machine whose cores are all busy reaches limits of 100 %.
    monkeypatch.setattr(contention_monitor, "_judge_threshold", lambda *_: [])
    return tmp_path


def tolerant() -> Trial:
    """A trial that no neighbour of the tests can make invalid."""
    trial = a_trial()
    limits = {f"{signal_}_{level}": "100%" for signal_ in ("foreign_cpu", "cpu_pressure") for level in ("degraded", "invalid")}
    validity = trial.validity.model_validate_json(json.dumps({**json.loads(trial.validity.model_dump_json()), **limits}))
    return trial.model_copy(update={"validity": validity, "criteria_hash": criteria_hash(trial.workload, validity)})


def ran(home, measure, trial=None, probe=disk_alone):
    trial = trial or tolerant()
    document = run(trial, (home / "results").as_uri(), {"training": measure}, probe)
    store = ResultStore((home / "results").as_uri())
    assert store.document(store.folder(trial)) == document
    assert damaged_files(store, document) == []
    assert list(installation_paths().work.iterdir()) == []
    return document


def test_a_measured_trial_becomes_a_whole_document(home, capsys):
    document = ran(home, products)
    assert document.validity.status == "valid"
    assert document.value("step_time") is not None
    assert document.value("disk_write_bandwidth", phase="environment") is not None
    assert document.environment is not None
    assert document.environment.facts["blas.name"] == "numpy's"
    assert document.environment.facts["cpu.usable"] == len(os.sched_getaffinity(0))
    assert document.reproducibility is not None
    assert document.reproducibility.replay_command == f"plumbline replay {document.trial.trial_id}"
    assert document.reproducibility.seeds == {"model": 7}
    assert [e.name for e in document.timeline] == [
        "harness_started",
        "environment_probed",
        "measurement_started",
        "measurement_finished",
        "evidence_stored",
    ]
    assert {(t.phase, t.signal) for t in document.telemetry} >= {("steady", "foreign_cpu"), ("environment", "own_cpu")}
    fractions = [json.loads(line)["fraction"] for line in capsys.readouterr().out.splitlines()]
    assert fractions == sorted(fractions)
    assert (fractions[0], fractions[-1]) == (0.0, 1.0)


def test_the_document_is_written_after_its_evidence(home):
    document = ran(home, products)
    folder = home / "results" / ResultStore("memory://").folder(document.trial)
    written = [
        (folder / name).stat().st_mtime_ns for name in ("trial.json", *(evidence.uri for evidence in document.evidence), "result.json")
    ]
    assert len(written) == 3
    assert written == sorted(written)


def test_judgements_decide_the_validity(home):
    def doubtful(*arguments):
        measured = products(*arguments)
        measured.judgements = [TrialJudgement("degraded", Reason(code="step_time_unsteady", detail="it varied"))]
        return measured

    document = ran(home, doubtful)
    assert (document.validity.status, [r.code for r in document.validity.reasons]) == ("degraded", ["step_time_unsteady"])


def test_a_measurement_that_was_never_watched_is_degraded(home):
    document = ran(home, lambda *_: Measurement())
    assert [r.code for r in document.validity.reasons] == ["contention_unobserved"]


def test_a_measurements_own_telemetry_is_kept_beside_the_watchs(home):
    def measured(*arguments):
        found = products(*arguments)
        found.telemetry = [Telemetry(phase="steady", signal="load_1m", unit="tasks", n=1, mean=0.5, min=0.5, max=0.5)]
        found.events = [Event(name="early", utc="2020-01-01T00:00:00Z")]
        return found

    document = ran(home, measured)
    assert [t.mean for t in document.telemetry if (t.phase, t.signal) == ("steady", "load_1m")] == [0.5]
    assert document.timeline[0].name == "early"


@pytest.mark.parametrize(("measured", "degraded"), [(1.0, False), (2.0, True)])
def test_the_first_trial_of_a_plan_carries_the_selfcheck(home, monkeypatch, measured, degraded):
    lines = [CheckLine.compared("event_timer", measured, 1.0, 0.1, "s", "a spin")]
    monkeypatch.setattr("plumbline.harness.selfcheck.run_for_trial", lambda trial: lines)
    document = ran(home, products, tolerant().model_copy(update={"selfcheck": True}))
    assert document.selfcheck == tuple(lines)
    assert ("selfcheck_failed" in [reason.code for reason in document.validity.reasons]) == degraded
    assert document.validity.status != "valid" or not degraded
    assert "instrument_checked" in [event.name for event in document.timeline]


def test_the_other_trials_do_not_pay_for_it(home, monkeypatch):
    monkeypatch.setattr("plumbline.harness.selfcheck.run_for_trial", lambda trial: pytest.fail("it was run"))
    assert ran(home, products).selfcheck == ()


@pytest.mark.parametrize("fails", [False, True])
def test_new_errors_of_a_gpu_are_in_the_document_also_of_a_trial_that_fails(home, monkeypatch, fails):
    card = Card(replays=3, events=[])
    monkeypatch.setattr("plumbline.harness.run.GpuPhaseMonitor", lambda: GpuPhaseMonitor(nvml=Nvml(card)))

    def falling_off_the_bus(*arguments):
        card.events = [79]
        measured = products(*arguments)
        if fails:
            raise TrialFailed("harness_error", "the device is gone", measured)
        return measured

    document = ran(home, falling_off_the_bus)
    assert document.validity.failure_class == ("provider_fault" if fails else None)
    assert not fails or "xid_79 +1" in document.validity.reasons[0].detail
    assert "gpu_xid" in [reason.code for reason in document.validity.reasons]
    counters = {row.counter: (row.before, row.after, row.new) for row in document.gpu_health}
    assert counters == {"pcie_replays": (3, 3, 0), "xid": (0, 1, 1), "xid_79": (0, 1, 1)}


def test_a_failure_is_recorded_with_what_was_measured(home):
    why = "the server stopped answering"

    def failing(trial, workdir, progress, watch, probed):
        partial = products(trial, workdir, progress, watch, probed)
        partial.evidence.append(EvidenceFile("log", workdir / "never-written.log"))
        raise TrialFailed("server_error", why, partial)

    document = ran(home, failing)
    assert (document.validity.status, document.validity.failure_class) == ("failed", "server_error")
    assert document.validity.reasons[0].detail == why
    assert document.value("step_time") is not None
    assert [e.kind for e in document.evidence] == ["steps"]
    assert document.environment is not None


def test_any_other_exception_is_a_harness_error_with_its_traceback(home):
    bug = ZeroDivisionError("a bug of the harness")

    def broken(*_):
        raise bug

    document = ran(home, broken)
    assert (document.validity.failure_class, document.validity.reasons[0].detail) == ("harness_error", f"ZeroDivisionError: {bug}")
    (evidence,) = document.evidence
    assert evidence.kind == "traceback"
    text = (home / "results" / ResultStore("memory://").folder(document.trial) / evidence.uri).read_text()
    assert "in broken" in text
    assert document.value("disk_write_bandwidth", phase="environment") is not None


def test_evidence_of_the_same_name_is_an_error_that_loses_no_numbers(home):
    def careless(trial, workdir, progress, watch, probed):
        found = products(trial, workdir, progress, watch, probed)
        found.evidence *= 2
        return found

    document = ran(home, careless)
    assert document.validity.failure_class == "harness_error"
    assert "products.parquet" in document.validity.reasons[0].detail
    assert document.value("step_time") is not None
    assert sorted(e.kind for e in document.evidence) == ["steps", "traceback"]


def numpy_out_of_memory(*_):
    np.ones(2**62, dtype=np.uint8)


def torch_out_of_memory(*_):
    import torch

    torch.empty(2**55, dtype=torch.float64)


@pytest.mark.parametrize("measure", [numpy_out_of_memory, torch_out_of_memory])
def test_out_of_memory_is_a_class_of_its_own(home, measure):
    document = ran(home, measure)
    assert document.validity.failure_class == "out_of_memory"


def test_a_provider_with_gpus_is_not_measured_without_them(home):
    trial = a_trial()
    elsewhere = trial.model_copy(update={"provider": declared().providers["example-coreweave-h100"]})
    measured = []
    document = ran(home, lambda *arguments: measured.append(arguments), elsewhere)
    assert document.validity.failure_class == "wrong_hardware"
    assert elsewhere.provider.name in document.validity.reasons[0].detail
    assert document.environment is not None
    assert measured == []


def test_an_unsupported_torch_is_the_images_fault(home, monkeypatch):
    monkeypatch.setattr("plumbline.harness.environment.software._engine", lambda names, _: {"torch": "2.6.0+cu124"}.get(names[0]))
    measured = []
    document = ran(home, lambda *arguments: measured.append(arguments))
    assert (document.validity.failure_class, measured) == ("image_error", [])
    assert all(part in document.validity.reasons[0].detail for part in ("2.6.0+cu124", "2.7", "2.13"))


def test_a_driver_too_old_for_the_images_cuda_is_the_images_fault_and_not_the_providers(home, monkeypatch):
    facts = collect_facts() | {"torch.cuda": "13.0", "cuda.version": "12.2", "driver.version": "535.183.01"}
    monkeypatch.setattr("plumbline.harness.environment.collect_facts", lambda: facts)
    trial = a_trial()
    elsewhere = trial.model_copy(update={"provider": declared().providers["example-coreweave-h100"]})
    document = ran(home, lambda *arguments: pytest.fail("measured"), elsewhere)
    assert document.validity.failure_class == "image_error"
    assert all(part in document.validity.reasons[0].detail for part in ("CUDA 13.0", "535.183.01", "580.65.06"))


@pytest.mark.full
@pytest.mark.fault("a hardware probe fails", ends="valid", keeps="the reason, in the probe's rows")
def test_a_probe_that_fails_costs_its_rows_and_never_the_trial(home, monkeypatch):
    breaks = (
        "import os, signal, sys, numpy",
        "sys.modules['torch'] = None",
        "numpy.copyto = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)",
    )
    script = "; ".join(f"exec({line!r})" for line in breaks) + "; from plumbline.harness.probes.worker import main; main()"
    monkeypatch.setattr(probes, "command", lambda: [sys.executable, "-c", script])
    document = ran(home, products, probe=partial(probes.run, only=("memory", "disk", "matmul")))
    assert document.validity.status == "valid"
    found = {row.metric: row for row in document.metrics if row.phase == "environment"}
    assert found["disk_write_bandwidth"].value is not None
    reasons = {"memory_bandwidth": "signal 9", **dict.fromkeys(("matmul_tflops", "matmul_tflops_fp32", "matmul_tflops_bf16"), "torch")}
    for metric, reason in reasons.items():
        assert (found[metric].value, reason in (found[metric].reason or "")) == (None, True)


def test_what_the_measurement_leaves_running_is_ended(home, capsys):
    left = []

    def forgetful(*arguments):
        left.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]))
        return products(*arguments)

    ran(home, forgetful)
    assert not psutil.pid_exists(left[0].pid)
    assert f"({left[0].pid})" in capsys.readouterr().err


@pytest.mark.fault("the store fails when a measured trial is stored", ends="valid", keeps="the verdict; the document is in the log")
def test_a_store_that_is_away_at_the_end_changes_no_verdict_and_holds_no_accelerator(home, monkeypatch, capsys):
    left, alive = [], []

    def forgetful(*arguments):
        left.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]))
        return products(*arguments)

    class Away(MemoryFileSystem):
        protocol = "away"
        cachable = False

        def pipe_file(self, path, *arguments, **more):
            if path.endswith("trial.json"):
                return super().pipe_file(path, *arguments, **more)
            alive.append(psutil.pid_exists(left[0].pid))
            raise PermissionError("the token expired")

    fsspec.register_implementation("away", Away, clobber=True)
    with pytest.raises(DeliveryFailed):
        run(tolerant(), "away://results", {"training": forgetful}, disk_alone)
    files = log_transport.decode(capsys.readouterr().out.encode())
    document = ResultDocument.model_validate_json(files["result.json"])
    assert (document.validity.status, [item.uri for item in document.evidence]) == ("valid", ["evidence/products.parquet"])
    assert set(files) == {"result.json", "evidence/products.parquet"}
    assert alive and not any(alive), "what measured is gone before the first byte is uploaded"


@pytest.mark.parametrize("url", ["nosuch://bucket/results", "file:///proc/not/writable"])
def test_a_store_that_cannot_be_written_is_found_at_once(home, url):
    with pytest.raises(UnusableStore, match=url):
        run(tolerant(), url, {"training": products}, disk_alone)
    assert not installation_paths().work.exists() or list(installation_paths().work.iterdir()) == []


@pytest.mark.parametrize(("error", "expected"), [(OSError("no route"), StoreUnreachable), (PermissionError("no"), UnusableStore)])
@pytest.mark.fault("the store is away when a trial starts", ends="unreachable", keeps="nothing is measured in vain")
def test_a_store_that_is_away_at_the_start_is_no_wrong_declaration(home, monkeypatch, error, expected):
    class Away(MemoryFileSystem):
        protocol = "away"
        cachable = False

        def pipe_file(self, *_, **__):
            raise error

    fsspec.register_implementation("away", Away, clobber=True)
    monkeypatch.setattr("plumbline.harness.delivery._REMOTE_PATIENCE_S", 0.0)
    with pytest.raises(expected, match=r"^away://results "):
        run(tolerant(), "away://results", {"training": products}, disk_alone)


STUCK = """
import subprocess, sys, time
from pathlib import Path
from plumbline.harness.__main__ import read_trial
from plumbline.harness.probes import disk
from plumbline.harness.run import run

def stuck(trial, workdir, progress, watch, probed):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (workdir / "partial").touch()
    with watch.phase("steady"):
        print("stuck", child.pid, flush=True)
        while True:
            time.sleep(60)

document = run(read_trial(sys.argv[1]), sys.argv[2], {"training": stuck}, lambda cpus, workdir, *_: disk.disk_rows(workdir))
sys.exit(3 if document.validity.failure_class == "interrupted" else 1)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.full)])
@pytest.mark.fault("SIGTERM during a trial", ends="interrupted", keeps="a document with what was measured")
def test_a_request_to_stop_becomes_an_interrupted_document(home, number):
    trial = tolerant()
    (home / "trial.json").write_text(trial.model_dump_json())
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK, str(home / "trial.json"), (home / "results").as_uri()],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": search_path("include")},
    )
    assert process.stdout is not None
    child = next(int(line.split()[1]) for line in process.stdout if line.startswith("stuck"))
    process.send_signal(number)
    process.send_signal(number)  # an impatient sender changes nothing
    process.stdout.read()
    assert process.wait(timeout=120) == 3
    assert not psutil.pid_exists(child)
    store = ResultStore((home / "results").as_uri())
    document = store.document(store.folder(trial))
    assert (document.validity.status, document.validity.failure_class) == ("failed", "interrupted")
    assert document.validity.reasons[0].detail.endswith(f" {number.name}")
    assert document.environment is not None
    assert list(installation_paths().work.iterdir()) == []
