"""A probe of each kind of place: what comes back, and that it gives way."""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest
from tests.data.result_documents import provider
from tests.fakes.trials import declared, local_provider

from plumbline.declarations import Provider
from plumbline.launch.failures import BadDeclaration, HarnessError, TrialTimeout, WrongHardware
from plumbline.launch.launcher import ProbeSkipped
from plumbline.launch.local import process_launcher
from plumbline.launch.local.machine_access import machine_lock
from plumbline.launch.local.process_launcher import ProcessLauncher
from plumbline.launch.registry import launcher_for
from plumbline.results.probe_document import PROBE_LIMIT_S, ProbeDocument

NOW = datetime(2026, 11, 21, tzinfo=timezone.utc)
H100 = {"kind": "nvidia", "product": "NVIDIA-H100-80GB-HBM3", "count": 8}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    return tmp_path / "work"


def probe(
    where: Provider, at: datetime = NOW, limit_s: float = PROBE_LIMIT_S, command: tuple[str, ...] | None = None
) -> ProbeDocument | ProbeSkipped:
    launcher = launcher_for(where) if command is None else ProcessLauncher(command)
    return launcher.probe(declared(), where, at, limit_s)


def harness(*code: str) -> tuple[str, ...]:
    """A program in the place of the harness's."""
    return (sys.executable, "-c", "\n".join(code))


def test_this_machine_is_probed_by_the_harness_and_nothing_is_left(home: Path) -> None:
    seen = probe(local_provider(machine="probed"), limit_s=0.001)
    assert isinstance(seen, ProbeDocument) and seen.environment.facts["os.kernel"]
    assert seen.left_out.keys() == {"matmul", "memory"}, "no more time than was given"
    assert list(home.iterdir()) == []


def test_what_runs_on_the_machine_goes_first(tmp_path: Path) -> None:
    with machine_lock("taken", "gpt-tiny", tmp_path, 0.0, lambda _: None):
        seen = probe(local_provider(machine="taken"))
    assert isinstance(seen, ProbeSkipped) and 'trial "gpt-tiny"' in seen.why


def test_a_harness_that_fails_lies_or_hangs_is_a_failure(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = local_provider(machine="probed")
    with pytest.raises(HarnessError, match="7: no library"):
        probe(here, command=harness("import sys", "print('no library')", "sys.exit(7)"))
    with pytest.raises(HarnessError, match="version"):
        probe(here, command=harness("import sys", "open(sys.argv[3], 'w').write('{}')"))
    monkeypatch.setattr(process_launcher, "PROBE_START_S", 0.2)
    with pytest.raises(TrialTimeout):
        probe(here, limit_s=0.1, command=harness("import time", "time.sleep(60)"))
    assert list(home.iterdir()) == []


def test_cores_that_are_not_there_are_named() -> None:
    with pytest.raises(WrongHardware, match="4000"):
        probe(local_provider(machine="probed", cpus=[4000]))


def simulated(*drift: dict[str, object], **launcher: object) -> Provider:
    return provider("sim", accelerator=H100, launcher={"kind": "simulated", "drift": list(drift), **launcher})


def figures(where: Provider, day: int) -> ProbeDocument:
    seen = probe(where, NOW.replace(day=day))
    assert isinstance(seen, ProbeDocument)
    return seen


def test_a_simulated_one_shows_what_is_declared_for_the_day() -> None:
    where = simulated(
        {"kind": "driver_change", "since": "2026-11-10", "facts": {"driver.version": "575.1"}, "worse": "10%", "probes": ["matmul_tflops"]}
    )
    before, after = figures(where, 9), figures(where, 11)
    assert after.figures["matmul_tflops"] == pytest.approx(before.figures["matmul_tflops"] / 1.1, rel=0.02)
    assert after.figures["memory_bandwidth"] == pytest.approx(before.figures["memory_bandwidth"], rel=0.02)
    assert (before.environment.facts["driver.version"], after.environment.facts["driver.version"]) == ("570.86.15", "575.1")
    assert figures(where, 9) == before, "the same day shows the same"


def test_a_simulated_one_whose_hardware_nobody_knows_says_what_to_declare() -> None:
    where = provider("sim", accelerator={"kind": "nvidia", "product": "Unheard-Of", "count": 1}, launcher={"kind": "simulated"})
    with pytest.raises(BadDeclaration, match=r"launcher\.levels"):
        probe(where)


def test_behind_an_url_there_is_no_machine_to_probe() -> None:
    hosted = provider("hosted", launcher={"kind": "endpoint", "url": "https://api.example.com/v1", "protocol": "openai", "model": "gpt"})
    assert isinstance(probe(hosted), ProbeSkipped)
