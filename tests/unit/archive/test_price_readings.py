"""Readings of prices, the accepted price, and snapshots of facts."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DatabaseError
from tests.data.price_readings import FIRST, reading

from plumbline.archive import Archive, SnapshotRecord
from plumbline.archive.engine import utc_now

FACTS = {"gpu.count": 8, "driver.version": "570.86.15"}


def accept(archive: Archive, usd: float, since: date, purchase: str = "on_demand", term: str | None = None) -> float:
    return archive.accept_price("lab-2core", purchase, term, usd, since, "gpuhunt", by="ada", why="the page says so").usd_per_hour


def test_a_reading_is_stored_once_and_read_back_as_it_was_told(archive: Archive) -> None:
    first, second = reading(1), reading(2, 3.0, currency="EUR", usd_per_unit=1.25)
    assert archive.record_readings([second, first]) == (second.reading_id, first.reading_id)
    assert archive.record_readings([first, third := reading(3)]) == (third.reading_id,)
    stored = archive.price_readings("lab-2core")
    assert [r.reading_id for r in stored] == [r.reading_id for r in (first, second, third)], "oldest first"
    assert stored[1].observed_at == second.observed_at and stored[1].currency == "EUR" and stored[1].usd_per_instance_hour == 30.0


def test_readings_are_asked_for_by_purchase_term_time_and_number(archive: Archive) -> None:
    kinds = [
        reading(1),
        reading(2, purchase="spot"),
        reading(3, purchase="reserved", term="1y"),
        reading(4, purchase="reserved", term="3y"),
        reading(5, provider="other", source="csv"),
        reading(6, source="contract"),
    ]
    archive.record_readings(kinds)
    days = lambda *args, **named: [(r.observed_at - FIRST).days for r in archive.price_readings(*args, **named)]  # noqa: E731
    assert days("lab-2core") == [1, 2, 3, 4, 6]
    assert days("lab-2core", source="contract") == [6] and days("lab-2core", source="csv") == []
    assert days("lab-2core", "reserved", "3y") == [4]
    assert days("lab-2core", latest=2) == [4, 6]


@pytest.mark.parametrize("statement", ["UPDATE price_readings SET amount = 1", "DELETE FROM price_readings", "DELETE FROM snapshots"])
def test_the_database_refuses_to_change_what_was_observed(archive: Archive, statement: str) -> None:
    archive.record_readings([reading(1)])
    archive.save_snapshot(SnapshotRecord("lab-2core", "cluster", FIRST, FACTS))
    with pytest.raises(DatabaseError, match="append-only"), archive.engine.begin() as connection:
        connection.execute(text(statement))


def test_an_accepted_price_ends_the_one_before_and_is_in_the_log(archive: Archive) -> None:
    assert archive.accepted_price("lab-2core", "on_demand") is None
    accept(archive, 20.0, date(2026, 11, 1))
    accept(archive, 20.0, date(2026, 10, 30))
    accept(archive, 24.0, date(2026, 11, 8))
    assert [(p.usd_per_hour, p.since, p.until) for p in archive.prices("lab-2core")] == [
        (20.0, date(2026, 11, 1), date(2026, 11, 8)),
        (24.0, date(2026, 11, 8), None),
    ]
    holds = archive.accepted_price("lab-2core", "on_demand")
    assert holds is not None and (holds.usd_per_hour, holds.source) == (24.0, "gpuhunt")
    log = archive.audit("price/lab-2core/on_demand")
    assert [(e.who, e.what, e.detail["before"], e.detail["usd_per_hour"]) for e in log] == [
        ("ada", "price_accepted", None, 20.0),
        ("ada", "price_accepted", 20.0, 24.0),
    ], "the same price again is no decision"


def test_a_price_may_go_back_to_what_it_was_within_a_day(archive: Archive) -> None:
    for usd in (20.0, 24.0, 20.0):
        accept(archive, usd, date(2026, 11, 1))
    holds = archive.accepted_price("lab-2core", "on_demand")
    assert holds is not None and holds.usd_per_hour == 20.0
    assert [p.until for p in archive.prices()].count(None) == 1


def test_purchases_and_terms_are_kept_apart(archive: Archive) -> None:
    accept(archive, 20.0, date(2026, 11, 1))
    accept(archive, 15.0, date(2026, 11, 1), "reserved", "1y")
    accept(archive, 12.0, date(2026, 11, 1), "reserved", "3y")
    found = {t: archive.accepted_price("lab-2core", "reserved", t) for t in ("1y", "3y", None)}
    assert {t: p.usd_per_hour if p else None for t, p in found.items()} == {"1y": 15.0, "3y": 12.0, None: None}


@pytest.mark.parametrize(
    ("usd", "by", "why", "said"),
    [
        (0.0, "ada", "x", "usd_per_hour is 0.0; expected a price above 0"),
        (float("nan"), "ada", "x", "usd_per_hour is nan"),
        (1.0, " ", "x", "by is empty"),
        (1.0, "ada", "", "why is empty"),
    ],
)
def test_a_price_is_accepted_by_somebody_for_a_reason(archive: Archive, usd: float, by: str, why: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        archive.accept_price("lab-2core", "on_demand", None, usd, date(2026, 11, 1), "gpuhunt", by=by, why=why)
    assert archive.prices() == [] and archive.audit() == []


def test_snapshots_are_stored_once_and_found_by_kind_and_time(archive: Archive) -> None:
    made = SnapshotRecord("lab-2core", "cluster", FIRST, FACTS)
    later = replace(made, taken_at=FIRST + timedelta(days=1), facts=FACTS | {"driver.version": "575.1"})
    probe = replace(made, kind="probe", figures={"matmul_tflops": 700.5})
    stored = [archive.save_snapshot(s) for s in (made, later, probe)]
    assert archive.save_snapshot(made) == stored[0]
    assert stored[0].facts_hash == stored[2].facts_hash != stored[1].facts_hash
    assert archive.snapshots("lab-2core", "cluster") == stored[:2]
    assert archive.snapshots("lab-2core", latest=1) == [stored[1]]
    assert archive.latest_snapshot("lab-2core", "cluster", utc_now()) == stored[1]
    assert archive.latest_snapshot("lab-2core", "probe", utc_now()) == stored[2]
    assert archive.latest_snapshot("lab-9core", "cluster", utc_now()) is None
