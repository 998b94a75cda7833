"""Inference engines behind the project's model file in a real Triton, with stand-ins for the engines, and servers started by a command."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import psutil
import pytest
from tests import checkpoints
from tests.data.repositories.golden import LLAMA, workload
from tests.fakes.engines import python_with_fakes
from tests.integration.test_engines_vllm import Answer, stream
from tests.integration.test_inference import measure, nothing_is_left, short_trial
from tests.integration.test_inference_faults import LENIENT, STEADY
from tritonclient.grpc import service_pb2 as messages

from plumbline.harness import engine_python
from plumbline.harness.inference.load import model_wires
from plumbline.harness.inference.load.served_tokenizer import ShippedTokenizer
from plumbline.harness.inference.phases.outputs import NotReported, PromptTokens, TritonOutputs
from plumbline.harness.inference.server import backends, tritonserver
from plumbline.harness.inference.server.backends import Repository
from plumbline.harness.inference.server.triton import Triton
from plumbline.harness.measurement import Measurement, TrialFailed
from plumbline.loadclient.prompt import Prompt
from plumbline.loadclient.wire import CACHED_TOKENS, INPUT_TOKENS, SERVER_TIMES

__all__ = ["nothing_is_left"]
SERVER = [sys.executable, "-m", "tests.fakes.engine_server", "--port", "{port}", "--model", "{model}", "--name", "{served_name}"]
LLAMA_256 = LLAMA | {"vocabulary": 256, "context": 256}


@pytest.fixture
def fake_engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(engine_python.VARIABLE, python_with_fakes(tmp_path))


def repository(folder: Path, backend: str, model: dict[str, Any] = LLAMA, **server: Any) -> Repository:
    return backends.write(workload(model=model, server={"backend": backend} | server), folder / "models", threads=1)


def triton(written: Repository, folder: Path) -> Triton:
    return Triton(tritonserver.find_installation(), written.folder, written.model, folder, ready_within_s=60)


def body(written: Repository, number: int, ids: list[int], tokens: int, **options: Any) -> bytes:
    return written.wire.body(number, model_wires.generation_inputs(Prompt(np.array(ids, np.int32)), tokens, **options))


def rows(result: Measurement, phase: str = "steady") -> dict[str, float | None]:
    return {r.metric: r.value for r in result.metrics if r.phase == phase and r.statistic in ("value", "mean")}


@pytest.mark.usefixtures("fake_engines")
@pytest.mark.parametrize("backend", ["vllm", pytest.param("tensorrtllm", marks=pytest.mark.full)])
def test_an_engine_streams_its_tokens_and_its_own_times(tmp_path: Path, backend: str) -> None:
    written = repository(tmp_path, backend, prefix_cache="cold")
    with triton(written, tmp_path) as server:
        first, again = (stream(server.address, [body(written, 0, [3, 4, 5], 6)])[0] for _ in range(2))
        natural = stream(server.address, [body(written, 0, [1, 1, 2], 9, natural=True)])[0]
        about, counted = server.start_up.about, server.view()
    assert first.tokens == again.tokens == [12, 13, 14, 15, 16, 17]
    assert natural.tokens == [4, 5, 6, 7], "it ended at the end of text"
    assert first.last[SERVER_TIMES].tolist() == pytest.approx([0, 0.002, 0.005, 0.006, 0])
    assert first.last[INPUT_TOKENS].tolist() == [3]
    assert [answer.last[CACHED_TOKENS].tolist() for answer in (first, again)] == [[0], [2]]
    assert about["engine"] == {"vllm": "vllm", "tensorrtllm": "tensorrt_llm"}[backend]
    assert about["engine_version"].endswith("fake")
    assert counted is not None
    assert (counted.succeeded, counted.cache_hits, counted.cache_misses, counted.drafted) == (3, 2, 7, None)


@pytest.mark.usefixtures("fake_engines")
def test_vllm_scores_the_tokens_of_a_prompt(tmp_path: Path) -> None:
    written = repository(tmp_path, "vllm")
    tokens = PromptTokens(ShippedTokenizer(128), tmp_path)
    with triton(written, tmp_path) as server:
        outputs = TritonOutputs(server.address, written.model, tokens)
        scores = outputs.scores([np.array(ids, np.int32) for ids in ([3, 4, 5], [6, 8])])
        (continued,) = outputs.continuations([np.array([1, 1, 2], np.int32)], 9)
    assert [found.log_probability.tolist() for found in scores] == [[-1.0, -1.25], [-2.0]]
    assert [found.greedy.tolist() for found in scores] == [[True, False], [True]]
    assert continued.tolist() == [4, 5, 6, 7], "it ends with the end of text"


@pytest.mark.full
@pytest.mark.usefixtures("fake_engines")
def test_an_engine_without_scores_says_so(tmp_path: Path) -> None:
    written = repository(tmp_path, "tensorrtllm")
    with triton(written, tmp_path) as server, pytest.raises(NotReported):
        TritonOutputs(server.address, written.model, PromptTokens(ShippedTokenizer(128), tmp_path)).scores([np.array([3, 4], np.int32)])


@pytest.mark.full
@pytest.mark.usefixtures("fake_engines")
def test_an_engine_refuses_a_request_and_goes_on_but_a_broken_one_ends_the_server(tmp_path: Path) -> None:
    (adapter := tmp_path / "adapter").mkdir()
    (adapter / "adapter_config.json").write_text('{"r": 8}')
    options = {"adapters": {"law": str(adapter)}, "speculative": {"method": "ngram", "tokens": 4}}
    written = repository(tmp_path, "vllm", **options)
    with triton(written, tmp_path) as server:
        for ids, tokens, expected in (
            ([14], 2, "begins with 14"),
            ([1], 128, "expected at least 1 each and at most 128"),
            ([], 2, "0 tokens in"),
        ):
            assert expected in refusal(server.address, body(written, 0, ids, tokens))
        assert "no adapter tax" in refusal(server.address, body(written, 0, [1], 2, adapter="tax"))
        adapted = stream(server.address, [body(written, 0, [1, 2], 4, adapter="law")])[0]
        counted = server.view()
        assert server.running()
        with pytest.raises((grpc.RpcError, AssertionError)):
            stream(server.address, [body(written, 0, [13], 2)], timeout=2)  # Triton itself answers nothing
        wait_until_ended(server)
    assert adapted.tokens == [103, 104, 105, 106]
    assert counted is not None
    assert (counted.drafted, counted.accepted) == (8, 2)


def refusal(address: str, request: bytes) -> str:
    with grpc.insecure_channel(address) as channel:
        call = channel.stream_stream(
            "/inference.GRPCInferenceService/ModelStreamInfer",
            request_serializer=lambda raw: raw,
            response_deserializer=messages.ModelStreamInferResponse.FromString,
        )
        return "".join(message.error_message for message in call(iter([request]), timeout=30))


def wait_until_ended(server: Triton) -> None:
    # Only its parent reaps it: to others it is a zombie that still exists.
    deadline = time.monotonic() + 30
    while server.running() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not server.running()


@pytest.mark.full
@pytest.mark.usefixtures("fake_engines")
def test_an_argument_that_the_engine_does_not_have(tmp_path: Path) -> None:
    written = repository(tmp_path, "vllm", engine_args={"no_such_argument": 1})
    with pytest.raises(TrialFailed, match=r"server\.engine_args: .*no_such_argument"), triton(written, tmp_path):
        pytest.fail("the engine does not start")


@pytest.mark.usefixtures("fake_engines")
def test_a_trial_on_an_engine_records_it(tmp_path: Path) -> None:
    server = {"backend": "vllm", "sequences": 8, "speculative": {"method": "ngram", "tokens": 4}}
    result = measure(short_trial(model=LLAMA_256, server=server), tmp_path)
    assert (result.facts["engine.name"], result.facts["engine.version"]) == ("vllm", "0.0.fake")
    assert json.loads(str(result.facts["engine.speculative"]))["method"] == "ngram"
    found = rows(result)
    assert (found["error_rate"], found["draft_acceptance_ratio"]) == (0, 0.25)
    assert found["prefill_time"] == pytest.approx(0.005)
    assert result.facts["engine.gpu_memory_utilization"] == 0.5
    sources = {stage.stage: stage.source for stage in result.stages if stage.phase == "steady"}
    assert sources == {"dispatch": "client", "queue": "response", "prefill": "response", "decode": "response", "delivery": "client"}
    assert [j.reason.code for j in result.judgements if j.reason.code == "counts_differ"] == []


@pytest.mark.full
def test_a_checkpoint_with_transformers_answers_as_the_model_does(tmp_path: Path) -> None:
    """Transformers' own generate is the truth."""
    import torch
    from transformers import AutoModelForCausalLM

    folder = checkpoints.llama(tmp_path / "checkpoint", dtype="float32", steps=20)
    prompts = [[5, 9, 30, 31], [8], list(range(40, 90))]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    truth = [
        model.generate(torch.tensor([ids]), max_new_tokens=8, min_new_tokens=8, do_sample=False)[0, len(ids) :].tolist() for ids in prompts
    ]
    declared = workload(model={"source": "folder", "path": str(folder), "precision": "fp32"}, server={"sequences": 2})
    written = backends.write(declared, tmp_path / "models", threads=1, checkpoint=folder)
    with triton(written, tmp_path) as server:
        answers: list[Answer] = stream(server.address, [body(written, i, ids, 8) for i, ids in enumerate(prompts)])
        about = server.start_up.about
    assert [answer.tokens for answer in answers] == truth
    assert (about["engine"], about["dtype"]) == ("transformers", "float32")
    assert all((answer.last[SERVER_TIMES][1:4] >= 0).all() for answer in answers)


