"""A package whose names come when they are asked for has each that it promises, and brings no other module along."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

LAZY = ("plumbline.declarations", "plumbline.formats", "plumbline.results")


@pytest.mark.parametrize("package", LAZY)
def test_every_promised_name_is_there(package: str) -> None:
    module = import_module(package)
    for name in module.__all__:
        assert getattr(module, name) is not None, name


@pytest.mark.parametrize("package", LAZY)
def test_another_name_is_the_usual_error(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        import_module(package).nothing  # noqa: B018


@pytest.mark.parametrize(
    ("process", "without"),
    [
        ("plumbline.harness.training.job.tried", "plumbline.results.document"),
        ("plumbline.harness.training.script.__main__", "plumbline.declarations.providers.provider"),
        ("plumbline.harness.selfcheck.golden_server", "plumbline.declarations.providers.provider"),
    ],
)
def test_a_process_of_a_trial_does_not_wait_for_what_only_the_harness_needs(process: str, without: str) -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", f"import sys, {process}; print({without!r} in sys.modules)"], check=False, capture_output=True, text=True
    )
    assert loaded.stdout.strip() == "False", loaded.stderr
