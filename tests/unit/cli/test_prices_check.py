"""`plumbline prices check`, `accept` and `replay`: what people see and type."""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from tests.fakes.trials import CONFIG

from plumbline.archive import open_archive

HEADER = "date,provider,region,instance_type,gpu,gpus,purchase,usd_per_gpu_hour\n"


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path) -> Path:
    """A price history of local-2core, which declares 0.04 USD/h; `tell` adds days."""
    folder = tmp_path / "config"
    shutil.copytree(
        CONFIG,
        folder,
        ignore=shutil.ignore_patterns("example-*", "*-gpu.yaml", "*-8gpu.yaml", "*-cpu.yaml", "contracts", "teams", "economics.yaml"),
    )
    (folder / "history.csv").write_text(HEADER)
    file = folder / "providers" / "local-2core.yaml"
    file.write_text(file.read_text() + "price_sources:\n  - {kind: csv, file: history.csv}\n")
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(folder))
    open_archive().close()
    return folder / "history.csv"


def tell(history: Path, days_ago: int, price: float, purchase: str = "on-demand", row: str = "local,here,host-2core,none,2") -> None:
    day = (datetime.now(timezone.utc) - timedelta(days=days_ago)).date()
    with history.open("a") as file:
        file.write(f"{day},{row},{purchase},{price}\n")


def test_a_change_is_checked_told_and_accepted(history, plumbline, said):
    tell(history, 2, 0.025)
    found, code = said("prices", "check", "local-2core")
    assert code == 0 and found[0]["prices"][0]["meaning"] == "seen_once" and found[0]["new_readings"] == 1
    tell(history, 1, 0.025)
    result = plumbline("prices", "check", "local-2core")
    assert result.exit_code == 4 and "changed" in result.stdout and "+25 %" in result.stdout
    assert "raised its price 25 %" in plumbline("findings").stdout
    result = plumbline("prices", "accept", "local-2core", "--why", "power is dearer")
    assert result.exit_code == 0 and all(part in result.stdout for part in ("local-2core on-demand", "0.025 USD", "0.05 USD/h"))
    found, code = said("prices", "check", "local-2core")
    assert code == 0 and found[0]["prices"][0]["accepted_usd_per_gpu_hour"] == 0.025
    assert said("findings")[0] == []


def test_a_price_finding_is_accepted_as_any_other(history, plumbline, said):
    for day in (2, 1):
        tell(history, day, 0.025)
        said("prices", "check", "local-2core")
    (finding,) = said("findings")[0]
    result = plumbline("findings", "accept", finding["finding_id"], "--why", "power is dearer")
    assert result.exit_code == 0 and "0.05 USD/h" in result.stdout
    assert said("prices", "check", "local-2core")[1] == 0


def test_a_held_price_says_why_and_a_source_that_is_down_is_named(history, plumbline):
    tell(history, 1, 0.001)
    result = plumbline("prices", "check", "local-2core")
    assert result.exit_code == 4 and "is held: " in result.stdout and "prices accept local-2core" in result.stdout
    tell(history, 1, 0.9, "reserved-1y")
    result = plumbline("prices", "check", "local-2core")
    assert "--purchase reserved" in result.stdout, result.stdout
    tell(history, 0, 0.0)
    result = plumbline("prices", "check", "local-2core")
    assert result.exit_code == 1 and 'usd_per_gpu_hour is "0.0"; expected a number above 0' in result.stderr
    history.unlink()
    result = plumbline("prices", "check", "local-2core")
    assert result.exit_code == 1 and "cannot be read" in result.stderr


def test_without_sources_there_is_nothing_to_check_and_what_cannot_be_accepted_is_refused(history, plumbline):
    unchecked = plumbline("prices", "check", "local-1core")
    assert unchecked.exit_code == 0 and "local-1core" in unchecked.stdout
    for words, expected in (
        (("prices", "check", "nobody"), 'no provider is called "nobody"'),
        (("prices", "accept", "local-2core", "--why", "x"), "no reading of the on-demand price of local-2core"),
        (("prices", "accept", "local-2core", "--why", "x", "--price", "0"), "is 0; expected a price above 0 in USD per core-hour"),
        (("prices", "accept", "local-2core", "--why", "x", "--term", "1y"), "only reservations have one"),
    ):
        result = plumbline(*words)
        assert result.exit_code == 2 and expected in result.stderr, words


