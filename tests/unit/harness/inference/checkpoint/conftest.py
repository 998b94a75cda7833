"""Checkpoints that the tests of this folder share; each test that changes one copies it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import checkpoints


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of two shards."""
    return checkpoints.llama(tmp_path_factory.mktemp("models") / "llama", shards=2)


@pytest.fixture(scope="session")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoints.mixture(tmp_path_factory.mktemp("models") / "mixture")


@pytest.fixture
def copy(llama: Path, tmp_path: Path) -> Callable[[], Path]:
    """Makes a copy of the Llama to break."""
    return lambda: Path(shutil.copytree(llama, tmp_path / "broken"))
