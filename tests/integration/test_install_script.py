"""`k8s/images/install.sh packages` in a folder that stands for an image's root, over a base and an index of packages made by hand."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cluster.images import ROOT

DIGEST = "registry.example.com/base@sha256:" + "a" * 64
Install = Callable[..., subprocess.CompletedProcess[str]]


def wheel(folder: Path, name: str, version: str, *requires: str) -> Path:
    """A package whose module knows its version."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    needs = "".join(f"Requires-Dist: {each}\n" for each in requires)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}/__init__.py", f"__version__ = {version!r}\n")
        archive.writestr(f"{name}-{version}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        archive.writestr(f"{name}-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{name}-{version}.dist-info/RECORD", "")
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Locks of three packages and what they name; no base yet."""
    root, wheels = tmp_path / "root", tmp_path / "wheels"
    for folder in ("locks", "etc", "tmp"):
        (root / folder).mkdir(parents=True)
    for name in ("group", "passwd"):
        (root / "etc" / name).write_text("root:x:0:0::/root:/bin/sh\n")
    packages = [wheel(wheels, "pydantic", "2.14.3"), wheel(wheels, "fsspec", "2026.9.0"), wheel(wheels, "peft", "0.21.2", "torch")]
    locks = {
        path.name.split("-")[0]: f"=={path.name.split('-')[1]} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"
        for path in packages
    }
    (root / "locks" / "image.txt").write_text("".join(f"{name}{locks[name]}" for name in ("pydantic", "fsspec")))
    (root / "locks" / "training.txt").write_text(f"peft{locks['peft']}")
    (root / "locks" / "torch.txt").write_text("torch==2.13.0\n")
    return root


@pytest.fixture
def install(root: Path, tmp_path: Path) -> Install:
    base = tmp_path / "base"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(base)], check=True)

    def packages(*locks: str, image: str = DIGEST, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": f"{base}/bin:/usr/bin:/bin", "IMAGE_ROOT": str(root), "BASE": image, "HOME": str(tmp_path)}
        environment |= {"PIP_FIND_LINKS": str(tmp_path / "wheels"), "PIP_CONFIG_FILE": "/dev/null"} | variables
        command = ["sh", str(ROOT / "k8s" / "images" / "install.sh"), "packages", *locks]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    return packages


def has(base: Path, **versions: str) -> None:
    (site,) = (base / "lib").glob("python3*/site-packages")
    for name, version in versions.items():
        (site / name).mkdir()
        (site / name / "__init__.py").write_text(f"__version__ = {version!r}\n")


def versions(program: Path, *names: str) -> list[str]:
    code = "".join(f"import {name}; print({name}.__version__)\n" for name in names)
    return subprocess.run([str(program), "-c", code], env={}, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.full
def test_the_bases_packages_are_shadowed_by_none_of_ours(root: Path, install: Install, tmp_path: Path) -> None:
    has(tmp_path / "base", torch="2.9.1", pydantic="2.11.10")
    done = install("torch.txt", "training.txt", PIP_NO_INDEX="1")
    assert done.returncode == 0, done.stderr
    binaries = root / "opt/plumbline/bin"
    assert versions(binaries / "engine-python", "torch", "pydantic", "peft", "fsspec") == ["2.9.1", "2.11.10", "0.21.2", "2026.9.0"]
    assert versions(binaries / "python", "pydantic") == ["2.14.3"]
    alone = subprocess.run([str(binaries / "python"), "-c", "import torch"], env={}, capture_output=True, check=False)
    assert alone.returncode != 0, "the harness's own environment sees nothing of the base"
    assert [line.split(":")[2] for line in (root / "etc/passwd").read_text().splitlines()] == ["0", "10001"]


@pytest.mark.full
def test_a_base_without_torch_gets_one_with_its_libraries_from_the_named_index(root: Path, install: Install, tmp_path: Path) -> None:
    index = tmp_path / "index"
    for name, path in {
        "torch": wheel(index / "torch", "torch", "2.13.0", "nvidia_nccl"),
        "nvidia-nccl": wheel(index / "nvidia-nccl", "nvidia_nccl", "2.28.9"),
    }.items():
        (index / name / "index.html").write_text(f'<a href="{path.name}">{path.name}</a>')
    done = install("torch.txt", TORCH_INDEX=index.as_uri(), PIP_INDEX_URL=(tmp_path / "nothing").as_uri())
    assert done.returncode == 0, done.stderr
    for program in ("python", "engine-python"):
        assert versions(root / "opt/plumbline/bin" / program, "torch", "nvidia_nccl") == ["2.13.0", "2.28.9"]


@pytest.mark.parametrize("image", ["nvcr.io/nvidia/pytorch:25.10-py3", ""])
def test_a_base_without_a_digest_is_refused(install: Install, image: str) -> None:
    done = install(image=image)
    assert done.returncode == 2 and "by digest" in done.stderr


@pytest.mark.full
def test_torch_by_its_hash_is_the_one_that_is_meant(root: Path, install: Install, tmp_path: Path) -> None:
    made = wheel(tmp_path / "index" / "torch", "torch", "2.13.0")
    (made.parent / "index.html").write_text(f'<a href="{made.name}">{made.name}</a>')
    index = {"TORCH_INDEX": (tmp_path / "index").as_uri(), "PIP_INDEX_URL": (tmp_path / "nothing").as_uri()}
    done = install("torch.txt", **index, TORCH_SHA256="0" * 64)
    assert done.returncode != 0 and "THESE PACKAGES DO NOT MATCH THE HASHES" in done.stderr
    done = install("torch.txt", **index, TORCH_SHA256=hashlib.sha256(made.read_bytes()).hexdigest())
    assert done.returncode == 0, done.stderr
    assert versions(root / "opt/plumbline/bin/python", "torch") == ["2.13.0"]
