from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError
from tests.data.repositories.golden import GPU, LLAMA, workload
from tests.fakes.trials import H100, cluster_provider

from plumbline.declarations import Provider, spec_hash
from plumbline.declarations.workloads.engines import fill_command
from plumbline.harness.inference import trial as inference_trial

COMMAND = ["serve", "{model}", "--port", "{port}"]


def declared(backend: str = "vllm", needs: dict[str, Any] = GPU, **server: Any) -> Any:
    return workload(model=LLAMA, server={"backend": backend} | server, needs=needs)


def test_options_that_are_not_declared_change_no_hash() -> None:
    plain = spec_hash(declared())
    options: list[dict[str, Any]] = [
        {"engine_args": {}},
        {"exact_output": True},
        {"engine_args": {"block_size": 32}},
        {"engine_args": {"block_size": 16}},
        {"parallel": {"tensor": 1}},
        {"kv_cache_precision": "fp8"},
        {"speculative": {"method": "ngram", "tokens": 3}},
    ]
    assert [spec_hash(declared(**each)) == plain for each in options] == [True, True, False, False, False, False, False]


def test_a_command_is_filled_and_other_braces_stay() -> None:
    command = ("serve", "{model}", "--at={host}:{port}", '{"method": "ngram"}', "{threads}")
    values = {"model": "/models/a", "host": "127.0.0.1", "port": 8123, "threads": 2}
    assert fill_command(command, values) == ["serve", "/models/a", "--at=127.0.0.1:8123", '{"method": "ngram"}', "2"]


@pytest.mark.parametrize("parallel", [{"tensor": 4}, {"tensor": 2, "pipeline": 2}, {"tensor": 2, "data": 2, "expert": 4}])
def test_a_model_is_divided_over_all_accelerators(parallel: dict[str, int]) -> None:
    assert declared(needs=GPU | {"count": 4}, parallel=parallel).server.parallel.accelerators == 4


@pytest.mark.parametrize(
    ("backend", "server", "field"),
    [
        ("python", {"engine_args": {"block_size": 16}}, "server.engine_args"),
        ("openai", {"command": COMMAND, "parallel": {"expert": 2}}, "server.parallel.expert"),
        ("tensorrtllm", {"adapters": {"law": "/adapters/law"}}, "server.adapters"),
        ("vllm", {"engine_args": {"max_model_len": 64}}, "model.context"),
        ("vllm", {"engine_args": {"tensor_parallel_size": 2}}, "server.parallel.tensor"),
        ("vllm", {"engine_args": {"Max Len": 64}}, "engine_args"),
        ("vllm", {"parallel": {"tensor": 2}}, "product of 1"),
        ("vllm", {"parallel": {"expert": 2}}, "server.parallel.expert 2"),
        ("tensorrtllm", {"parallel": {"expert": 3}}, "server.parallel.expert 3"),
        ("vllm", {"speculative": {"method": "ngram", "tokens": 3, "model": "/draft"}}, "expected no model"),
        ("vllm", {"speculative": {"method": "eagle", "tokens": 3}}, "expected model"),
        ("vllm", {"command": COMMAND}, "server.command"),
        ("vllm", {"exact_output": False}, "server.exact_output"),
        ("openai", {}, "server.command"),
        ("openai", {"command": ["serve", "{model}"]}, "{port}"),
        ("openai", {"command": ["serve", "{folder}", "{port}"]}, "{folder}"),
        ("openai", {"command": COMMAND, "protocol": "openai_chat"}, "requests.text"),
        ("tensorrtllm", {"triton_backend": "vllm"}, "server.triton_backend"),
        ("openai", {"command": COMMAND, "parallel": {"tensor": 2}}, "product of 1"),
    ],
)
def test_an_option_that_contradicts(backend: str, server: dict[str, Any], field: str) -> None:
    model = {"model": LLAMA} if backend != "python" else {}
    with pytest.raises(ValidationError) as caught:
        workload(**model, server={"backend": backend} | server, **({"needs": GPU} if backend != "python" else {}))
    assert field in str(caught.value)


def test_nvidias_vllm_backend_takes_and_gives_text() -> None:
    own = {"backend": "vllm", "triton_backend": "vllm"}
    assert declared(triton_backend="vllm").server.triton_backend == "vllm"
    with pytest.raises(ValidationError, match=r"quality with server\.triton_backend"):
        workload(model=LLAMA | {"precision": "fp8"}, server=own, needs=GPU, quality={"reference": "bf16", "agreement": "98%"})
    checkpoint = {"source": "folder", "path": "/models/a", "precision": "bf16", "context": 512, "vocabulary": 512}
    with pytest.raises(ValidationError, match=r"expected requests\.prompts"):
        workload(model=checkpoint, server=own, needs=GPU)


def test_a_providers_arguments_go_before_the_workloads_and_are_shown_as_its_own() -> None:
    provider = cluster_provider(accelerator=H100)
    own = provider.model_copy(update={"engine_args": {"vllm": {"block_size": 32}}})
    standard = declared(engine_args={"block_size": 16, "swap_space": 2})
    about = {"engine": "vllm", "engine_version": "0.11"}
    merged = inference_trial.with_provider_args(standard, own)
    assert merged.server.engine_args == {"block_size": 32, "swap_space": 2}
    assert inference_trial.with_provider_args(standard, provider) is standard
    facts = [inference_trial.engine_facts(workload, where, about) for workload, where in ((standard, provider), (merged, own))]
    assert [(json.loads(str(each["engine.args"]))["block_size"], each["engine.args_from"]) for each in facts] == [
        (16, "standard"),
        (32, "provider's"),
    ]
    assert "engine.args_from" not in inference_trial.engine_facts(declared(), provider, about)


def test_a_providers_arguments_cannot_replace_what_the_workload_declares() -> None:
    data = json.loads(cluster_provider(accelerator=H100).model_dump_json()) | {"engine_args": {"vllm": {"max_num_seqs": 4}}}
    with pytest.raises(ValidationError, match=r"engine_args\.vllm\.max_num_seqs"):
        Provider.model_validate_json(json.dumps(data))
