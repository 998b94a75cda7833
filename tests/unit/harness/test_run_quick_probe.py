"""A short look from inside: what it measures within its limit, and how its document is stored."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from plumbline.harness.__main__ import MEASURED, STORE_FAILED, main
from plumbline.harness.run import quick_probe, store_probe
from plumbline.results import ResultStore
from plumbline.results.probe_document import InvalidProbe, ProbeDocument


def test_it_measures_the_machine_and_says_what_it_is(tmp_path: Path) -> None:
    seen = quick_probe(tmp_path, names=("memory",))
    assert list(seen.figures) == ["memory_bandwidth"] and seen.figures["memory_bandwidth"] > 0
    assert seen.environment.facts["os.kernel"] and seen.left_out == {} and seen.seconds > 0
    assert seen.foreign_cpu is None or 0 <= seen.foreign_cpu <= 1


def test_what_does_not_fit_into_the_limit_is_left_out_and_named(tmp_path: Path) -> None:
    seen = quick_probe(tmp_path, limit_s=0.0)
    assert seen.metrics == () and set(seen.left_out) == {"matmul", "memory"}
    assert all(" 0 s" in reason for reason in seen.left_out.values())


def test_a_probe_that_fails_is_left_out_with_the_last_thing_that_it_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = ImportError("libcuda.so: wrong driver")
    (tmp_path / "torch.py").write_text(f"raise {error!r}\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    seen = quick_probe(tmp_path, names=("matmul",))
    assert seen.left_out == {"matmul": f"ImportError: {error}"}
    assert {row.value for row in seen.metrics} == {None} and seen.figures == {}


def test_the_command_stores_a_file_or_an_object_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "--limit", "0", "--out", str(tmp_path / "probe.json")]) == MEASURED
    seen = ProbeDocument.read((tmp_path / "probe.json").read_bytes(), "there")
    assert [file.name for file in tmp_path.iterdir()] == ["probe.json"] and "matmul skipped" in capsys.readouterr().err
    store_probe(seen, f"{tmp_path.as_uri()}/store/probes/a.json")
    assert ProbeDocument.read(ResultStore((tmp_path / "store").as_uri()).get("probes/a.json"), "there") == seen


def test_a_place_that_takes_nothing_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "file" / "probe.json"
    out.parent.write_text("no folder")
    assert main(["probe", "--limit", "0", "--out", str(out)]) == STORE_FAILED
    assert str(out) in capsys.readouterr().err


def test_what_is_no_probe_is_named() -> None:
    with pytest.raises(InvalidProbe, match=r"^s3://b/x.json: harness_version: "):
        ProbeDocument.read(b"{}", "s3://b/x.json")
