from __future__ import annotations

from pathlib import Path

import pytest

from plumbline.harness.environment import software


def package(folder: Path, name: str, version: str) -> None:
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def test_engines_of_the_images_own_python_are_named(tmp_path: Path) -> None:
    site = tmp_path / "usr/local/lib/python3.12/dist-packages"
    for name, version in {"vllm": "0.11.0", "flash-attn": "2.8.3", "transformer_engine": "2.8.0", "pytorch-triton": "3.5.0"}.items():
        package(site, name, version)
    found = software.software_facts(tmp_path)
    names = ("vllm", "flash_attn", "transformer_engine", "triton_compiler", "tensorrt_llm")
    assert [found[f"{name}.version"] for name in names] == ["0.11.0", "2.8.3", "2.8.0", "3.5.0", None]


def test_this_interpreters_package_goes_before_the_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path / "usr/lib/python3/dist-packages", "torchao", "0.12.0")
    assert software.software_facts(tmp_path)["torchao.version"] == "0.12.0"
    package(tmp_path / "own", "torchao", "0.14.0")
    monkeypatch.syspath_prepend(str(tmp_path / "own"))
    assert software.software_facts(tmp_path)["torchao.version"] == "0.14.0"
