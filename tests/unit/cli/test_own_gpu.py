"""`plumbline run` and `plumbline up` look for a GPU first; what they cannot use they say on standard error, and go on without it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from tests.fakes.nvml import Card, Nvml

from plumbline.cli.campaign import load_with_local_gpus
from plumbline.launch.local import gpu_provider


def test_a_gpu_that_is_found_takes_part(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(Card()))
    monkeypatch.setattr(gpu_provider, "_installed_torch", lambda: gpu_provider.TorchInstallation("2.13.0+cu130", "13.0", 1))
    assert [p.name for p in load_with_local_gpus().enabled_providers()] == ["local-1core", "local-2core", "local-gpu"]


def test_the_installed_pytorch_is_asked_and_without_cuda_the_gpu_is_left_out(
    home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if torch.version.cuda is not None:
        pytest.skip(f"PyTorch {torch.__version__} is built for CUDA here")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(Card()))
    assert [p.name for p in load_with_local_gpus().enabled_providers()] == ["local-1core", "local-2core"]
    said = capfd.readouterr().err
    assert f"PyTorch {torch.__version__} is built without CUDA" in said and "PIP_EXTRA_INDEX_URL" in said


def test_without_a_gpu_nothing_is_said(home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(refuses="Driver Not Loaded"))
    assert [p.name for p in load_with_local_gpus().enabled_providers()] == ["local-1core", "local-2core"]
    assert capfd.readouterr() == ("", "")
