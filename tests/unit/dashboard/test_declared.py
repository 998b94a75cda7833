"""Declarations are read again when a file of them changed, and not before."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.fakes.trials import CONFIG
from tests.parsed import Parsed

from plumbline.dashboard.app import create_app
from plumbline.dashboard.rendering import LAST_VALID
from plumbline.dashboard.sources import DeclarationsReader
from plumbline.declarations import DeclarationError, load_in_force


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(shutil.copytree(CONFIG, tmp_path / "config")))
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
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
        assert declared.broken() is None, "none were kept"
    file.unlink()
    assert declared.now() == before


def test_the_last_valid_ones_are_shown_with_a_banner(config: Path) -> None:
    valid = load_in_force(keep=True)
    file = config / "teams" / "broken.yaml"
    file.write_text("name: 7\nsecret: 31.50 USD/h\n")
    assert DeclarationsReader(fresh_s=0).now() == valid
    browser = TestClient(create_app(), base_url="http://localhost")
    for path in ("/", "/providers", "/workloads", "/changes", "/prices", "/findings"):
        page = browser.get(path)
        assert page.status_code == 200 and "teams/broken.yaml:1" in Parsed(page.text).one("#broken-declarations").text, path
        assert "31.50" not in page.text, "the banner quotes no price"
    assert "teams/broken.yaml:1" in browser.get("/providers.json").headers[LAST_VALID]
    file.unlink()
    time.sleep(2.1)
    page = browser.get("/providers")
    assert page.status_code == 200 and "broken-declarations" not in page.text and LAST_VALID not in browser.get("/providers.json").headers


def test_a_file_of_the_same_size_and_time_is_read_again(config: Path) -> None:
    declared, file = DeclarationsReader(fresh_s=0), config / "providers" / "local-1core.yaml"
    before, state = declared.now(), file.stat()
    file.write_text(file.read_text().replace("price: 0.02 USD/h", "price: 0.09 USD/h"))
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert file.stat().st_size == state.st_size and declared.now() != before


def test_for_a_moment_nobody_looks_again(config: Path) -> None:
    declared = DeclarationsReader(fresh_s=3600)
    before = declared.now()
    (config / "providers" / "local-1core.yaml").unlink()
    assert declared.now() is before and DeclarationsReader().now() != before
