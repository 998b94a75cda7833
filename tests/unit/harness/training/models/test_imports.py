"""What a training process imports: its start-up is measured, so a model of our own brings no library along."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIBRARIES = ("transformers", "peft", "safetensors", "huggingface_hub", "pydantic", "psutil", "fsspec", "pyarrow", "plumbline.results")
COMMON = ("worker.__main__", "learners", "dataset.synthetic")


def imported(*modules: str, then: str = "") -> set[str]:
    """Those of the libraries that these modules of the training room, and the statement `then`, import."""
    lines = [f"import plumbline.harness.training.{module}" for module in (*COMMON, *modules)]
    code = "\n".join(["import sys", *lines, then, f"print(*[name for name in {LIBRARIES!r} if name in sys.modules])"])
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_our_own_model_needs_torch_alone() -> None:
    assert imported("models.gpt") == set()


LLAMA = {"architecture": "llama", "layers": 1, "width": 8, "heads": 1, "kv_heads": 1, "feed_forward": 8, "vocabulary": 8, "context": 8}


@pytest.mark.full
def test_another_model_brings_its_library() -> None:
    assert "transformers" in imported("models.hugging_face", then=f"plumbline.harness.training.models.hugging_face.build_llama({LLAMA!r})")
