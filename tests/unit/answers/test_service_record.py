"""What checks and the operations log show of a provider in the months of a scorecard, as numbers and as rows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from tests.data.result_documents import provider

from plumbline.answers.availability_histories import availability_histories
from plumbline.answers.service_record import service_records
from plumbline.archive import Archive, open_archive
from plumbline.declarations import Provider
from plumbline.presentation.scorecard_rows import service_rows
from plumbline.results.availability_check import AvailabilityCheck
from plumbline.results.operations import LogEntry

BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
FIVE, HOUR = timedelta(minutes=5), timedelta(hours=1)


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    monkeypatch.delenv("PLUMBLINE_ARCHIVE_URL", raising=False)
    with open_archive() as opened:
        yield opened


def watched() -> Provider:
    made: Provider = provider("p", launcher={"kind": "simulated"}, watch={"uptime": {"every": "5min"}, "capacity": {"every": "6h"}})
    return made


def checks(begin: datetime, count: int, missed: range, cause: str = "server_error") -> list[AvailabilityCheck]:
    return [AvailabilityCheck("p", "uptime", begin + n * FIVE, cause if n in missed else None, simulated=True) for n in range(count)]


def test_the_record_has_the_covered_months_and_the_log_of_the_year_before(archive: Archive) -> None:
    archive.save_availability_checks(checks(BEGIN, 31 * 288, range(30, 42)))
    archive.save_availability_checks(checks(BEGIN + timedelta(days=31), 28 * 288, range(100, 130), "unreachable"))
    for kind, opened, answered, solved, whose in (
        ("ticket", BEGIN, HOUR, 5 * HOUR, "unknown"),
        ("ticket", BEGIN + HOUR, 3 * HOUR, None, "provider"),
        ("ticket", BEGIN + 2 * HOUR, HOUR, HOUR, "us"),
        ("ticket", BEGIN - timedelta(days=400), HOUR, HOUR, "provider"),
        ("quota", BEGIN, None, None, "unknown"),
        ("incident", BEGIN, None, 4 * HOUR, "provider"),
        ("incident", BEGIN, None, 9 * HOUR, "unknown"),
        ("maintenance", BEGIN + HOUR, None, HOUR, "provider"),
    ):
        ends = {"answered": opened + answered if answered else None, "solved": opened + solved if solved else None}
        source = "mail" if kind == "maintenance" else ""
        archive.log_entry(LogEntry("p", kind, f"{kind} {whose}", opened, whose=whose, reference=source, **ends), by="ada")  # type: ignore[arg-type]
    (record,) = service_records(archive, {"p": watched(), "q": provider("q")}, [BEGIN.date()]).values()
    uptime, _ = record.watches
    assert [(m.begin, m.share.successes, m.share.n) for m in uptime.months] == [(BEGIN, 31 * 288 - 12 - 12, 31 * 288 - 12)]
    assert uptime == availability_histories(archive, watched(), BEGIN + timedelta(days=31, microseconds=-1), 1)[0], (
        "the same as the page and the command"
    )
    assert dict(record.logged) == {"ticket": 2, "quota": 1, "incident": 2, "maintenance": 1}
    assert record.recovery.values == (3 * 3600.0,), "maintenance is left out, and an incident of unknown cause"
    assert sorted(record.answers["ticket"].values) == [3600.0, 2 * 3600.0] and record.solutions["ticket"].values == (4 * 3600.0,)
    assert (record.answers["quota"].value, record.answers["quota"].reason) == (None, "none of 1 ended")

    rows = {row.name: row.cells for row in service_rows([record, None])}
    assert list(rows) == ["uptime in 2026-01", "capacity in 2026-01", "incidents", "support tickets", "quota requests"]
    assert (rows["uptime in 2026-01"][0].text, rows["uptime in 2026-01"][0].detail) == (
        "99.854 % … 99.865 %",
        "8,904 of 8,916 checks answered, 1 outage, 60.0 min down, 5.00 min unknown",
    )
    assert rows["capacity in 2026-01"][0].reason == "no checks" and "not watched" in rows["uptime in 2026-01"][1].reason
    assert rows["incidents"][0].text == "2" and "solved: 3.00 h" in rows["incidents"][0].detail
    assert rows["support tickets"][0].detail == "first answer: 90.0 min (60.0 … 120.0 (50 %), n 2); solved: 4.00 h (n 1, no interval)"
    assert rows["quota requests"][0].detail == "first answer: none of 1 ended; solved: none of 1 ended"
    assert rows["incidents"][1].reason == "none is logged"


def test_two_months_are_pooled_and_an_outage_of_unproven_cause_is_none_of_the_providers(archive: Archive) -> None:
    archive.save_availability_checks(checks(BEGIN, 31 * 288, range(30, 42)))
    archive.save_availability_checks(checks(BEGIN + timedelta(days=31), 28 * 288, range(100, 130), "unreachable"))
    (record,) = service_records(archive, {"p": watched()}, [(BEGIN + timedelta(days=40)).date(), BEGIN.date()]).values()
    assert (record.watches[0].share.successes, record.watches[0].share.n) == (31 * 288 - 12 + 28 * 288 - 30, 59 * 288 - 30)
    cells = {row.name: row.cells[0].detail for row in service_rows([record])}
    assert "1 outage, 60.0 min down" in cells["uptime in 2026-01"] and "0 outages, 0 s down, 2.67 h unknown" in cells["uptime in 2026-02"]


def test_a_month_of_unproven_misses_only_is_not_shown(archive: Archive) -> None:
    archive.save_availability_checks(checks(BEGIN, 288, range(288), "unreachable"))
    (record,) = service_records(archive, {"p": watched()}, [BEGIN.date()]).values()
    (cell,) = (row.cells[0] for row in service_rows([record]) if row.name == "uptime in 2026-01")
    assert (cell.text, cell.reason, record.numbers) == ("–", "not shown: 288 of unproven cause", ())


def test_nothing_watched_and_nothing_logged_is_no_row(archive: Archive) -> None:
    assert service_records(archive, {"q": provider("q")}, [BEGIN.date()]) == {}
    assert service_rows([None, None]) == ()
