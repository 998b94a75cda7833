"""A history through the check, and its reports compared with known changes."""

from __future__ import annotations

import json
import random
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.unit.prices.readings import FIRST, ONE, RESERVED, SPOT, days
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[3] / "perf"))

from price_replay import KnownChange, evaluate_replay, known_changes, replay_readings
from prices import main

from plumbline.price_sources.csv_history import HistoryError


def test_confirmed_changes_are_accepted_so_that_the_next_one_is_seen_too() -> None:
    done = replay_readings(days(2.0, 2.2, 2.2, 2.0, 2.0))
    assert [(t.what, t.old, t.new, t.since, t.reported_at) for t in done.alerts] == [
        ("changed", 2.0, 2.2, FIRST + timedelta(days=1), FIRST + timedelta(days=2)),
        ("changed", 2.2, 2.0, FIRST + timedelta(days=3), FIRST + timedelta(days=4)),
    ]
    assert (done.readings, done.series, done.first, done.last) == (5, 1, FIRST, FIRST + timedelta(days=4))


def test_an_error_of_the_source_is_told_once_and_never_accepted() -> None:
    """What happened to a real price in October 2022: a rise that was read once, then a tenth of the price, then the on-demand price."""
    reserved = days(2.0, 2.4, 0.5, 0.5, 5.0, 5.0, 5.02, of=RESERVED)
    done = replay_readings([*reserved, *days(*[5.0] * 7)])
    assert [(t.what, t.new, t.last - t.since, [p for _, p in t.steps]) for t in done.alerts] == [
        ("held", 0.5, timedelta(days=1), [2.4]),
        ("held", 5.0, timedelta(days=2), [2.4]),
    ]
    assert replay_readings([*days(2.0, 2.4, 2.4, of=RESERVED), *days(*[5.0] * 3)]).alerts[0].what == "changed"


def test_reservations_are_held_against_the_on_demand_price_of_their_own_time_whatever_the_order_of_the_file() -> None:
    rows = [*days(1.9, 2.2, 2.2, of=RESERVED), *days(2.0, 2.6, 2.6)]
    assert replay_readings(rows).alerts == replay_readings(rows[::-1]).alerts
    assert {t.what for t in replay_readings(rows).alerts} == {"changed"}


def test_spot_noise_is_cut_and_a_lasting_move_is_not() -> None:
    rng = random.Random(7)
    noise = [1.0 + rng.uniform(-0.1, 0.1) for _ in range(60)]
    done = replay_readings(days(*noise, *(1.4 * price for price in noise), of=SPOT))
    assert len(done.alerts) < 8 and done.alerts[0].reported_at >= FIRST + timedelta(days=60)
    assert done.raw_spot >= 118 and done.raw_spot > done.raw_spot_list > done.raw_spot_large
    assert done.spot_cut is not None and done.spot_cut > 2 / 3
    assert replay_readings(days(1.0, 1.0, of=SPOT)).spot_cut is None, "nothing moved"


def known(day: int, old: float, new: float) -> KnownChange:
    return KnownChange(ONE.provider, "on_demand", None, (FIRST + timedelta(days=day)).date(), old, new)


def test_every_known_change_gets_an_answer_and_unknown_ones_are_invented() -> None:
    done = replay_readings(days(2.0, 2.2, 2.2, 2.5, 2.8, 2.8, 0.1, 2.8))
    changes = [known(1, 2.0, 2.2), known(3, 2.2, 2.5), known(4, 2.5, 2.8), known(6, 2.8, 0.1), known(2, 2.2, 2.3), known(5, 2.8, 2.81)]
    found = evaluate_replay(done, changes)
    assert [answer for _, answer in found.answers] == ["changed", "on the way", "changed", "held", "missed"], (
        "a change below 1 % needs none"
    )
    assert found.invented == () and found.counts["missed"] == 1
    assert [t.new for t in evaluate_replay(done, changes[:1]).invented] == [2.8]


HEADER = "date,provider,region,instance_type,purchase,old_usd_per_gpu_hour,new_usd_per_gpu_hour\n"


