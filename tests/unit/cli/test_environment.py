"""`plumbline watch` on declared providers of its own."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.fakes.trials import CONFIG, H100, cluster_provider

from plumbline.archive import open_archive

SIM = {
    "name": "sim",
    "cloud": "simulated",
    "region": "here",
    "instance_type": "sim-8",
    "accelerator": {"kind": "nvidia", "product": "NVIDIA-H100-80GB-HBM3", "count": 8},
    "launcher": {"kind": "simulated"},
    "prices": [{"purchase": "on_demand", "price": "20USD/h", "since": "2026-01-01", "source": "a test"}],
}
DRIVER = {"kind": "driver_change", "since": "2026-01-01", "facts": {"driver.version": "575.1"}}


@pytest.fixture
def config(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = home / "config"
    (folder / "providers").mkdir(parents=True)
    shutil.copy(CONFIG / "thresholds.yaml", folder)
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(folder))
    declare(folder, SIM)
    return folder


def declare(config: Path, provider: dict[str, Any]) -> None:
    (config / "providers" / f"{provider['name']}.yaml").write_text(yaml.safe_dump(provider))


def test_what_changed_is_said_with_its_finding_and_again_as_known(config, plumbline, said):
    first = plumbline("watch")
    assert first.exit_code == 0 and "nothing changed" not in first.stdout and "first environment check" in first.stdout, first.stderr
    declare(config, {**SIM, "launcher": {"kind": "simulated", "drift": [DRIVER]}})
    changed = plumbline("watch", "sim")
    with open_archive() as archive:
        (finding,) = archive.findings_of("sim")
    assert changed.exit_code == 4, changed.stderr
    assert (
        "driver.version 570.86.15 → 575.1" in changed.stdout
        and "(news)" in changed.stdout
        and f"plumbline findings show {finding.finding_id}" in changed.stdout
    )
    (again,), code = said("watch")
    assert code == 4 and again["looked"]["changes"] and again["looked"]["news"] == []
    assert finding.headline.startswith("driver") and f"{date.fromisoformat(finding.detail['since']):%B %Y}" in finding.headline


@pytest.mark.parametrize(
    ("price", "code", "line"),
    [
        ("25 USD/h", 0, "on-demand price 2.50 → 3.12 USD per GPU-hour (+25 %)  (seen once)"),
        (
            "2 USD/h",
            4,
            "on-demand price 2.50 → 0.25 USD per GPU-hour (−90 %)  (held: 0.25 is more than 60 % away from the accepted 2.50 USD)",
        ),
    ],
)
def test_a_price_that_moves_or_is_held_is_not_nothing(config, plumbline, price, code, line):
    declare(config, {**SIM, "launcher": {"kind": "simulated", "drift": [{"kind": "price_change", "since": "2026-02-01", "price": price}]}})
    result = plumbline("watch")
    assert result.exit_code == code and line in result.stdout and "nothing changed" not in result.stdout, result.stdout


def test_everything_that_was_seen_is_a_table_when_asked_for(config, plumbline):
    assert "Ubuntu 24.04 LTS" in plumbline("watch", "--facts").stdout
    assert "Ubuntu" not in plumbline("watch").stdout


def test_one_that_cannot_be_looked_at_leaves_the_others(config, plumbline, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_K8S_A", '{"conn_type": "kubernetes", "extra": {"kube_config": "{}"}}')
    declare(config, cluster_provider(accelerator=H100).model_dump(mode="json", exclude_defaults=True))
    result = plumbline("watch")
    assert result.exit_code == 1 and "sim" in result.stdout
    assert "k8s_a" in result.stderr


def test_names_and_an_installation_without_a_watched_provider_are_said(config, plumbline, golden):
    assert "expected one of sim" in plumbline("watch", "sims").stderr
    declare(config, {**SIM, "watch": {"enabled": False}})
    none = plumbline("watch")
    assert none.exit_code == 2
    golden("cli.watch_of_nothing", none.stderr.strip())
    assert plumbline("watch", "sim").exit_code == 0
