from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import torch

from plumbline.harness.inference.models import encoder
from plumbline.harness.inference.models.reference_worker import answers
from plumbline.harness.inference.models.transformer import seeded

SHAPE = {"layers": 1, "width": 32, "heads": 4, "vocabulary": 97, "context": 24}
PROMPTS = [[(7 * i + k) % 97 for k in range(3 + i % 5)] for i in range(18)]  # more than one group


def asked(architecture: str, **more: Any) -> dict[str, Any]:
    shape = {"architecture": architecture, "seed": 3, **SHAPE, **more}
    return {"shape": shape, "precision": "fp32", "device": "cpu", "threads": 1, "prompts": PROMPTS, "tokens": 3}


def test_each_prompt_is_continued_as_alone() -> None:
    found = answers(asked("gpt"))
    for ids, tokens in zip(PROMPTS, found, strict=True):
        model = seeded(3, **SHAPE)
        model.reserve(1)
        model.admit(torch.tensor(ids))
        assert [int(model.step(100)) for _ in range(3)] == tokens


def test_an_encoder_answers_once_in_the_asked_precision() -> None:
    model = encoder.seeded(3, task="embedding", **SHAPE)
    exact = answers(asked("encoder", task="embedding"))
    with torch.inference_mode():
        expected = [model(torch.tensor([ids]))[0].tolist() for ids in PROMPTS]
    assert torch.allclose(torch.tensor(exact), torch.tensor(expected), atol=1e-6)
    assert answers(asked("encoder", task="embedding") | {"precision": "bf16"}) != exact


def test_it_speaks_json() -> None:
    command = [sys.executable, "-m", "plumbline.harness.inference.models.reference_worker"]
    done = subprocess.run(command, input=json.dumps(asked("gpt")), capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == answers(asked("gpt"))
