"""A wrong clock ends no watch, and a watch that is silent is a finding."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from tests.fakes.trials import CONFIG, declared

from plumbline.answers.availability_histories import availability_histories
from plumbline.answers.provider_use import budget_balance
from plumbline.archive import Archive, open_archive
from plumbline.archive import prices as price_rows
from plumbline.archive.availability_checks import CLOCK_SKEW
from plumbline.archive.records import SnapshotRecord
from plumbline.declarations import Budget, Declarations, Provider, installation_paths, load
from plumbline.declarations.last_valid import KeptCopy
from plumbline.declarations.providers.provider import CapacityWatch, MonitoringConfig, UptimeWatch
from plumbline.embedded.doctor.watches import watches
from plumbline.findings.types.installation import INSTALLATION
from plumbline.results.availability_check import AvailabilityCheck
from plumbline.workflows import check_watches
from plumbline.workflows.check_availability import next_check
from plumbline.workflows.check_installation import reconcile_failures

NOW = datetime.now(timezone.utc).replace(microsecond=0)
FIVE = timedelta(minutes=5)
PLACE: Provider = (
    load(CONFIG)
    .providers["example-aks-h100"]
    .model_copy(
        update={
            "name": "lab",
            "enabled": True,
            "watch": MonitoringConfig(uptime=UptimeWatch(every="5min"), capacity=CapacityWatch(every="6h", gpus=1)),
        }
    )
)


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    with open_archive() as opened:
        yield opened


def world(where: Provider = PLACE) -> Declarations:
    known: Declarations = replace(declared(), providers={where.name: where})
    return known


def checked(archive: Archive, *at: datetime, kind: str = "uptime") -> None:
    archive.save_availability_checks(
        [AvailabilityCheck("lab", kind, each, seconds=1.0, gpus=8 if kind == "capacity" else 0) for each in at]
    )


def failures(archive: Archive, now: datetime = NOW) -> dict[str, str]:
    return {each.subject: each.cause for each in check_watches.watch_failures(archive, world(), now)}


@pytest.mark.fault(
    "a check is dated nine years ahead by a wrong clock",
    ends="check_ahead; the next check comes when it is due",
    keeps="the row, which counts for no month and no budget",
)
def test_a_check_from_the_future_ends_no_watch_and_is_named(archive: Archive) -> None:
    limited = PLACE.model_copy(update={"budget": Budget(gpu_hours_per_month=500)})
    checked(archive, NOW - FIVE, kind="capacity")
    used = budget_balance(archive, limited, NOW).used
    checked(archive, NOW - FIVE, NOW + timedelta(days=9 * 365))
    checked(archive, NOW + timedelta(days=3), kind="capacity")
    assert next_check(archive, PLACE, "uptime", NOW) == NOW, "five minutes after the last one until now"
    found = failures(archive)
    assert set(found) == {"check_ahead lab uptime", "check_ahead lab capacity"} and "wrong clock" in found["check_ahead lab uptime"]
    assert [line for line in archive.verify() if "dated ahead of now" in line and "lab's uptime" in line]
    seen = watches(installation_paths().archive_url, world(), NOW)
    assert seen.status == "failed" and "dated ahead of now" in seen.found
    uptime, _ = availability_histories(archive, PLACE, NOW)
    assert uptime.months[0].share.n == 1
    assert budget_balance(archive, limited, NOW).used == used


def test_clocks_of_one_installation_may_be_apart_a_little(archive: Archive) -> None:
    checked(archive, NOW - FIVE, NOW + CLOCK_SKEW / 2)
    checked(archive, NOW - FIVE, kind="capacity")
    assert failures(archive) == {}
    assert watches(installation_paths().archive_url, world(), NOW).status == "ok"


@pytest.mark.fault("no check of a watch for three intervals", ends="watch_silent until the next check", keeps="the time as unknown")
def test_a_watch_without_a_check_for_three_intervals_is_a_finding_until_the_next_one(archive: Archive) -> None:
    checked(archive, NOW - 3 * FIVE)
    checked(archive, NOW - FIVE, kind="capacity")
    assert failures(archive) == {}, "three intervals are not more than three"
    later = NOW + timedelta(seconds=1)
    assert list(failures(archive, later)) == ["watch_silent lab uptime"]
    ids = [reconcile_failures(archive, check_watches.watch_failures(archive, world(), later), check_watches.CODES, later) for _ in range(2)]
    (open_one,) = archive.findings_of(INSTALLATION, "self", unsettled=True)
    assert ids == [[open_one.finding_id], []] and "is not checked" in open_one.headline
    checked(archive, later)
    reconcile_failures(archive, check_watches.watch_failures(archive, world(), later), check_watches.CODES, later)
    assert archive.findings_of(INSTALLATION, "self", unsettled=True) == []


def test_a_watch_that_was_never_checked_is_one_only_after_its_start(archive: Archive) -> None:
    assert failures(archive) == {}, "nothing says since when it is declared"
    checked(archive, NOW - FIVE, kind="capacity")
    seen = watches(installation_paths().archive_url, world(), NOW)
    assert seen.status == "unknown" and "lab uptime: not checked yet" in seen.found, "silence is no proof"
    archive.keep_copy(str(installation_paths().config), KeptCopy("0" * 64, b""))
    assert failures(archive) == {}
    assert set(failures(archive, NOW + timedelta(hours=3))) == {"watch_silent lab uptime"}
    assert "never checked" in failures(archive, NOW + timedelta(days=2))["watch_silent lab uptime"]


def test_a_snapshot_from_the_future_is_not_the_last_one(archive: Archive) -> None:
    for at in (NOW - FIVE, NOW + timedelta(days=3650)):
        archive.save_snapshot(SnapshotRecord("lab", "probe", at, {}))
    last = archive.latest_snapshot("lab", "probe", NOW)
    assert last is not None and last.taken_at == NOW - FIVE


def test_each_question_for_the_latest_row_says_until_when() -> None:
    """So that a stored time of another clock is no cursor: a new question of the name needs no line here."""
    found = {name: inspect.signature(member) for name, member in vars(Archive).items() if name.startswith("latest_")}
    asked = {name: signature for name, signature in found.items() if not str(signature.return_annotation).startswith("str")}  # a name
    assert len(asked) >= 2 and hasattr(price_rows, "latest_snapshot")
    assert [name for name, signature in asked.items() if "until" not in signature.parameters] == []