def write_history(file: Path) -> None:
    rows = [
        f"2026-01-{day:02},aws,{region},p5.48xlarge,H100,8,{purchase},{price}"
        for region in ("us-east-1", "us-west-2")
        for purchase, prices in (("on-demand", (12.29, 12.29, 6.88, 6.88)), ("reserved-1y", (5.0, 0.5, 0.5, 5.0)), ("spot", (2, 3, 2, 2)))
        for day, price in enumerate(prices, 1)
    ]
    file.write_text(HEADER + "\n".join(rows) + "\n")


EVENTS = (
    "date,provider,region,instance_type,purchase,old_usd_per_gpu_hour,new_usd_per_gpu_hour\n"
    "2026-01-03,aws,us-east-1,p5.48xlarge,on-demand,12.29,6.88\n"
    "2026-01-03,aws,us-west-2,p5.48xlarge,on-demand,12.29,6.88\n"
    "2026-01-02,aws,us-east-1,p5.48xlarge,reserved-1y,5.0,0.5\n"
)


def test_a_replay_shows_what_would_have_been_told_and_held(tmp_path, plumbline, said):
    file, events = tmp_path / "prices.csv", tmp_path / "events.csv"
    write_history(file)
    events.write_text(EVENTS)
    result = plumbline("prices", "replay", str(file), "--events", str(events))
    assert result.exit_code == 0, result.stderr
    changed, held = (next(line.split() for line in result.stdout.splitlines() if begins in line) for begins in ("12.29", "0.50"))
    assert changed[:4] == ["2026-01-03", "2026-01-04", "aws", "p5.48xlarge"] and changed[-1] == "2", "both regions in one row"
    assert held[:2] == ["2026-01-02", "2026-01-03"] and "reserved" in held
    found, code = said("prices", "replay", str(file), "--events", str(events))
    assert code == 0 and found["readings"] == 24 and found["prices"] == 6
    assert {k: found["known"][k] for k in ("changes", "changed", "held", "missed")} == {"changes": 3, "changed": 2, "held": 1, "missed": 0}
    assert found["spot"]["moves"] == 4 and found["spot"]["cut"] == 1.0 and found["list"]["changed"][0]["new"] == 6.88


def test_a_change_that_is_missed_or_invented_fails_a_replay_against_known_ones(tmp_path, plumbline, said):
    file, events = tmp_path / "prices.csv", tmp_path / "events.csv"
    write_history(file)
    events.write_text(EVENTS.splitlines()[0] + "\n2026-01-02,aws,us-east-1,p5.48xlarge,on-demand,12.29,11\n")
    found, code = said("prices", "replay", str(file), "--events", str(events))
    assert code == 1 and found["known"]["missed"] == 1 and len(found["known"]["invented"]) == 2
    assert said("prices", "replay", str(file))[1] == 0, "without known changes there is nothing to fail"


def test_a_replay_of_one_provider_leaves_out_the_others_and_one_of_nobody_says_so(tmp_path, plumbline, said):
    file = tmp_path / "prices.csv"
    write_history(file)
    assert said("prices", "replay", str(file), "--provider", "aws/us-east-1")[0]["prices"] == 3
    for provider in ("aw", "gcp"):
        result = plumbline("prices", "replay", str(file), "--provider", provider)
        assert result.exit_code == 2 and f"price of {provider}" in result.stderr
    result = plumbline("prices", "replay", str(tmp_path / "none.csv"))
    assert result.exit_code == 2 and "cannot be read" in result.stderr


def test_a_replay_names_every_wrong_line_and_goes_on_with_the_others(tmp_path, plumbline, said):
    file = tmp_path / "prices.csv"
    write_history(file)
    file.write_text(file.read_text().replace("on-demand,12.29", "on-demand,0", 1).replace("spot,3", "spot,", 1))
    result = plumbline("prices", "replay", str(file))
    assert result.exit_code == 1 and ":2, usd_per_gpu_hour" in result.stderr and ":11, usd_per_gpu_hour" in result.stderr
    found, code = said("prices", "replay", str(file))
    assert code == 1 and len(found["wrong_lines"]) == 2 and found["readings"] == 22
