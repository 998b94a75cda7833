"""Declarations are read again when a file of them changed, and not before."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.fakes.trials import CONFIG

from plumbline.dashboard.sources import DeclarationsReader
from plumbline.declarations import DeclarationError


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(shutil.copytree(CONFIG, tmp_path / "config")))
    return tmp_path / "config"


def test_a_change_is_seen_and_nothing_else_is_read_again(config: Path) -> None:
    declared = DeclarationsReader(fresh_s=0)
    before = declared.now()
    assert declared.now() is before
    file = config / "providers" / "local-1core.yaml"
    file.write_text(file.read_text().replace("price: 0.02 USD/h", "price: 90 USD/h"))
    assert declared.now().providers["local-1core"].prices[0].price == 90
    assert before.providers["local-1core"].prices[0].price == 0.02


def test_a_file_that_does_not_hold_is_said_each_time_until_it_does(config: Path) -> None:
    declared = DeclarationsReader(fresh_s=0)
    before = declared.now()
    file = config / "providers" / "broken.yaml"
    file.write_text("name: 7\n")
    for _ in range(2):
        with pytest.raises(DeclarationError, match="broken"):
            declared.now()
    file.unlink()
    assert declared.now() == before


def test_for_a_moment_nobody_looks_again(config: Path) -> None:
    declared = DeclarationsReader(fresh_s=3600)
    before = declared.now()
    (config / "providers" / "local-1core.yaml").unlink()
    assert declared.now() is before and DeclarationsReader().now() != before
