"""A base image's own Python beside the harness's: what each process sees of either."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from plumbline.harness import engine_python
from plumbline.harness.environment import software
from plumbline.harness.inference.server.tritonserver import TritonInstallation
from plumbline.harness.measurement import TrialFailed

OURS = str(Path(engine_python.__file__).resolve().parents[2])


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Packages of a base image, whose Python finds them first, then its standard library, then the harness."""
    site = tmp_path / "dist-packages"
    for name, version in {"torch": "2.9.1", "transformers": "4.57.3", "vllm": "0.11.0"}.items():
        (site / name).mkdir(parents=True)
        (site / name / "__init__.py").write_text(f"__version__ = {version!r}\n")
        (site / f"{name}-{version}.dist-info").mkdir()
        (site / f"{name}-{version}.dist-info" / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (site / "torch" / "version.py").write_text("cuda = '12.8'\nhip = None\n")
    program = tmp_path / "engine-python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{site}:{OURS}" exec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv(engine_python.VARIABLE, str(program))
    return site


def output(code: str) -> str:
    command = [engine_python.executable(), "-c", code]
    return subprocess.run(command, env=engine_python.environment(), capture_output=True, text=True, check=True).stdout.strip()


def test_without_a_base_this_interpreter_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(engine_python.VARIABLE, raising=False)
    monkeypatch.setenv("PYTHONPATH", "/inherited")
    assert engine_python.executable() == sys.executable
    assert engine_python.environment()["PYTHONPATH"].split(os.pathsep) == [OURS, "/inherited"]
    assert (engine_python.describe().search_path, engine_python.describe().apart) == (tuple(sys.path), False)


def test_a_package_of_the_base_wins_and_ours_fills_in(base: Path) -> None:
    code = "import torch, transformers, plumbline.harness; print(torch.__version__, transformers.__file__, plumbline.__path__[0], sep='|')"
    version, transformers, plumbline = output(code).split("|")
    assert (version, Path(transformers).parents[1], Path(plumbline).parent) == ("2.9.1", base, Path(OURS))


def test_an_engine_sees_none_of_our_packages(base: Path) -> None:
    server = TritonInstallation(base / "bin/tritonserver", base, None)
    engine, model = (server.environment(backend)["PYTHONPATH"].split(os.pathsep) for backend in ("vllm", "python"))
    assert OURS not in engine and OURS in model[model.index(str(base)) :]
    assert str(base) in engine and engine_python.describe().executable == sys.executable
    assert server.environment("vllm")["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)


def test_facts_are_those_of_what_computes(base: Path) -> None:
    found = software.software_facts()
    names = ("torch.version", "transformers.version", "vllm.version", "torch.cuda", "torch.rocm")
    assert [found[name] for name in names] == ["2.9.1", "4.57.3", "0.11.0", "12.8", None]
    assert found["harness.version"] and found["pyarrow.version"]


@pytest.mark.parametrize("lines", [None, "#!/bin/sh\nexit 3\n", "#!/bin/sh\necho no json\n"], ids=["absent", "failing", "talking"])
def test_an_engine_python_that_does_not_run_is_the_images_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str | None) -> None:
    program = tmp_path / "python"
    if lines is not None:
        program.write_text(lines)
        program.chmod(0o755)
    monkeypatch.setenv(engine_python.VARIABLE, str(program))
    with pytest.raises(TrialFailed, match=f"{engine_python.VARIABLE} is {program}; expected") as caught:
        engine_python.describe()
    assert caught.value.failure_class == "image_error"
