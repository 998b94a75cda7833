"""A simulated quarter of checks with planted outages, and what checks do to archive, findings, budget and schedule."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.data.result_documents import provider
from tests.fakes.cut_writer import full_at_each_page, killed_at_each_change
from tests.fakes.trials import declared

from plumbline.analysis.availability import availability, find_outages
from plumbline.answers.availability_histories import availability_histories
from plumbline.answers.provider_use import CAPACITY_HELD_S, budget_balance
from plumbline.archive import Archive, open_archive
from plumbline.declarations import Declarations, Provider
from plumbline.findings.headline import headline
from plumbline.launch.failures import ApiRefused
from plumbline.launch.simulated.launcher import SimulationLauncher
from plumbline.presentation.availability import availability_view
from plumbline.results.finding import Finding
from plumbline.workflows import check_availability

BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
EVERY = timedelta(minutes=5)
QUARTER = [(2026, 1, 31), (2026, 2, 28), (2026, 3, 31)]


def simulated(outages: list[dict[str, Any]], **fields: Any) -> Provider:
    watch = fields.pop("watch", {"uptime": {"every": "5min"}, "capacity": {"every": "6h", "gpus": 2}})
    planted = [{**o, "begin": o["begin"].isoformat(), "end": o["end"].isoformat()} for o in outages]
    made: Provider = provider("sim", launcher={"kind": "simulated", "outages": planted}, watch=watch, **fields)
    return made


def world(where: Provider) -> Declarations:
    known: Declarations = replace(declared(), providers={where.name: where})
    return known


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    for name in ("PLUMBLINE_ARCHIVE_URL", "PLUMBLINE_RESULTS_URL", "PLUMBLINE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    with open_archive() as opened:
        yield opened


def after(steps: float) -> datetime:
    return BEGIN + steps * EVERY


def between(first: float, last: float, cause: str, watch: str = "uptime") -> dict[str, Any]:
    return {"begin": after(first), "end": after(last), "cause": cause, "watch": watch}


def planted_outages() -> tuple[list[dict[str, Any]], list[tuple[int, int]]]:
    """What is declared, and the checks (first missed, first answered) that each outage of the provider's makes."""
    luck, outages, expected, step = random.Random(7), [], [], 100
    while step < 25000:
        length = luck.choice([1, 2, 3, 4, 12, 60, 200])
        begin = step + luck.random() * 0.9
        outages.append(between(begin, begin + length, luck.choice(["server_error", "timeout"])))
        # Missed are the checks at whole steps in [begin, begin + length): the first after `begin`, `length` of them.
        if length >= 3:
            expected.append((step + 1, step + 1 + length))
        step += 1300 + luck.randrange(400)
    outages += [between(700, 900, "bad_declaration"), between(12000, 12012, "unreachable")]
    return sorted(outages, key=lambda o: o["begin"]), expected


def test_every_outage_of_a_quarter_is_found_none_invented_and_availability_is_exact(archive: Archive) -> None:
    outages, expected = planted_outages()
    where = simulated(outages)
    checks = int((datetime(2026, 4, 1, tzinfo=timezone.utc) - BEGIN) / EVERY)
    assert check_availability.simulate_checks(archive, world(where), where, BEGIN, after(checks)) == checks + 90 * 4
    seen = archive.availability_checks("sim", "uptime", True)
    found = find_outages(seen, EVERY.total_seconds())
    assert len(expected) > 8
    assert [(o.began, o.ended) for o in found if o.whose == "provider"] == [(after(a), after(b)) for a, b in expected]
    assert [(o.began, o.ended) for o in found if o.whose != "provider"] == [(after(12000), after(12012))]

    def cause_at(step: int) -> str | None:
        return next((str(o["cause"]) for o in outages if o["begin"] <= after(step) < o["end"]), None)

    for year, month, days in QUARTER:
        begin = datetime(year, month, 1, tzinfo=timezone.utc)
        first = int((begin - BEGIN) / EVERY)
        causes = [cause_at(first + n) for n in range(days * 288)]
        judged = availability(begin, seen, found, EVERY.total_seconds(), after(checks))
        counted = [c for c in causes if c not in ("bad_declaration", "unreachable")]
        assert (judged.share.successes, judged.share.n) == (counted.count(None), len(counted))
        down = sum(max(0, min(b, first + days * 288) - max(a, first)) for a, b in expected)
        assert judged.outage_s == down * 300
        assert judged.own.get("bad_declaration", 0) == causes.count("bad_declaration")
    assert archive.findings_of("sim", unsettled=True) == []


