from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from tests.golden import Golden

from plumbline.declarations.workloads.engines import ENGINES
from plumbline.harness import engine_python
from plumbline.harness.inference.server import tritonserver
from plumbline.harness.inference.server.tritonserver import TritonInstallation, find_installation
from plumbline.harness.measurement import TrialFailed

STUB = "triton_python_backend_stub"
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def unpack(folder: Path, *, wheel: bool) -> Path:
    """The files of a Triton as the wheel or as the container lays them out; returns the server."""
    root = folder / "pytriton" / "tritonserver" if wheel else folder
    backend = root / "backends" / "python"
    stub = root / "python_backend_stubs" / VERSION / STUB if wheel else backend / STUB
    server = root / "bin" / "tritonserver"
    for path in (backend / "libtriton_python.so", backend / "triton_python_backend_utils.py", stub, server):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name)
        path.chmod(0o755)
    if wheel:
        (folder / "nvidia_pytriton.libs").mkdir()
    return server


@pytest.mark.parametrize("wheel", [True, False], ids=["wheel", "container"])
def test_both_layouts_give_one_backend_folder(tmp_path: Path, wheel: bool) -> None:
    found = TritonInstallation.of(unpack(tmp_path / "triton", wheel=wheel))
    folder = found.backend_directory(tmp_path / "backends")
    assert sorted(p.name for p in (folder / "python").iterdir()) == ["libtriton_python.so", STUB, "triton_python_backend_utils.py"]
    assert os.access(folder / "python" / STUB, os.X_OK)
    assert (found.libraries is not None) is wheel


def test_models_run_in_this_interpreters_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/inherited")
    environment = TritonInstallation.of(unpack(tmp_path, wheel=True)).environment()
    assert environment["PATH"].split(os.pathsep)[0] == f"{sys.prefix}/bin"
    paths = environment["LD_LIBRARY_PATH"].split(os.pathsep)
    assert paths[0] == str(tmp_path / "nvidia_pytriton.libs")
    assert paths[-1] == "/inherited"
    assert len(paths) == 3


def test_the_variable_leads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = unpack(tmp_path, wheel=False)
    monkeypatch.setenv(tritonserver.TRITONSERVER_VARIABLE, str(server))
    assert find_installation().server == server


@pytest.mark.parametrize("what", ["missing", "folder", "not executable"])
def test_a_variable_that_names_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    path = tmp_path / "tritonserver"
    if what == "folder":
        path.mkdir()
    elif what == "not executable":
        path.write_text("")
    monkeypatch.setenv(tritonserver.TRITONSERVER_VARIABLE, str(path))
    with pytest.raises(TrialFailed, match=f"^image_error: {tritonserver.TRITONSERVER_VARIABLE} .*{re.escape(str(path))}"):
        find_installation()


def test_nothing_anywhere_says_where_it_looked_and_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    monkeypatch.delenv(tritonserver.TRITONSERVER_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tritonserver, "REPOSITORY", tmp_path)
    with pytest.raises(TrialFailed) as failure:
        find_installation()
    golden("harness.no_tritonserver", str(failure.value), folder=tmp_path)
    server = unpack(tmp_path / "container", wheel=False)
    monkeypatch.setenv("PATH", str(server.parent))
    assert find_installation().server == server
    unpacked = unpack(tmp_path / ".triton", wheel=True)
    assert find_installation().server == unpacked


def test_an_installation_without_our_pythons_stub(tmp_path: Path) -> None:
    server = unpack(tmp_path, wheel=True)
    stub = next(tmp_path.rglob(STUB))
    stub.unlink()
    with pytest.raises(TrialFailed, match=rf"^image_error: .*{STUB} .*{VERSION}"):
        TritonInstallation.of(server).backend_directory(tmp_path / "backends")


def test_the_other_backends_are_used_where_they_lie(tmp_path: Path) -> None:
    server = unpack(tmp_path / "triton", wheel=False)
    other = tmp_path / "triton" / "backends" / "onnxruntime"
    other.mkdir()
    (other / "libtriton_onnxruntime.so").write_text("library")
    found = TritonInstallation.of(server)
    folder = found.backend_directory(tmp_path / "backends")
    assert (folder / "onnxruntime" / "libtriton_onnxruntime.so").read_text() == "library"
    assert not (folder / "python").is_symlink(), "its stub comes from elsewhere"
    assert found.backend_directory(folder) == folder, "a second time changes nothing"
    assert found.backends() == ("onnxruntime", "python")
    found.require(ENGINES["onnxruntime"])


def test_a_backend_that_is_missing(tmp_path: Path) -> None:
    found = TritonInstallation.of(unpack(tmp_path, wheel=False))
    with pytest.raises(TrialFailed, match=r"^image_error: .*\bonnxruntime\b.*-py3"):
        found.require(ENGINES["onnxruntime"])
    found.require(ENGINES["python"])


def test_an_engine_that_the_engine_python_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(engine_python.VARIABLE, raising=False)
    found = TritonInstallation.of(unpack(tmp_path, wheel=False))
    with pytest.raises(TrialFailed, match=r"^image_error: .*\bvllm\b.*-vllm-python-py3"):
        found.require(ENGINES["vllm"])
