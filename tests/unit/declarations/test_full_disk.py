"""A full disk is recognised wherever it is met, and nothing else is taken for one."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from plumbline.declarations import installation


def test_a_write_to_a_full_device_is_recognised_through_its_chain() -> None:
    with pytest.raises(OSError) as caught, Path("/dev/full").open("w") as device:
        device.write("x" * 100_000)
    assert "disk" in (installation.full_disk_message(caught.value) or "")
    try:
        raise RuntimeError("the writer failed") from caught.value
    except RuntimeError as outer:
        assert installation.full_disk_message(outer) == installation.full_disk_message(caught.value)


def test_a_full_database_is_recognised(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'small.db'}")
    with pytest.raises(OperationalError) as caught, engine.begin() as connection:
        connection.execute(text("PRAGMA max_page_count=2"))
        connection.execute(text("CREATE TABLE t (x)"))
        connection.execute(text("INSERT INTO t VALUES (zeroblob(100000))"))
    assert isinstance(caught.value.orig, sqlite3.OperationalError)
    assert "database" in (installation.full_disk_message(caught.value) or "")
    engine.dispose()


def test_other_errors_are_not() -> None:
    assert installation.full_disk_message(None) is None
    assert installation.full_disk_message(PermissionError(13, "denied")) is None
    looped = ValueError("a")
    looped.__cause__ = looped
    assert installation.full_disk_message(looped) is None


def test_room_is_measured_where_the_folder_will_be(tmp_path: Path) -> None:
    assert installation.insufficient_space(tmp_path / "not" / "yet", 1.0) is None
    why = installation.insufficient_space(tmp_path / "not" / "yet", 1e18)
    assert why is not None and "931322574.62 GiB" in why
