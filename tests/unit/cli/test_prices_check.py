"""`plumbline prices check` and `accept`: what people see and type."""

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
    assert said("findings")[0]["findings"] == []


def test_a_price_finding_is_accepted_as_any_other(history, plumbline, said):
    for day in (2, 1):
        tell(history, day, 0.025)
        said("prices", "check", "local-2core")
    (finding,) = said("findings")[0]["findings"]
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
