from __future__ import annotations

from importlib.metadata import version

import pytest

from plumbline.harness.image_requirements import unsupported_torch


@pytest.mark.parametrize("supported", ["2.7.0", "2.7.1+cu126", "2.9.0a0+145a3a7bda.nv25.10", "2.10.0", "2.13.0+cpu", "2.13.1+rocm7.0"])
def test_the_range_includes_both_ends_and_every_build(supported: str) -> None:
    assert unsupported_torch(supported) is None


@pytest.mark.parametrize("outside", ["2.6.0+cu124", "1.13.1", "2.14.0", "3.0.0", "unknown"])
def test_another_release_is_named_beside_the_range(outside: str) -> None:
    why = unsupported_torch(outside)
    assert why is not None
    assert all(part in why for part in (outside, "2.7", "2.13"))


def test_no_torch_is_not_supported() -> None:
    assert unsupported_torch(None) is not None


def test_this_environment_has_a_supported_torch() -> None:
    assert unsupported_torch(version("torch")) is None
