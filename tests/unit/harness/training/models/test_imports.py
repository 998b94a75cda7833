"""What a training process imports: its start-up is measured, so a model of our own brings no library along."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIBRARIES = ("transformers", "peft", "safetensors", "huggingface_hub", "pydantic", "fsspec", "pyarrow")
COMMON = ("worker", "learners.language_model", "dataset.tokens")


def imported(*modules: str) -> set[str]:
    """Those of the libraries that come along with these modules of the training room."""
    lines = [f"import plumbline.harness.training.{module}" for module in (*COMMON, *modules)]
    code = "\n".join(["import sys", *lines, f"print(*[name for name in {LIBRARIES!r} if name in sys.modules])"])
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_our_own_model_needs_torch_alone() -> None:
    assert imported("models.gpt") == set()


@pytest.mark.parametrize(("module", "library"), [("models.llama", "transformers"), ("models.stored", "safetensors")])
def test_others_bring_their_library(module: str, library: str) -> None:
    assert library in imported(module)
