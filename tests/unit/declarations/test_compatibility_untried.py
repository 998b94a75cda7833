"""On which kinds of hardware and engine the harness was never run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.fakes.trials import CONFIG

from plumbline.declarations import Provider, load
from plumbline.declarations.compatibility import never_run_on

SHIPPED = load(CONFIG)


def provider(name: str = "example-coreweave-h100", **accelerator: Any) -> Provider:
    data = json.loads(SHIPPED.providers[name].model_dump_json())
    data["accelerator"] |= accelerator
    if accelerator.get("kind") == "amd":
        data["launcher"]["gpu_resource"] = "amd.com/gpu"
    return Provider.model_validate_json(json.dumps(data))


@pytest.mark.parametrize(
    ("workload", "where", "expected"),
    [
        ("pretrain-1b-gpu", provider(), None),
        ("chat-1b-gpu", provider(), None),
        ("pretrain-8b-8gpu", provider(), "several GPUs"),
        ("collectives-2node", provider(), "several nodes of GPUs"),
        ("chat-8b-1gpu", provider(), "vLLM on GPUs"),
        ("chat-8b", provider(), "vLLM on GPUs, several GPUs"),
        ("pretrain-1b-gpu", provider(kind="amd", product="AMD-Instinct-MI300X", count=8), "AMD GPUs"),
        ("pretrain-8b-8gpu", provider("simulated-h100"), None),
        ("gpt-tiny-cpu", provider("local-2core"), None),
    ],
)
def test_what_was_never_run_is_named(workload: str, where: Provider, expected: str | None) -> None:
    assert never_run_on(SHIPPED.workloads[workload], where) == expected
