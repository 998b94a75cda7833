"""Precisions: what is possible where, and steps that are skipped when fp16 overflows."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from torch import nn

from plumbline.harness.image_requirements import ImageIncomplete
from plumbline.harness.training.worker.torch_setup import Precision, UnsupportedOption, optimizer_step, unsupported_reason

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("name", "capability", "expected"),
    [
        ("fp32", (7, 0), None),
        ("fp16", (7, 0), None),
        ("bf16", (8, 0), None),
        ("bf16", (7, 5), "compute capability 8.0"),
        ("tf32", (8, 0), None),
        ("tf32", (7, 5), "this GPU has 7.5; fp32 and fp16 work here"),
        ("fp8", (9, 0), None),
        ("fp8", (8, 0), "this GPU has 8.0; bf16 works here"),
        ("fp8", (7, 5), "fp16 works here"),
    ],
)
def test_what_a_gpu_can_do(name: str, capability: tuple[int, int], expected: str | None) -> None:
    said = unsupported_reason(name, "cuda", capability)
    assert said is None if expected is None else said is not None and expected in said


@pytest.mark.parametrize("there", [True, False])
def test_fp8_without_torchao_is_the_images_fault(monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr("plumbline.harness.training.worker.torch_setup.find_spec", {"torchao": object() if there else None}.get)
    with nullcontext() if there else pytest.raises(ImageIncomplete, match="torchao"):
        assert Precision("fp8", torch.device("cuda", 0)).state_dict() == {}


@pytest.mark.fault("the image's torchao was made for another torch", ends="image_error", keeps="no blame for the provider's hardware")
@pytest.mark.parametrize(
    "line",
    ["from torch import no_such_name", "import torch; torch.no_such_name", "raise OSError('undefined symbol')", "raise RuntimeError('op')"],
)
def test_a_torchao_that_does_not_fit_torch_is_the_images_fault(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torchao").mkdir()
    (tmp_path / "torchao" / "__init__.py").touch()
    (tmp_path / "torchao" / "float8.py").write_text(line + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchao"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    with pytest.raises(ImageIncomplete, match=r"^precision fp8 .*torchao"):
        Precision("fp8", torch.device("cuda", 0)).convert(nn.Linear(4, 4), [])

    for name in [name for name in sys.modules if name.partition(".")[0] == "torchao"]:
        del sys.modules[name]


@pytest.mark.parametrize("name", ["tf32", "fp16", "fp8"])
def test_what_a_cpu_cannot_do_says_what_it_can(name: str) -> None:
    with pytest.raises(UnsupportedOption, match=f"^precision {name} .*bf16"):
        Precision(name, CPU)


@pytest.mark.parametrize(("name", "kind"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_products_are_taken_in_the_declared_type_and_weights_stay_fp32(name: str, kind: torch.dtype) -> None:
    precision, layer = Precision(name, CPU), nn.Linear(4, 4)
    with precision.autocast():
        assert layer(torch.ones(1, 4)).dtype == kind
    assert layer.weight.dtype == torch.float32
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    precision.backward(layer(torch.ones(1, 4)).sum())
    assert precision.update(optimizer, None) is None
    assert precision.state_dict() == {}
    precision.load_state_dict({})


@pytest.mark.parametrize("clip", [None, 1.0])
def test_a_step_whose_gradients_overflowed_is_skipped_and_told(clip: float | None) -> None:
    scaler, weight = torch.amp.GradScaler("cpu", init_scale=4.0), nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1, fused=True)
    scaler.scale(weight.sum()).backward()
    skipped = optimizer_step(scaler, optimizer, clip)
    assert skipped is not None and not skipped.item()
    moved = weight.detach().clone()
    assert not torch.equal(moved, torch.ones(2))

    optimizer.zero_grad()
    scaler.scale(weight.sum() * torch.inf).backward()
    skipped = optimizer_step(scaler, optimizer, clip)
    assert skipped is not None and skipped.item()
    assert torch.equal(weight, moved) and scaler.get_scale() == 2.0
