"""Code of checkpoints, plugins and modules runs only where a workload says so in its own field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.data.repositories.golden import GPU, LLAMA, workload
from tests.fakes.trials import a_trial, cluster_provider

from plumbline.declarations import Trial, spec_hash
from plumbline.declarations.workloads.remote_code import argument_with_code, option_with_code, runs_remote_code
from plumbline.harness.inference.server.backends import vllm
from plumbline.harness.inference.server.backends.generation import Weights
from plumbline.launch.plan import PlanError
from plumbline.workflows.plan_trials import plan_replay

SERVE = [
    "vllm",
    "serve",
    "{model}",
    "--host",
    "{host}",
    "--port",
    "{port}",
    "--max-model-len",
    "{context}",
    "--gpu-memory-utilization",
    "0.9",
]


def served(backend: str = "vllm", **server: Any) -> Any:
    return workload(model=LLAMA, server={"backend": backend, **server}, needs=GPU)


@pytest.mark.parametrize(
    ("args", "found"),
    [
        ({"worker_cls": "mine.Worker"}, "worker_cls"),
        ({"tokenizer_mode": "custom"}, "tokenizer_mode"),
        ({"distributed_executor_backend": "mine.module.Executor"}, "distributed_executor_backend"),
        ({"compilation_config": {"backend": "mine.compile"}}, "compilation_config.backend"),
        ({"kv_transfer_config": {"kv_connector_module_path": "mine"}}, "kv_transfer_config.kv_connector_module_path"),
        ({"hf_overrides": {"auto_map": {"AutoConfig": "a.B"}}}, "hf_overrides.auto_map"),
        ({"hf_overrides": '{"Trust-Remote-Code": true}'}, "hf_overrides"),
        ({"tokenizer_kwargs": [{"trust_remote_code": True}]}, "tokenizer_kwargs.0.trust_remote_code"),
        ({"logits_processors": ["mine:Processor"]}, "logits_processors"),
        (
            {"compilation_config": {"level": 3}, "distributed_executor_backend": "ray", "tokenizer_mode": "auto", "quantization": "fp8"},
            None,
        ),
    ],
)
def test_an_argument_that_runs_code_is_found_at_any_depth(args: dict[str, Any], found: str | None) -> None:
    assert argument_with_code(args) == found


@pytest.mark.parametrize(
    ("further", "found"),
    [
        (["--trust-remote-code"], "--trust-remote-code"),
        (["--trust_remote_code=true"], "--trust_remote_code"),
        (["--trust-rem"], "--trust-rem"),
        (["--trust"], "--trust"),
        (["--tokenizer-mode", "custom"], "--tokenizer-mode"),
        (["--tool-parser-plugin", "/x.py"], "--tool-parser-plugin"),
        (["--config=/x.yaml"], "--config"),
        (["--extra_llm_api_options", "/x.yaml"], "--extra_llm_api_options"),
        (["--compilation-config.backend", "mine.compile"], "--compilation-config.backend"),
        (["--compilation-config", '{"backend":"mine.compile"}'], "backend"),
        (["--hf-overrides", '{"auto_map": {}}'], "auto_map"),
        (["--middleware", "mine.Middleware"], "--middleware"),
        (["sh", "-c", "TRUST_REMOTE_CODE=true serve"], "TRUST_REMOTE_CODE"),
        (["env", "VLLM_PLUGINS=mine"], "VLLM_PLUGINS"),
        (["--tokenizer", "/models/a", "--quantization", "fp8", "--batch-size", "8", "--enable-metrics", "--speculative-config", '{"method": "ngram"}'], None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_an_option_of_a_command_that_runs_code_is_found(further: list[str], found: str | None) -> None:
    assert option_with_code([*SERVE, *further]) == found


def test_variables_that_make_engines_run_code_are_refused_of_a_provider() -> None:
    assert [runs_remote_code(name) for name in ("TRUST_REMOTE_CODE", "HF_DATASETS_TRUST_REMOTE_CODE", "VLLM_CACHE_ROOT")] == [
        True,
        True,
        False,
    ]
    for fields in (
        {"env": {"VLLM_PLUGINS": "x"}},
        {"pod_patch": {"spec": {"containers": [{"name": "harness", "env": [{"name": "VLLM_PLUGINS"}]}]}}},
    ):
        with pytest.raises(ValidationError, match=r"server\.trust_remote_code"):
            cluster_provider(**fields)


@pytest.mark.fault(
    "arguments of an engine run a checkpoint's code undeclared", ends="refused", keeps="trials of before stay readable, not replayed"
)
@pytest.mark.parametrize(
    ("backend", "server"),
    [
        ("vllm", {"engine_args": {"trust_remote_code": True}}),
        ("tensorrtllm", {"engine_args": {"trust_remote_code": True}}),
        ("vllm", {"engine_args": {"worker_extension_cls": "mine.Extension"}}),
        ("openai", {"command": [*SERVE, "--trust-remote-code"]}),
    ],
)
def test_code_of_a_checkpoint_runs_only_where_the_workload_declares_it(backend: str, server: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"server\.trust_remote_code"):
        served(backend, **server)
    plain = served(backend, command=SERVE) if backend == "openai" else served(backend)
    trial = json.loads(a_trial("inference").model_dump_json())
    trial["workload"] = json.loads(plain.model_dump_json())
    trial["workload"]["server"] |= server
    for _ in ("spec_hash", "criteria_hash"):
        with pytest.raises(ValidationError) as hashed:
            Trial.model_validate_json(json.dumps(trial))
        field, _, expected = hashed.value.errors()[0]["msg"].removeprefix("Value error, ").partition(" is ")
        trial[field] = expected.partition("hashes to ")[2][:64]
    recorded = Trial.model_validate_json(json.dumps(trial))
    with pytest.raises(PlanError, match=r"server\.trust_remote_code"):
        plan_replay(recorded)


def test_a_workload_that_declares_it_hands_it_to_the_engine() -> None:
    further = {"hf_overrides": {"auto_map": {}}}
    allowed = served(trust_remote_code=True, engine_args=further)
    written = vllm.engine_args(allowed, Weights(Path("/models/a"), dummy=True, context=128))
    assert written["trust_remote_code"] is True and written.items() >= further.items()
    assert "trust_remote_code" not in vllm.engine_args(served(), Weights(Path("/models/a"), dummy=True, context=128))
    assert served("openai", trust_remote_code=True, command=[*SERVE, "--trust-remote-code"]).server.trust_remote_code
    assert spec_hash(served(trust_remote_code=False)) == spec_hash(served()) != spec_hash(allowed)
    with pytest.raises(ValidationError, match=r"server\.trust_remote_code on server\.backend python"):
        workload(server={"backend": "python", "trust_remote_code": True})