@pytest.fixture
def nothing_of_the_command_is_left() -> Iterator[None]:
    yield
    assert [p.cmdline() for p in psutil.Process().children(recursive=True) if "tests.fakes.engine_server" in p.cmdline()] == []


@pytest.mark.usefixtures("nothing_of_the_command_is_left")
def test_a_trial_starts_drives_and_stops_the_declared_command(tmp_path: Path) -> None:
    server = {"backend": "openai", "command": SERVER, "sequences": 8}
    result = measure(short_trial(model=LLAMA_256, server=server), tmp_path)
    assert (result.facts["engine.name"], result.facts["engine.version"]) == ("vllm", "9.9.fake")
    assert "{port}" in str(result.facts["engine.command"])
    assert "server_log" in [item.kind for item in result.evidence]
    found = rows(result)
    assert (found["error_rate"], found["draft_acceptance_ratio"], found["cache_hit_ratio"]) == (0, 0.4, 0)
    assert (found["tokens_per_event"] or 0) >= 1
    assert (found["queue_time"], found["prefill_time"]) == (pytest.approx(0.001), pytest.approx(0.004))
    assert rows(result, "cold_start")["time_to_ready"] is not None
    sources = {stage.stage: stage.source for stage in result.stages if stage.phase == "steady"}
    assert sources == {"dispatch": "client", "queue": "metrics", "prefill": "metrics", "decode": "metrics", "delivery": "client"}
    assert {t.signal for t in result.telemetry} >= {"server_running_requests", "server_resident"}
    assert [j.reason.code for j in result.judgements if j.reason.code == "counts_differ"] == []


