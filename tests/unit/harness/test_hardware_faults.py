"""What CUDA, HIP, NCCL and the driver say of broken hardware is the provider's fault, with a remedy; what a program causes is not."""

from __future__ import annotations

import pytest

from plumbline.harness.hardware_faults import explain_failure, find_hardware_fault
from plumbline.results import GpuCounter


@pytest.mark.parametrize(
    ("said", "remedy", "passing"),
    [
        ("CUDA error: uncorrectable ECC error encountered", "another node", True),
        ("HIP error: hipErrorECCNotCorrectable", "another node", True),
        ("Unable to determine the device handle for GPU0000:9B:00.0: GPU is lost. Reboot the system", "replaces the node", False),
        ("NVRM: GPU 0000:9b:00.0: GPU has fallen off the bus.", "replaces the node", False),
        ("Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized", "nvidia-fabricmanager", False),
        ("Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 1", "NVSwitches", False),
        ("usually due to a system or configuration error in the Fabric Manager or NVSwitches", "NVSwitches", False),
        ("CUDA error: Invalid access of peer GPU memory over nvlink or a hardware error", "NVSwitches", False),
        ("Failed to initialize NVML: Driver/library version mismatch", "reboots", False),
    ],
)
def test_a_fault_of_the_hardware_names_its_remedy(said: str, remedy: str, passing: bool) -> None:
    found = find_hardware_fault(f"Traceback\n  line 3\nRuntimeError: {said}\nend")
    assert found is not None and remedy in found[0] and found[1] is passing


@pytest.mark.parametrize(
    "said",
    [
        "CUDA error: an illegal memory access was encountered",
        "CUDA error: unspecified launch failure",
        "CUDA error: device-side assert triggered",
        "CUDA out of memory. Tried to allocate 2.00 GiB",
        "CUDA error: all CUDA-capable devices are busy or unavailable",
        "The NVIDIA driver on your system is too old (found version 12020)",
        "NCCL INFO NVLS multicast support is available on dev 0",
        "corrected ECC errors: 3",
        "",
    ],
)
def test_what_a_program_causes_or_nobody_proves_is_none(said: str) -> None:
    assert find_hardware_fault(said) is None


def counter(name: str, before: int | None, after: int | None) -> GpuCounter:
    return GpuCounter(node=0, gpu=2, counter=name, before=before, after=after)


def test_errors_that_the_gpus_made_during_the_trial_explain_its_failure() -> None:
    ended = "the server ended by itself"
    assert "GPU 2 ecc_uncorrected_volatile +1" in (explain_failure(ended, [counter("ecc_uncorrected_volatile", 0, 1)]) or "")
    assert "GPU 2 xid_94 +1" in (explain_failure(ended, [counter("xid_94", 0, 1)]) or "")
    assert "GPU 2 was lost" in (explain_failure(ended, [counter("ecc_uncorrected_volatile", 0, None)]) or "")
    for harmless in (counter("ecc_uncorrected_aggregate", 9, 9), counter("xid_31", 0, 1), counter("ecc_corrected_volatile", 0, 5)):
        assert explain_failure(ended, [harmless]) is None
