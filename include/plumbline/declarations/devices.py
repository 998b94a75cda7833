"""The meaning of a GPU's name: whole card or part, model, memory. Names are those of drivers, node labels and declarations."""

from __future__ import annotations

import re
from functools import cache

_GIB = 2.0**30
_MIG = re.compile(r"(?<![a-z0-9])((?:\d+c\.)?\d+g\.(\d+)gb(?:[.+](?:me(?:\.all)?|gfx|all))*)", re.IGNORECASE)
_VGPU = re.compile(r"[A-Z0-9]-(?:\d+-)?(\d+)(?:[ACQ]|B4?)$")
"""NVIDIA's names of virtual GPUs end with GiB and a series: GRID-T4-16Q, NVIDIA-A40-24C, and NVIDIA-A100-3-20C of a MIG instance."""
_PARTITION = re.compile(r"[-/](CPX|QPX|TPX|DPX)(_NPS\d)?$", re.IGNORECASE)
_IN_NAME = re.compile(r"(?<![0-9.])(\d+)\s?GB", re.IGNORECASE)
_MEMORY = (
    # Of the superchips' own names the number is the memory of the CPU beside the GPU, but for the one with 144 GB.
    (r"GH200.*144G", 144),
    (r"GH200", 96),
    (r"GB300|B300", 288),
    (r"GB200", 186),
    (r"B200", 180),
    (r"H200", 141),
    (r"H100 NVL", 94),
    (r"H20 3E", 141),
    (r"H20\b", 96),
    (r"MI355X|MI350X", 288),
    (r"MI325X", 256),
    (r"MI300X", 192),
    (r"MI300A", 128),
)
"""GiB of one card as its maker writes them."""
_UNIFIED = re.compile(r"\b(GB10|ORIN|THOR|XAVIER)\b")
"""These have no memory of their own: the system's is the GPU's, too."""
_MODEL = re.compile(
    r"(?:^|[^A-Z0-9]|\dX)(GB300|GB200|GB10|GH200|B300|B200|B100|H200|H100|H800|H20|A100|A800|A10G|A10|A16|A30|A40|"
    r"L40S|L40|L20|L4|T4|V100|P100|RTX PRO \d{4}|RTX A?\d{4}|MI\d{3}[AX]?)(?![0-9])"
)


def part_of_card(name: str | None) -> str | None:
    """Which part of a card the name is of, such as `MIG 3g.20gb`, `vGPU of 20 GiB` or `CPX partition`; None of a whole card."""
    if name is None:
        return None
    dashed = "-".join(name.split())
    if profile := mig_profile(name):
        return f"MIG {profile}"
    if virtual := _VGPU.search(dashed):
        return f"vGPU of {virtual[1]} GiB"
    if partition := _PARTITION.search(dashed):
        return f"{partition[1].upper()} partition"
    if dashed.upper().endswith((".SHARED", "-SHARED")):
        return "a shared card"
    return "MIG" if re.search(r"\bMIG\b", name) else None


def mig_profile(text: str) -> str | None:
    """The MIG profile, such as 3g.20gb or 1c.3g.20gb, in a product's name, a resource (`nvidia.com/mig-3g.20gb`) or a label's value."""
    found = _MIG.search(text)
    return found[1] if found else None


def device_memory(product: str) -> float | None:
    """Bytes of one device with this name; None if unknown, or if it has no memory of its own."""
    if found := _MIG.search(product):
        return float(found[2]) * _GIB
    if virtual := _VGPU.search("-".join(product.split())):
        return float(virtual[1]) * _GIB
    spaced = _spaced(product)
    if part_of_card(product) is not None or _UNIFIED.search(spaced):
        return None
    known = next((size for pattern, size in _MEMORY if re.search(pattern, spaced)), None)
    if known is not None:
        return known * _GIB
    named = _IN_NAME.search(product)
    return float(named[1]) * _GIB if named else _catalogued_memory(re.sub(r"[^a-z0-9]", "", product.lower()))


def device_model(text: str) -> str | None:
    """H100 of NVIDIA-H100-80GB-HBM3, nvidia-h100-80gb, H100_NVLINK_80GB, gd-8xh100ib-i128 or Standard_ND96isr_H100_v5."""
    found = _MODEL.search(_spaced(text))
    return found[1] if found else None


def _spaced(text: str) -> str:
    return re.sub(r"[\s_./-]+", " ", text).upper()


@cache
def _catalogued_memory(product: str) -> float | None:
    """Memory by gpuhunt's catalogue; None for a name with several sizes there."""
    try:
        import gpuhunt
    except ImportError:  # an image of a trial has none
        return None
    matches = [gpu for gpu in (*gpuhunt.KNOWN_NVIDIA_GPUS, *gpuhunt.KNOWN_AMD_GPUS) if gpu.name.lower() in product]
    longest = max((len(gpu.name) for gpu in matches), default=0)
    sizes = {float(gpu.memory) for gpu in matches if len(gpu.name) == longest}
    return sizes.pop() * _GIB if len(sizes) == 1 else None