def test_known_changes_are_read_and_a_row_that_says_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "events.csv"
    file.write_text(HEADER + "2025-06-23,aws,us-east-1,p5.48xlarge,reserved-1y,12.29,6.88\n")
    (change,) = known_changes(file)
    assert (change.provider, change.purchase, change.term, change.new) == ("aws/us-east-1/p5.48xlarge", "reserved", "1y", 6.88)
    file.write_text(HEADER + "2025-06-23,aws,us-east-1,p5.48xlarge,weekly,12.29,6.88\n")
    with pytest.raises(HistoryError, match=r"events\.csv:2 .*on-demand"):
        list(known_changes(file))
    for old in ("nan", "-1", "inf", ""):
        file.write_text(HEADER + f"2025-06-23,aws,us-east-1,p5.48xlarge,reserved-1y,{old},6.88\n")
        with pytest.raises(HistoryError, match=r"events\.csv:2 .*numbers"):
            list(known_changes(file))
    file.write_bytes(HEADER.encode("utf-16"))
    with pytest.raises(HistoryError, match=r"events\.csv .*UTF-8"):
        list(known_changes(file))
    file.write_text("date,old\n")
    with pytest.raises(HistoryError, match=r"events\.csv:1 .*provider"):
        list(known_changes(file))
    with pytest.raises(HistoryError, match=r"none\.csv") as error:
        list(known_changes(tmp_path / "none.csv"))
    assert isinstance(error.value.__cause__, FileNotFoundError)


HISTORY = "date,provider,region,instance_type,gpu,gpus,purchase,usd_per_gpu_hour\n"


def write_history(file: Path) -> None:
    rows = [
        f"2026-01-{day:02},aws,{region},p5.48xlarge,H100,8,{purchase},{price}"
        for region in ("us-east-1", "us-west-2")
        for purchase, prices in (("on-demand", (12.29, 12.29, 6.88, 6.88)), ("reserved-1y", (5.0, 0.5, 0.5, 5.0)), ("spot", (2, 3, 2, 2)))
        for day, price in enumerate(prices, 1)
    ]
    file.write_text(HISTORY + "\n".join(rows) + "\n")


EVENTS = (
    f"{HEADER}2026-01-03,aws,us-east-1,p5.48xlarge,on-demand,12.29,6.88\n"
    "2026-01-03,aws,us-west-2,p5.48xlarge,on-demand,12.29,6.88\n"
    "2026-01-02,aws,us-east-1,p5.48xlarge,reserved-1y,5.0,0.5\n"
)


def replayed(*words: str | Path) -> tuple[int, str, str]:
    """Exit status, standard output and error of the command."""
    app = typer.Typer()
    app.command()(main)
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.stdout, done.stderr


def found(*words: str | Path) -> Any:
    return json.loads(replayed(*words, "--json")[1])


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A history and its known changes."""
    write_history(tmp_path / "prices.csv")
    (tmp_path / "events.csv").write_text(EVENTS)
    return tmp_path / "prices.csv", tmp_path / "events.csv"


def test_the_command_shows_changes_and_held_prices(files: tuple[Path, Path]) -> None:
    file, events = files
    code, shown, error = replayed(file, "--events", events)
    assert code == 0, error
    changed, held = (next(line.split() for line in shown.splitlines() if begins in line) for begins in ("12.29", "0.50"))
    assert changed[:4] == ["2026-01-03", "2026-01-04", "aws", "p5.48xlarge"] and changed[-1] == "2", "both regions in one row"
    assert held[:2] == ["2026-01-02", "2026-01-03"] and "reserved" in held
    data = found(file, "--events", events)
    assert data["readings"] == 24 and data["prices"] == 6
    assert {k: data["known"][k] for k in ("changes", "changed", "held", "missed")} == {"changes": 3, "changed": 2, "held": 1, "missed": 0}
    assert data["spot"]["moves"] == 4 and data["spot"]["cut"] == 1.0 and data["list"]["changed"][0]["new"] == 6.88


def test_a_missed_or_invented_change_fails_the_command(files: tuple[Path, Path]) -> None:
    file, events = files
    events.write_text(HEADER + "2026-01-02,aws,us-east-1,p5.48xlarge,on-demand,12.29,11\n")
    known = found(file, "--events", events)["known"]
    assert replayed(file, "--events", events)[0] == 1 and known["missed"] == 1 and len(known["invented"]) == 2
    assert replayed(file)[0] == 0, "without known changes there is nothing to fail"
