"""Checks between campaigns in the archive: read by month, once each, carried by bundles, kept as long as declared."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DatabaseError

from plumbline.archive import open_archive
from plumbline.archive.engine import utc_now
from plumbline.results.availability_check import AvailabilityCheck

BEGIN = datetime(2026, 1, 31, 23, 50, tzinfo=timezone.utc)
CHECKS = [
    AvailabilityCheck("lab", "uptime", BEGIN, None, "", 0.25),
    AvailabilityCheck("lab", "uptime", BEGIN + timedelta(minutes=5), "server_error", "HTTP 503"),
    AvailabilityCheck("lab", "uptime", BEGIN + timedelta(minutes=10), None, "", 0.5),
    AvailabilityCheck("lab", "capacity", BEGIN, "insufficient_capacity", "no node", None, 8),
]


def test_checks_come_back_by_kind_and_time(archive_url: str) -> None:
    with open_archive(archive_url) as archive:
        archive.save_availability_checks(CHECKS[::-1])
        assert archive.availability_checks("lab", "uptime", False) == CHECKS[:3]
        february = datetime(2026, 2, 1, tzinfo=timezone.utc)
        assert archive.availability_checks("lab", "uptime", False, (None, february)) == CHECKS[:2]
        assert archive.availability_checks("lab", "uptime", False, (february, None)) == CHECKS[2:3]
        assert archive.latest_availability_check("lab", "capacity", False, utc_now()) == CHECKS[3]
        assert archive.latest_availability_check("other", "uptime", False, utc_now()) is None


def test_a_check_is_stored_once_and_never_changed(archive_url: str) -> None:
    with open_archive(archive_url) as archive:
        archive.save_availability_checks(CHECKS)
        archive.save_availability_checks([replace(CHECKS[0], cause="timeout")])
        assert archive.availability_checks("lab", "uptime", False) == CHECKS[:3]
        with pytest.raises(DatabaseError), archive.engine.begin() as connection:
            connection.execute(text("UPDATE observations SET cause = NULL"))


def test_simulated_checks_are_apart(archive_url: str) -> None:
    with open_archive(archive_url) as archive:
        archive.save_availability_checks([*CHECKS, replace(CHECKS[0], simulated=True, seconds=9.0)])
        assert [o.seconds for o in archive.availability_checks("lab", "uptime", True)] == [9.0]
        assert archive.availability_checks("lab", "uptime", False) == CHECKS[:3]


def test_old_ones_are_deleted(archive_url: str) -> None:
    now = datetime.now(timezone.utc)
    old, new = (replace(CHECKS[0], at=now - timedelta(days=days)) for days in (801, 799))
    with open_archive(archive_url) as archive:
        archive.save_availability_checks([old, new])
        assert archive.forget_availability_checks(800 * 86400.0) == 1
        assert archive.availability_checks("lab", "uptime", False) == [new]


def test_a_bundle_carries_them(tmp_path: Path) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'a.db'}") as archive:
        archive.save_availability_checks(CHECKS)
        archive.export(tmp_path / "bundle")
    with open_archive(f"sqlite:///{tmp_path / 'b.db'}") as other:
        for _ in range(2):
            other.import_(tmp_path / "bundle")
            assert other.availability_checks("lab", "uptime", False) == CHECKS[:3]
            assert other.availability_checks("lab", "capacity", False) == CHECKS[3:]
