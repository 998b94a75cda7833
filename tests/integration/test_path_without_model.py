"""The path around a model: the same server with the model replaced by nothing answers the same messages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.data.repositories.golden import LLAMA
from tests.data.repositories.golden import workload as engine_workload
from tests.fakes.engines import python_with_fakes
from tests.fakes.trials import CONFIG

from plumbline.declarations import InferenceWorkload, load
from plumbline.harness import engine_python
from plumbline.harness.inference.load.prompts import prompts_of
from plumbline.harness.inference.load.schedule import schedule_of
from plumbline.harness.inference.phases.load_phase import sequential_load
from plumbline.harness.inference.server import backends, tritonserver, under_test
from plumbline.harness.inference.server.assembly import ServerPlace, managed_triton
from plumbline.harness.measurement import TrialFailed
from plumbline.loadclient.load_generator import drive
from plumbline.loadclient.request_log import RequestLog
from plumbline.loadclient.transport import Settings

REQUESTS = 6


def answered(workload: InferenceWorkload, folder: Path) -> RequestLog:
    written = backends.write_without_model(workload, folder / "models", threads=1)
    served = managed_triton(tritonserver.find_installation(), written, ServerPlace(folder, [None], [{}], 1), workload)
    schedule = schedule_of(workload)
    first, prompts = schedule.phases[0], prompts_of(workload, schedule).by_phase[0][:REQUESTS]
    sent = replace(sequential_load("warmup", prompts, 1), output_tokens=first.output_tokens[:REQUESTS])
    bodies = [served.body(i, prompt, int(n)) for i, (prompt, n) in enumerate(zip(prompts, sent.output_tokens, strict=True))]
    with under_test.all_running(served.servers):
        return drive(sent, bodies, served.target(), timeout_s=20.0, tick=lambda ended, due: None, settings=Settings())


@pytest.mark.parametrize(
    "name", ["chat-tiny-cpu", *(pytest.param(name, marks=pytest.mark.full) for name in ("embedding-cpu", "rag-cpu", "vision-cpu"))]
)
def test_the_same_messages_are_answered_without_the_model(name: str, tmp_path: Path) -> None:
    workload = load(CONFIG).workloads[name]
    assert isinstance(workload, InferenceWorkload)
    log = answered(workload, tmp_path)
    assert log.finished == REQUESTS, log.first_error()
    assert np.array_equal(log.written, log.load.output_tokens)


@pytest.mark.full
def test_an_engine_is_taken_out_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(engine_python.VARIABLE, python_with_fakes(tmp_path))
    log = answered(engine_workload(model=LLAMA, server={"backend": "vllm"}), tmp_path)
    assert log.finished == REQUESTS, log.first_error()


def test_a_server_of_another_command_keeps_its_model(tmp_path: Path) -> None:
    server = {"backend": "openai", "command": ["serve", "{model}", "{port}"]}
    command = engine_workload(model=LLAMA | {"vocabulary": 2048}, server=server, requests={"text": True})
    with pytest.raises(TrialFailed, match="openai cannot be taken out"):
        backends.write_without_model(command, tmp_path, threads=1)