@pytest.mark.full
@pytest.mark.usefixtures("nothing_of_the_command_is_left")
def test_a_killed_command_is_started_again(tmp_path: Path) -> None:
    fault = {"name": "fault", "arrivals": {"poisson": {"rate": "20/s"}}, "duration": "6s", "inject": "server_kill", "at": "1s"}
    server = {"backend": "openai", "command": SERVER, "sequences": 8}
    result = measure(short_trial(model=LLAMA_256, server=server, phases=[STEADY, fault], **LENIENT), tmp_path)
    found = rows(result, "fault")
    assert found["time_to_ready"] is not None
    assert found["time_to_recover"] is not None
    assert (found["requests_lost"] or 0) > 0


@pytest.mark.usefixtures("nothing_of_the_command_is_left")
@pytest.mark.parametrize(
    ("command", "failure_class", "message"),
    [
        (["no-such-program", "{port}"], "image_error", r"no-such-program"),
        ([*SERVER, "--fails"], "server_error", r"exit code 3.*no such checkpoint"),
    ],
)
def test_a_command_that_does_not_serve(tmp_path: Path, command: list[str], failure_class: str, message: str) -> None:
    server = {"backend": "openai", "command": command, "sequences": 8}
    with pytest.raises(TrialFailed, match=message) as failed:
        measure(short_trial(model=LLAMA_256, server=server), tmp_path)
    assert failed.value.failure_class == failure_class