def test_capacity_of_a_quarter(archive: Archive) -> None:
    shortage = between(0, 288, "insufficient_capacity", "capacity")
    where = simulated([shortage, between(288 * 5, 288 * 9, "quota_exceeded", "capacity")], watch={"capacity": {"every": "6h", "gpus": 2}})
    check_availability.simulate_checks(archive, world(where), where, BEGIN, after(288 * 90))
    seen = archive.availability_checks("sim", "capacity", True)
    (only,) = find_outages(seen, 6 * 3600)
    assert (only.began, only.ended, only.cause) == (BEGIN, after(288), "insufficient_capacity")
    judged = availability(BEGIN, seen, [only], 6 * 3600, after(288 * 90))
    assert (judged.share.successes, judged.share.n, dict(judged.own)) == (124 - 4 - 16, 124 - 16, {"quota_exceeded": 16})
    assert all((o.seconds is not None) == (o.cause is None) and o.gpus == 2 for o in seen)


def test_a_healthy_quarter_has_no_outage(archive: Archive) -> None:
    where = simulated([])
    check_availability.simulate_checks(archive, world(where), where, BEGIN, after(288 * 90))
    assert find_outages(archive.availability_checks("sim", "uptime", True), EVERY.total_seconds()) == ()


def check(patch: pytest.MonkeyPatch, where: Provider, at: datetime, kind: Any = "uptime") -> check_availability.CheckResult:
    patch.setattr(check_availability, "load_in_force", lambda: world(where))
    return check_availability.check(where.name, kind, at)


def open_findings(archive: Archive) -> list[Finding]:
    return [Finding.of(f.detail) for f in archive.findings_of("sim", unsettled=True)]


def test_a_finding_opens_with_the_third_miss_and_resolves_with_the_first_answer(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    where = simulated([between(1, 5, "server_error"), between(10, 12, "server_error")])
    opened = []
    for n in range(6):
        done = check(monkeypatch, where, after(n))
        opened.append([f.finding_id for f in open_findings(archive)])
        if n == 3:
            (finding,) = open_findings(archive)
            assert done.findings == (finding.finding_id,)
            assert headline(finding) == "server error on sim: down since 2026-01-01 00:05 UTC"
            assert (finding.kind, finding.subject, finding.severity, finding.simulated) == ("reliability", "outage/uptime", "page", True)
    assert [len(ids) for ids in opened] == [0, 0, 0, 1, 1, 0]
    (settled,) = archive.findings_of("sim")
    assert settled.state == "resolved"
    for n in range(10, 13):
        assert check(monkeypatch, where, after(n)).findings == ()


@pytest.mark.fault(
    "SIGKILL before any change of a check between campaigns", ends="the next check completes it", keeps="the checks before it; one finding"
)
@pytest.mark.fault(
    "the disk is full while a check is recorded", ends="an error; the next check completes it", keeps="the checks before it; one finding"
)
@pytest.mark.parametrize("cut", ["killed", "full"])
def test_a_check_that_is_cut_at_any_point(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: str) -> None:
    where = simulated([between(1, 9, "server_error")])
    for n in range(3):
        check(monkeypatch, where, after(n))

    def third_miss() -> None:
        check(monkeypatch, where, after(3))

    again = (
        full_at_each_page(archive, tmp_path, third_miss, monkeypatch)
        if cut == "full"
        else killed_at_each_change(archive, tmp_path, third_miss)
    )
    for url in again:
        with monkeypatch.context() as patch, open_archive(url) as left:
            patch.setenv("PLUMBLINE_ARCHIVE_URL", url)
            assert left.verify() == []
            kept = len(left.availability_checks("sim", "uptime", True))
            assert kept in (3, 4)
            for n in (4, 5):
                check(patch, where, after(n))
            (finding,) = open_findings(left)
            assert headline(finding) == "server error on sim: down since 2026-01-01 00:05 UTC"
            assert len(left.availability_checks("sim", "uptime", True)) == kept + 2 and left.verify() == []


def test_our_own_expired_token_opens_nothing(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    where = simulated([between(0, 20, "bad_declaration")])
    for n in range(10):
        assert check(monkeypatch, where, after(n)).findings == ()
    assert archive.findings_of("sim") == []


def test_an_outage_of_unproven_cause_becomes_the_providers_when_it_is_proven(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    where = simulated([between(0, 3, "unreachable"), between(3, 9, "server_error")])
    severities = []
    for n in range(7):
        check(monkeypatch, where, after(n))
        severities.append([f.severity for f in open_findings(archive)])
    assert severities == [[], [], ["warn"], ["warn"], ["warn"], ["page"], ["page"]]
    assert len(archive.findings_of("sim")) == 1


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ApiRefused(403, "exceeded quota"), "quota_exceeded"),
        (ApiRefused(401, "Unauthorized"), "bad_declaration"),
        (OSError(28, "No space left on device"), "harness_error"),
    ],
)
def test_refusals_and_our_own_disk_are_ours(archive: Archive, monkeypatch: pytest.MonkeyPatch, error: Exception, cause: str) -> None:
    def refuse(*_: Any) -> float:
        raise error

    monkeypatch.setattr(SimulationLauncher, "ask_capacity", refuse)
    done = check(monkeypatch, simulated([]), BEGIN, "capacity")
    assert done.observation is not None and done.observation.cause == cause


