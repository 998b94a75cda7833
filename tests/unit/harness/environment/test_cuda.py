"""The image's CUDA against the node's driver: by release, with the image's forward-compatibility libraries, and by opening it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from plumbline.harness import engine_python
from plumbline.harness.environment import container, cuda
from plumbline.harness.measurement import TrialFailed


def facts(image: str | None, driver: str | None) -> dict[str, str | None]:
    return {"torch.cuda": image, "cuda.version": driver, "driver.version": "535.183.01"}


@pytest.mark.parametrize(
    ("image", "driver", "expected"),
    [
        ("13.0", "12.2", "needs driver 580.65.06"),
        ("12.8", "11.8", "needs driver 525.60.13"),
        ("12.8", "12.2", None),  # within one major number every driver will do
        ("12.8", "13.0", None),
        (None, "12.2", None),
        ("13.0", None, None),
    ],
)
def test_a_driver_of_an_older_major_release_is_too_old(image: str | None, driver: str | None, expected: str | None) -> None:
    why = cuda.driver_too_old(facts(image, driver))
    assert (why is None) if expected is None else (why is not None and expected in why and "535.183.01" in why and f"CUDA {driver}" in why)


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An engine Python that opens CUDA only where the compatibility libraries come first."""
    program = tmp_path / "engine-python"
    program.write_text(
        "#!/bin/sh\n"
        'case "$LD_LIBRARY_PATH" in */compat/lib.real:/usr/local/nvidia/lib64) exit 0;; esac\n'
        "echo 'Traceback (most recent call last):' >&2\n"
        "echo '  File \"<string>\", line 1' >&2\n"
        "echo 'RuntimeError: Error 803: system has unsupported display driver / cuda driver combination' >&2\n"
        "exit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv(engine_python.VARIABLE, str(program))
    monkeypatch.setenv("LD_LIBRARY_PATH", "/usr/local/nvidia/lib64")
    return program


def compatibility(root: Path, name: str) -> None:
    folder = root / "usr/local/cuda/compat" / name
    folder.mkdir(parents=True)
    (folder / "libcuda.so.1").touch()


@pytest.mark.fault("the driver is older than the image's CUDA", ends="image_error with the driver to install", keeps="nothing measured")
def test_an_image_that_no_library_makes_fit_is_the_images_fault(python: Path, tmp_path: Path) -> None:
    with pytest.raises(TrialFailed, match=r"CUDA 13.0 of the image needs driver 580.*no forward-compatibility") as caught:
        cuda.require_driver(facts("13.0", "12.2"), tmp_path)
    assert caught.value.failure_class == "image_error"
    assert os.environ["LD_LIBRARY_PATH"] == "/usr/local/nvidia/lib64"
    compatibility(tmp_path, "lib")  # there, and refused by the driver
    with pytest.raises(TrialFailed, match=r"do not open it: RuntimeError: Error 803"):
        cuda.require_driver(facts("13.0", "12.2"), tmp_path)


def test_the_images_compatibility_libraries_come_first_for_what_starts_later(python: Path, tmp_path: Path) -> None:
    assert cuda.open_fault() == "RuntimeError: Error 803: system has unsupported display driver / cuda driver combination"
    cuda.require_driver(facts("12.8", "12.2"), tmp_path)
    compatibility(tmp_path, "lib.real")
    cuda.require_driver(facts("13.0", "12.2"), tmp_path)
    assert os.environ["LD_LIBRARY_PATH"].endswith("/compat/lib.real:/usr/local/nvidia/lib64") and cuda.open_fault() is None


def test_remote_memory_access_needs_memory_that_may_be_locked() -> None:
    def short(limit: int | None, resource: str | None = "rdma/ib") -> str | None:
        return container.locked_memory_shortage(resource, {"limits.locked_memory_bytes": limit})

    why = short(8 << 20)
    assert why is not None and why.startswith("rdma/ib is declared, but a process may lock only 8 MiB") and "LimitMEMLOCK" in why
    assert short(2**30) is None and short(None) is None and short(8 << 20, None) is None
