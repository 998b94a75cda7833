"""`plumbline prices list`: what the sources say now, which of them failed, and who has none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.fakes.trials import CONFIG

HISTORY = """\
date,provider,region,instance_type,gpu,gpus,purchase,usd_per_gpu_hour
2026-01-20,local,here,host-2core,none,2,on-demand,0.021
2026-01-20,local,here,host-2core,none,2,spot,0.009
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path) -> Path:
    """The shipped declarations, where local-2core has a price history."""
    folder = tmp_path / "config"
    shutil.copytree(CONFIG, folder)
    (folder / "history.csv").write_text(HISTORY)
    file = folder / "providers" / "local-2core.yaml"
    file.write_text(file.read_text() + "price_sources:\n  - {kind: csv, file: history.csv}\n")
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(folder))
    return folder


def test_prices_are_listed_with_who_says_so_and_what_is_declared(config, plumbline, said):
    found, code = said("prices", "list", "local-2core")
    assert code == 0 and found["failures"] == []
    on_demand, spot = found["readings"]
    assert (on_demand["usd_per_gpu_hour"], on_demand["usd_per_instance_hour"], on_demand["source"]) == (0.021, 0.042, "csv")
    assert (on_demand["source_version"], on_demand["observed_at"]) == ("history.csv", "2026-01-20T00:00:00Z")
    assert on_demand["declared_usd_per_instance_hour"] == 0.04
    assert (spot["purchase"], spot["declared_usd_per_instance_hour"]) == ("spot", None)
    shown = plumbline("prices", "list").stdout
    assert "0.042" in shown and "0.04" in shown and "history.csv" in shown
    assert "price_sources" in shown and "local-1core" in shown


def test_a_source_that_is_down_is_named_and_the_exit_code_says_so(config, plumbline, said):
    (config / "history.csv").unlink()
    result = plumbline("prices", "list")
    assert result.exit_code == 1 and all(part in result.stderr for part in ("csv", "local-2core", "history.csv"))
    found, code = said("prices", "list")
    assert code == 1 and found["readings"] == [] and len(found["failures"]) == 1


def test_a_provider_that_nobody_declares_is_told(config, plumbline):
    result = plumbline("prices", "list", "local-9core")
    assert result.exit_code == 2 and '"local-9core"' in result.stderr and "local-1core" in result.stderr
