"""What holds for every test of the harness: no variable of this machine hides the GPUs that a test's driver has."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def every_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
