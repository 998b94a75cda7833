"""`plumbline accept`: what it prints, its exit codes, and requests that it refuses before anything runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.fakes.trials import CONFIG, H100, cluster_provider
from typer.testing import CliRunner

from plumbline.cli.app import app

PROVIDER, WORKLOAD = "simulated-2core", "gpt-tiny-cpu"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "var"))
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "config"
    shutil.copytree(CONFIG, config)
    file = config / "providers" / f"{PROVIDER}.yaml"
    file.write_text(file.read_text().replace("enabled: false", "enabled: true"))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(config))
    return tmp_path


def accept(*words: str, code: int) -> str:
    result = CliRunner().invoke(app, ["accept", *words])
    assert result.exit_code == code, result.output
    return result.output


def test_a_fleet_is_accepted_with_exit_code_0_and_a_sheet(home: Path) -> None:
    printed = accept(PROVIDER, "--workload", WORKLOAD, "--campaign", "accept-1", "--nodes", "4", "--json", code=0)
    done = json.loads(printed[printed.index("{") :])
    assert len(done["fleet"]["nodes"]) == 4 and (home / "acceptance-accept-1.zip").exists()
    assert "exists; expected the name of a new file" in accept(PROVIDER, "--campaign", "accept-1", code=2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((PROVIDER, "--nodes", "some"), "expected all, or a number"),
        ((PROVIDER, "--nodes", "9999"), "nodes that a trial could use now"),
        ((PROVIDER, "--rounds", "some"), "expected all, or a number"),
        ((PROVIDER, "--rounds", "2"), "expected at least 3"),
        ((PROVIDER, "--rounds", "all"), "no declared training workload of 2 nodes"),
        (("nowhere",), "nowhere"),
        ((PROVIDER, "--workload", "chat-tiny-cpu"), "is no training"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_runs(words: tuple[str, ...], said: str, home: Path) -> None:
    assert said in accept(*words, code=2)
    assert not list(home.glob("*.zip"))


def test_a_cluster_that_cannot_be_asked_for_its_nodes_is_one_sentence(home: Path) -> None:
    cluster = cluster_provider(accelerator={**H100, "count": 8}, connection="k8s_undefined")
    (home / "config" / "providers" / "cluster-a.yaml").write_text(cluster.model_dump_json(exclude_defaults=True))
    assert "k8s_undefined" in accept("cluster-a", "--rounds", "all", code=2)
    assert not list(home.glob("*.zip"))
