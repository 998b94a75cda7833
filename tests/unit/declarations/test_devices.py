"""What names of GPUs say, as drivers, node labels and resources write them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from tests.fakes.trials import cluster_provider

from plumbline.declarations.devices import device_memory, device_model, part_of_card


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("NVIDIA-H100-80GB-HBM3", None),
        ("NVIDIA-A10", None),
        ("NVIDIA H20-3e", None),
        ("AMD_Instinct_MI300X_OAM", None),
        ("nvidia.com/gpu", None),
        ("NVIDIA-H100-80GB-HBM3-SHARED", "a shared card"),
        ("nvidia.com/gpu.shared", "a shared card"),
        ("NVIDIA-A100-SXM4-40GB-MIG-3g.20gb", "MIG 3g.20gb"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", "MIG 1g.10gb+me"),
        ("nvidia.com/mig-1c.3g.20gb", "MIG 1c.3g.20gb"),
        ("NVIDIA-H100-80GB-HBM3-MIG", "MIG"),
        ("GRID T4-16Q", "vGPU of 16 GiB"),
        ("NVIDIA A100-3-20C", "vGPU of 20 GiB"),
        ("AMD-Instinct-MI300X-CPX", "CPX partition"),
    ],
)
def test_a_part_of_a_card_is_told_from_a_whole_one(name: str, part: str | None) -> None:
    assert part_of_card(name) == part


@pytest.mark.parametrize(
    ("product", "gib"),
    [
        ("NVIDIA-GH200-480GB", 96),
        ("NVIDIA GH200 144G HBM3e", 144),
        ("NVIDIA-A100-SXM4-40GB-MIG-3g.20gb", 20),
        ("NVIDIA-A100-SXM4-40GB", 40),
        ("NVIDIA-H100-NVL", 94),
        ("NVIDIA-H200", 141),
        ("NVIDIA-A100-3-20C", 20),
        ("AMD-Instinct-MI300X", 192),
        ("Tesla-V100-SXM2-16GB", 16),
        ("NVIDIA-H100-80GB-HBM3-SHARED", None),
        ("AMD-Instinct-MI300X-CPX", None),
        ("NVIDIA-GB10", None),
        ("NVIDIA-A100", None),
    ],
)
def test_memory_is_the_devices_own(product: str, gib: float | None) -> None:
    memory = device_memory(product)
    assert (None if memory is None else memory / 2**30) == gib


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA-H100-80GB-HBM3",
        "nvidia-h100-mega-80gb",
        "h100",
        "H100_NVLINK_80GB",
        "gd-8xh100ib-i128",
        "BM.GPU.H100.8",
        "Standard_ND96isr_H100_v5",
    ],
)
def test_one_model_in_every_vocabulary(name: str) -> None:
    assert device_model(name) == "H100"


@pytest.mark.parametrize(
    ("name", "model"), [("gpu-h200-sxm", "H200"), ("p5.48xlarge", None), ("a2-highgpu-1g", None), ("NVIDIA-GH200-480GB", "GH200")]
)
def test_other_models_and_none(name: str, model: str | None) -> None:
    assert device_model(name) == model


@pytest.mark.parametrize("resource", ["nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared", "amd.com/cpx_nps4"])
def test_a_provider_that_requests_parts_declares_a_part(resource: str) -> None:
    with pytest.raises(ValidationError, match=r"launcher\.gpu_resource.*is a whole card"):
        cluster_provider(
            accelerator={"kind": "nvidia" if "nvidia" in resource else "amd", "product": "NVIDIA-H100-80GB-HBM3", "count": 1},
            gpu_resource=resource,
        )
    declared = {"kind": "nvidia", "product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "count": 1}
    assert cluster_provider(accelerator=declared, gpu_resource="nvidia.com/mig-1g.10gb").accelerator.product == declared["product"]
