"""The generator of the team server's .env."""

from __future__ import annotations

import importlib.util
import re
import stat
from pathlib import Path
from types import ModuleType

import pytest
from cryptography.fernet import Fernet

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def server_env() -> ModuleType:
    spec = importlib.util.spec_from_file_location("server_env", ROOT / "k8s/airflow/server_env.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def values(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#"))


@pytest.mark.parametrize("arguments", [[], ["--minio"]])
def test_it_makes_whatever_the_compose_file_asks_for(server_env: ModuleType, tmp_path: Path, arguments: list[str]) -> None:
    file = tmp_path / ".env"
    assert server_env.main([*arguments, "--file", str(file)]) == 0
    made = values(file.read_text())
    asked = set(re.findall(r"\$\{(\w+):\?", (ROOT / "docker-compose.yaml").read_text()))
    assert len(asked) >= 7
    assert {name for name in asked if not made.get(name)} == set(server_env.IMAGES)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    Fernet(made["PLUMBLINE_FERNET_KEY"])
    assert ("AWS_ENDPOINT_URL" in made) == bool(arguments)


def test_every_secret_is_new_each_time_and_fits_into_an_address(server_env: ModuleType) -> None:
    one, other = values(server_env.settings(True)), values(server_env.settings(True))
    secrets = [name for name in one if name.endswith(("PASSWORD", "SECRET", "KEY"))]
    assert len(secrets) >= 8
    assert [name for name in secrets if one[name] == other[name]] == []
    assert [name for name in secrets if not re.fullmatch(r"[A-Za-z0-9_=-]{18,}", one[name])] == []


def test_a_running_servers_secrets_are_not_replaced(server_env: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / ".env"
    file.write_text("PLUMBLINE_FERNET_KEY=precious\n")
    assert server_env.main(["--file", str(file)]) == 2
    assert file.read_text() == "PLUMBLINE_FERNET_KEY=precious\n"
    assert str(file) in capsys.readouterr().err


def fake_docker(folder: Path, answer: str) -> str:
    program = folder / "docker"
    program.write_text(f'#!/bin/sh\n[ "$1" = pull ] || echo "{answer}"\n')
    program.chmod(0o755)
    return str(program)


def test_the_images_are_pinned_by_digest_and_pinned_again(server_env: ModuleType, tmp_path: Path) -> None:
    file, digest = tmp_path / ".env", "sha256:" + "ab" * 32
    file.write_text("PLUMBLINE_FERNET_KEY=precious\nPLUMBLINE_POSTGRES_IMAGE=postgres@old\n")
    for _ in range(2):
        assert server_env.pin(file, fake_docker(tmp_path, f"any@{digest}")) == 0
        assert values(file.read_text()) == {"PLUMBLINE_FERNET_KEY": "precious", **dict.fromkeys(server_env.IMAGES, f"any@{digest}")}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_without_docker_nothing_is_written(server_env: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / ".env"
    file.write_text("PLUMBLINE_FERNET_KEY=precious\n")
    assert server_env.pin(file, str(tmp_path / "no-docker")) == 2
    assert file.read_text() == "PLUMBLINE_FERNET_KEY=precious\n" and "no-docker" in capsys.readouterr().err


def test_no_secret_has_a_default_and_none_stands_in_the_repository() -> None:
    text = (ROOT / "docker-compose.yaml").read_text()
    named = re.findall(r"\$\{(\w*(?:PASSWORD|SECRET|KEY)\w*)([^}]*)\}", text)
    assert len(named) >= 8
    assert [name for name, rest in named if rest != ":?run make server-env"] == []
    literal = re.findall(r"^\s*\w*(?:PASSWORD|SECRET|KEY)\w*:[ ]*([^$\s].*)$", text, re.MULTILINE)
    assert literal == []
    assert "/.env" in (ROOT / ".gitignore").read_text().splitlines()
    assert ".env" in (ROOT / ".dockerignore").read_text().splitlines()
