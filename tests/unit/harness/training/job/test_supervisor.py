"""Which of many causes is the one."""

from __future__ import annotations

import pytest

from plumbline.harness.training.job.coordinator import CauseResolver, FailureCause
from plumbline.harness.training.job.supervisor import _classify_exit
from plumbline.harness.training.worker_protocol import ExitCode

LOST = FailureCause("harness_error", "lost another rank", certain=False)
KILLED = FailureCause("out_of_memory", "was killed", certain=True)


def test_nothing_broke_off() -> None:
    assert CauseResolver().of([]) is None


def test_a_certain_cause_is_taken_at_once_whatever_came_before() -> None:
    explanation = CauseResolver()
    assert explanation.of([LOST]) is None
    assert explanation.of([LOST, KILLED]) is KILLED


def test_hardware_that_failed_explains_the_other_ranks_errors() -> None:
    aborted = FailureCause("harness_error", "rank 0 got an error from its device", certain=True)
    broken = FailureCause("provider_fault", "rank 3 met an uncorrectable ECC error", certain=True)
    assert CauseResolver().of([LOST, aborted, broken]) is broken
    assert CauseResolver().of([LOST, aborted]) is aborted


def test_without_a_better_one_the_first_is_taken_after_a_while() -> None:
    explanation = CauseResolver(patience_s=0.0)
    explanation.of([LOST])
    found = None
    while found is None:
        found = explanation.of([LOST, LOST])
    assert found is LOST


@pytest.mark.parametrize(
    ("code", "said", "short", "failure_class", "passing"),
    [
        (-9, "", True, "out_of_memory", False),
        (-9, "", False, "interrupted", True),
        (-11, "", False, "harness_error", True),
        (-6, "terminate called after throwing an instance of 'std::bad_alloc'", False, "out_of_memory", False),
        (ExitCode.LOST_A_PEER, "", False, "harness_error", True),
        (ExitCode.DEVICE_FAILED, "AcceleratorError: CUDA error: uncorrectable ECC error encountered", False, "provider_fault", True),
        (ExitCode.DEVICE_FAILED, "AcceleratorError: CUDA error: an illegal memory access was encountered", False, "harness_error", True),
        (ExitCode.NO_DEVICE, "NoDevice: Error 802: system not yet initialized", False, "provider_fault", False),
        (-6, "NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory : CUDA error 2", False, "provider_fault", False),
        (ExitCode.OUT_OF_MEMORY, "", False, "out_of_memory", False),
        (ExitCode.NO_DEVICE, "", False, "wrong_hardware", False),
        (ExitCode.UNSUPPORTED, "", False, "bad_declaration", False),
        (ExitCode.IMAGE_INCOMPLETE, "", False, "image_error", False),
        (1, "ModuleNotFoundError: No module named 'transformers'", False, "image_error", False),
        (ExitCode.DEVICE_FAILED, "AcceleratorError: CUDA error: no kernel image is available for execution", False, "image_error", False),
        (ExitCode.NOT_DETERMINISTIC, "", False, "bad_declaration", False),
        (ExitCode.DAMAGED_DATA, "", False, "harness_error", False),
        (1, "RuntimeError: shapes do not match", False, "harness_error", False),
        (ExitCode.SCRIPT_FAILED, "RuntimeError: shapes do not match", False, "bad_declaration", False),
        (ExitCode.SCRIPT_FAILED, "ModuleNotFoundError: No module named 'lightning'", False, "image_error", False),
        (ExitCode.SCRIPT_FAILED, "RuntimeError: CUDA error: uncorrectable ECC error encountered", False, "provider_fault", True),
        (ExitCode.STEPS_MISREPORTED, "", False, "bad_declaration", False),
        (ExitCode.NOT_STARTED, "", False, "bad_declaration", False),
    ],
)
def test_only_what_need_not_come_again_is_worth_another_attempt(
    code: int, said: str, short: bool, failure_class: str, passing: bool
) -> None:
    found = _classify_exit(code, said, short_of_memory=short)
    assert (found[0], found[2]) == (failure_class, passing)


def test_a_container_s_own_status_blames_neither_side_but_failed_storage_does() -> None:
    assert _classify_exit(74, "usage: it [OPTIONS]", short_of_memory=False, stepless=True)[0] == "harness_error"
    assert _classify_exit(74, "cp: /data: Input/output error", short_of_memory=False, stepless=True)[0] == "provider_fault"
    assert (
        _classify_exit(74, "OSError: [Errno 30] Read-only file system: '/out'", short_of_memory=False, stepless=True)[0] == "harness_error"
    ), "our own"
    assert _classify_exit(74, "stty: standard input: Inappropriate ioctl", short_of_memory=False, stepless=True)[0] == "harness_error"