def test_the_next_check_is_due_after_the_declared_interval(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    where = simulated([])
    monkeypatch.setattr(check_availability, "load_in_force", lambda: world(where))
    done, following = check_availability.check_due("sim", datetime.now(timezone.utc))
    assert {one.kind for one in done} == {"uptime", "capacity"}
    assert following is not None and timedelta(minutes=4) < following - datetime.now(timezone.utc) <= EVERY
    assert check_availability.check_due("sim", datetime.now(timezone.utc))[0] == ()
    assert {one.kind for one in check_availability.check_due("sim", following)[0]} == {"uptime"}
    assert check_availability.watched(world(where)) == ["sim"]
    assert check_availability.watched(world(simulated([]).model_copy(update={"enabled": False}))) == []


def test_capacity_counts_in_the_budget_and_stops_at_it(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    prices = [{"purchase": "on_demand", "price": "30 USD/h", "since": "2025-01-01", "source": "a test"}]
    where = simulated([], prices=prices, budget={"usd_per_month": 1.5})
    assert check(monkeypatch, where, BEGIN, "capacity").observation is not None
    assert budget_balance(archive, where, BEGIN).used.usd == pytest.approx(30 * CAPACITY_HELD_S / 3600)
    spent = check(monkeypatch, where, after(72), "capacity")
    assert spent.observation is None and "exceed the budget" in str(spent.put_off)
    dry = where.model_copy(
        update={"watch": where.watch.model_copy(update={"capacity": where.watch.capacity.model_copy(update={"dry_run": True})})}  # type: ignore[union-attr]
    )
    checked = check(monkeypatch, dry, after(144), "capacity").observation
    assert checked is not None and checked.seconds is None and checked.cause is None
    assert budget_balance(archive, dry, BEGIN).used.usd == pytest.approx(30 * CAPACITY_HELD_S / 3600)


def test_maintenance_counts_nowhere_and_opens_no_finding(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    window = {"since": after(1).isoformat(), "until": after(9).isoformat(), "source": "notice of a test"}
    where = simulated([between(1, 6, "server_error")], sla={"maintenance": [window]})
    for n in range(12):
        assert check(monkeypatch, where, after(n)).findings == ()
    history = availability_histories(archive, where, after(12), months=1)[0]
    assert (history.months[0].share.successes, history.months[0].share.n, history.outages) == (4, 4, ())
    assert history.months[0].down_s == 0


def test_nodes_in_maintenance_are_neither_up_nor_down_and_open_no_finding(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    where = simulated([between(1, 6, "maintenance")])
    for n in range(12):
        assert check(monkeypatch, where, after(n)).findings == ()
    history = availability_histories(archive, where, after(12), months=1)[0]
    assert (history.months[0].down_s, dict(history.months[0].own), history.outages) == (0, {"maintenance": 5}, ())
    line = availability_view(history).months[0]
    assert line.apart == "5 × maintenance (cordoned nodes)" and line.low is not None and line.low < 0.6
