"""Published matmul rates of GPUs: dense, without sparsity, at the highest clock.

From the products' data sheets, Tensor Core or Matrix Core rates; where a sheet prints only the rate with 2:4 sparsity, half of it:

- NVIDIA A10, A30, A100, L4, L40S, H20, H100, H200, GH200.
- B200, B300: an eighth of HGX B200's and HGX B300's FP8 72, FP16/BF16 36, TF32 18 PFLOPS (sparse), FP32 600 TFLOPS. The lower rate of TF32 that
the architecture's brief gives a B200 at 1000 W (1100) is not used.
- GB200, GB300: a 72nd of the NVL72's FP8 720, FP16/BF16 360, TF32 180 PFLOPS (sparse), FP32 5760 TFLOPS. GB300's sheet rounds FP32 to 6 PFLOPS.
- H20: FP8 296, FP16/BF16 148, TF32 74, FP32 44 TFLOPS, dense as printed.
- AMD Instinct MI300X and MI325X: FP8 2614.9, FP16/BF16 1307.4, TF32 653.7, FP32 163.4. That is 304 compute units (ROCm's "AMD GPU
specifications") × 2100 MHz × the architecture's FLOPs a clock and unit: FP8 4096, FP16 2048, TF32 1024, FP32 256.
- MI355X: FP8 5033.2, FP16/BF16 2516.6, FP32 157.3. That is 256 compute units × 2400 MHz × 8192, 4096, 256; CDNA 4 has no TF32 in hardware.

The rates of H20, B300, GB300 were compared in November 2026 with server vendors' reprints of NVIDIA's sheets.

No machine keeps them up, with real numbers least of all: the rate that the machine itself was found to reach stands beside them.
"""

from __future__ import annotations

import re
from typing import Literal

from plumbline.declarations.devices import part_of_card

_Precision = Literal["fp32", "tf32", "bf16", "fp16", "fp8"]
_TERA = 1e12
_HOPPER: dict[_Precision, float] = {"fp32": 66.9, "tf32": 494.7, "bf16": 989.4, "fp16": 989.4, "fp8": 1978.9}
_HOPPER_NVL: dict[_Precision, float] = {"fp32": 60.0, "tf32": 417.5, "bf16": 835.0, "fp16": 835.0, "fp8": 1670.0}

_PEAKS: tuple[tuple[str, dict[_Precision, float]], ...] = (
    (r"\bH[12]00 NVL\b", _HOPPER_NVL),
    (r"\bH100 PCIe\b", {"fp32": 51.0, "tf32": 378.0, "bf16": 756.0, "fp16": 756.0, "fp8": 1513.0}),
    (r"\bG?H[12]00\b", _HOPPER),
    (r"\bH20\b", {"fp32": 44.0, "tf32": 74.0, "bf16": 148.0, "fp16": 148.0, "fp8": 296.0}),
    (r"\bGB[23]00\b", {"fp32": 80.0, "tf32": 1250.0, "bf16": 2500.0, "fp16": 2500.0, "fp8": 5000.0}),
    (r"\bB[23]00\b", {"fp32": 75.0, "tf32": 1125.0, "bf16": 2250.0, "fp16": 2250.0, "fp8": 4500.0}),
    (r"\bA100\b", {"fp32": 19.5, "tf32": 156.0, "bf16": 312.0, "fp16": 312.0}),
    (r"\bA30\b", {"fp32": 10.3, "tf32": 82.0, "bf16": 165.0, "fp16": 165.0}),
    (r"\bA10\b", {"fp32": 31.2, "tf32": 62.5, "bf16": 125.0, "fp16": 125.0}),
    (r"\bL40S\b", {"fp32": 91.6, "tf32": 183.0, "bf16": 362.0, "fp16": 362.0, "fp8": 733.0}),
    (r"\bL4\b", {"fp32": 30.3, "tf32": 60.0, "bf16": 121.0, "fp16": 121.0, "fp8": 242.5}),
    (r"\bMI3(00|25)X\b", {"fp32": 163.4, "tf32": 653.7, "bf16": 1307.4, "fp16": 1307.4, "fp8": 2614.9}),
    (r"\bMI355X\b", {"fp32": 157.3, "bf16": 2516.6, "fp16": 2516.6, "fp8": 5033.2}),
)
"""Name of the device as its driver gives it (the first expression that fits) → TFLOP/s by precision."""


def published_peak(device: str | None, precision: str) -> float | None:
    """FLOP/s that are published for a device at a precision; None of a device (or a slice of one) that is not in the table."""
    if device is None or part_of_card(device) is not None:
        return None
    rates = next((rates for pattern, rates in _PEAKS if re.search(pattern, device)), {})
    peak = next((rate for name, rate in rates.items() if name == precision), None)
    return None if peak is None else peak * _TERA
