"""Installations of a test's own."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path

import pytest

CONFIG = Path(__file__).resolve().parents[2] / "include" / "config"
"""The shipped declarations."""


def own_home(home: Path, patch: pytest.MonkeyPatch, config: Path = CONFIG) -> None:
    """An installation with that home, stores and archive below it, and these declarations."""
    patch.setenv("PLUMBLINE_HOME", str(home))
    patch.setenv("PLUMBLINE_CONFIG", str(config))
    for name in ("PLUMBLINE_ARCHIVE_URL", "PLUMBLINE_RESULTS_URL"):
        patch.delenv(name, raising=False)


def declare_upkeep(folder: Path, text: str = "") -> Path:
    """The shipped declarations with another upkeep.yaml, without any if `text` is empty."""
    config = folder / "config"
    config.mkdir()
    for shipped in (each for each in CONFIG.iterdir() if each.name != "upkeep.yaml"):
        (config / shipped.name).symlink_to(shipped)
    if text:
        (config / "upkeep.yaml").write_text(text)
    return config


def with_upkeep(folder: Path, patch: pytest.MonkeyPatch, text: str = "") -> Path:
    """An installation with these declarations."""
    config = declare_upkeep(folder, text)
    own_home(folder / "home", patch, config)
    return config


def install_package(folder: Path, patch: pytest.MonkeyPatch, files: Mapping[str, str]) -> None:
    """Files of an installed package, its metadata with them, where this process finds packages."""
    for name, text in files.items():
        (folder / "site" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "site" / name).write_text(text)
    patch.syspath_prepend(str(folder / "site"))
    importlib.invalidate_caches()
