"""A generated archive is one that the product could have written: its references hold, and one seed gives one content."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from plumbline.archive import Archive, open_archive

FILE = Path(__file__).resolve().parents[3] / "perf" / "archive_generator.py"


@pytest.fixture
def generator(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location("archive_generator", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "archive_generator", module)
    spec.loader.exec_module(module)
    for name, small in (("WORKLOADS", 2), ("CAMPAIGNS", 3), ("TRIALS_OF_A_PROVIDER", 2 * 3 * 12)):
        monkeypatch.setattr(module, name, small)
    return module


def made(generator: Any, folder: Path, name: str, seed: int) -> Archive:
    archive = open_archive(f"sqlite:///{folder / name}.db")
    with open_archive(f"sqlite:///{folder / name}-template.db") as template:
        assert generator.fill(archive, template, 140, seed) == 144
    return archive


def test_its_references_hold_and_it_goes_on_like_any_other(generator: Any, tmp_path: Path) -> None:
    with made(generator, tmp_path, "a", 1) as archive:
        with archive.engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall() == []
        assert len(archive.trials()) == 144
        key = archive.series()[0].series_key
        assert len(archive.metric_history(key, "step_time", "median")) == 36
        assert archive.baseline(key) == ["month-000"]
        campaign = generator.record_new(archive, 1)
        assert archive.latest_campaign(key) == campaign
        assert len(archive.sample(key, campaign).environments) == 12


def test_a_seed_gives_one_content_and_another_seed_another(generator: Any, tmp_path: Path) -> None:
    found = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        with made(generator, tmp_path, name, seed) as archive:
            found.append(archive.metric_history(archive.series()[0].series_key, "step_time", "median"))
    assert found[0] == found[1] != found[2]
