from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fakes.quick_python import search_path

from plumbline.harness import selfcheck
from plumbline.results import CheckLine


def test_a_cpu_is_green_and_each_check_has_a_line() -> None:
    lines = selfcheck.run("cpu", {"gpt"})
    assert {line.status for line in lines} <= {"pass", "not_applicable"}, [line for line in lines if line.status == "fail"]
    assert list(dict.fromkeys(line.check for line in lines)) == [
        "event_timer",
        "energy_counter",
        "counted_flops",
        "load_client",
        "clock_offset",
    ]
    assert {line.name for line in lines if line.status == "pass"} >= {"event_timer cpu", "counted_flops gpt", "load_client first token"}
    assert selfcheck.judgements(lines) == []


def test_a_failed_line_degrades() -> None:
    lines = [
        CheckLine.compared("event_timer", 1.0, 1.0, 0.1, "s", "fine"),
        CheckLine.compared("load_client", 0.3, 0.1, 0.005, "s", "late", of="gap"),
        CheckLine.not_applicable("energy_counter", "no GPU"),
        CheckLine.failed("counted_flops", "torch is broken"),
    ]
    (found,) = selfcheck.judgements(lines)
    assert (found.level, found.reason.code) == ("degraded", "selfcheck_failed")
    assert "load_client gap" in found.reason.detail and "torch is broken" in found.reason.detail
    assert "event_timer" not in found.reason.detail


def test_a_number_that_is_none_fails() -> None:
    assert CheckLine.compared("event_timer", float("nan"), 1.0, 0.1, "s", "stopped clock").status == "fail"


@pytest.mark.parametrize("command", [("/bin/false",), ("/bin/sleep", "60")])
def test_a_process_that_breaks_off_is_a_failed_line(monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    monkeypatch.setattr(selfcheck, "_TORCH_COMMAND", command)
    monkeypatch.setattr(selfcheck, "_TORCH_LIMIT_S", {"60": 0.1, "cpu": 0.1})
    with selfcheck.torch_checks_process("60" if len(command) > 1 else "cpu", ()) as lines:
        (line,) = lines()
    assert (line.check, line.status) == ("counted_flops", "fail")


def test_without_torch_there_is_nothing_to_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(selfcheck, "_has_torch", lambda: False)
    monkeypatch.setattr(subprocess, "Popen", never)
    with selfcheck.torch_checks_process("cpu", ("gpt",)) as lines:
        assert {line.status for line in lines()} == {"not_applicable"}


@pytest.mark.parametrize("part", ["raise RuntimeError('The installation does not include grpc support.')", None])
def test_without_tritonclients_grpc_part_the_load_client_does_not_apply(tmp_path: Path, part: str | None) -> None:
    package = tmp_path / "tritonclient"
    package.mkdir()
    (package / "__init__.py").touch()
    if part is not None:
        (package / "grpc").mkdir()
        (package / "grpc" / "__init__.py").write_text(part)
    ask = "from plumbline.harness import selfcheck; (line,) = selfcheck._load_client_lines(); print(line.check, line.status, line.reason)"
    path = search_path(tmp_path, Path(selfcheck.__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-c", ask], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.startswith("load_client not_applicable "), done.stderr
    assert "tritonclient[grpc]" in done.stdout
