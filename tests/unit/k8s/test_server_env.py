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


@pytest.mark.parametrize("arguments", [[], ["--store"]])
def test_it_makes_whatever_the_compose_file_asks_for(server_env: ModuleType, tmp_path: Path, arguments: list[str]) -> None:
    file = tmp_path / ".env"
    assert server_env.main([*arguments, "--file", str(file)]) == 0
    made = values(file.read_text())
    asked = set(re.findall(r"\$\{(\w+):\?", (ROOT / "docker-compose.yaml").read_text()))
    assert len(asked) >= 7
    # A store's image is for its profile alone; Compose reads the file's every line whatever the profile.
    assert {name for name in asked if not made.get(name)} == server_env.IMAGES.keys() - server_env.PROFILES.keys()
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


DIGEST = "@sha256:" + "ab" * 32


@pytest.fixture(autouse=True)
def no_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COMPOSE_PROFILES", raising=False)


def fake_docker(folder: Path, gone: str = "none", digest: str = DIGEST) -> str:
    """Has every image but those whose names begin with `gone`; the images that were pulled are in `folder`/pulled."""
    program = folder / "docker"
    program.write_text(
        "#!/bin/sh\n"
        f'for image; do :; done\ncase "$image" in {gone}*) echo "manifest unknown" >&2; exit 1;; esac\n'
        f'if [ "$1" = pull ]; then echo "$image" >>"{folder}/pulled"; else echo "any{digest}"; fi\n'
    )
    program.chmod(0o755)
    return str(program)


def test_the_images_are_pinned_by_digest_and_pinned_again(server_env: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / ".env"
    kept = {"PLUMBLINE_FERNET_KEY": "precious=", "COMPOSE_PROFILES": "demo,store,minio"}
    file.write_text("# note\nPLUMBLINE_FERNET_KEY=precious=\nCOMPOSE_PROFILES=demo,store,minio\nPLUMBLINE_POSTGRES_IMAGE=postgres@old\n")
    for _ in range(2):
        assert server_env.pin(file, fake_docker(tmp_path)) == 0
        assert values(file.read_text()) == {**kept, **dict.fromkeys(server_env.IMAGES, f"any{DIGEST}")}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and file.read_text().startswith("# note\n")


def test_without_its_profile_an_image_is_neither_pulled_nor_needed(server_env: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("PLUMBLINE_MINIO_IMAGE=minio@old\n#COMPOSE_PROFILES=minio\n")
    assert server_env.pin(file, fake_docker(tmp_path, "[!p]")) == 0
    assert values(file.read_text()) == {"PLUMBLINE_MINIO_IMAGE": "minio@old", "PLUMBLINE_POSTGRES_IMAGE": f"any{DIGEST}"}
    assert (tmp_path / "pulled").read_text().splitlines() == ["postgres:17"]


@pytest.mark.parametrize(
    ("gone", "profile", "written", "consequence"),
    [
        ("ghcr.io/versity", "store", "PLUMBLINE_POSTGRES_IMAGE", "profile store cannot start"),
        ("postgres", "store", "PLUMBLINE_STORE_IMAGE", "the team server cannot start"),
        ("quay.io/minio", "minio", "PLUMBLINE_POSTGRES_IMAGE", "profile minio cannot start"),
    ],
)
def test_an_image_that_is_gone_is_named_and_the_others_are_written(
    server_env: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], gone: str, profile: str, written: str, consequence: str
) -> None:
    file = tmp_path / ".env"
    file.write_text(f"COMPOSE_PROFILES={profile}\n")
    assert server_env.pin(file, fake_docker(tmp_path, gone)) == 1
    assert values(file.read_text()) == {"COMPOSE_PROFILES": profile, written: f"any{DIGEST}"}
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(gone) and consequence in line


def test_a_digest_set_by_hand_stays_where_the_image_is_gone(
    server_env: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / ".env"
    file.write_text(f"COMPOSE_PROFILES=minio\nPLUMBLINE_MINIO_IMAGE=quay.io/minio/minio{DIGEST}\n")
    assert server_env.pin(file, fake_docker(tmp_path, "quay.io/minio")) == 0
    assert values(file.read_text())["PLUMBLINE_MINIO_IMAGE"] == f"quay.io/minio/minio{DIGEST}"
    assert "remains quay.io/minio/minio@" in capsys.readouterr().err


def test_an_image_that_docker_knows_by_no_digest_is_missing(server_env: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("")
    assert server_env.pin(file, fake_docker(tmp_path, digest=":17")) == 1
    assert file.read_text() == ""


def test_profiles_of_the_environment_precede_the_files(server_env: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPOSE_PROFILES", "store,minio")
    file = tmp_path / ".env"
    file.write_text("COMPOSE_PROFILES=demo\n")
    assert server_env.pin(file, fake_docker(tmp_path)) == 0
    assert values(file.read_text()).keys() == {"COMPOSE_PROFILES", *server_env.IMAGES}


def test_without_docker_nothing_is_written(server_env: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / ".env"
    file.write_text("PLUMBLINE_FERNET_KEY=precious\n")
    assert server_env.pin(file, str(tmp_path / "no-docker")) == 2
    assert file.read_text() == "PLUMBLINE_FERNET_KEY=precious\n" and "no-docker" in capsys.readouterr().err


def test_no_secret_has_a_default_and_none_stands_in_the_repository() -> None:
    text = (ROOT / "docker-compose.yaml").read_text()
    named = re.findall(r"\$\{(\w*(?:PASSWORD|SECRET|KEY)\w*)([^}]*)\}", text)
    assert len(named) >= 8
    # Empty without the setting: then the pages have no key of the store.
    assert [name for name, rest in named if rest not in (":?run make server-env", ":-")] == []
    literal = re.findall(r"^\s*\w*(?:PASSWORD|SECRET|KEY)\w*:[ ]*([^$\s].*)$", text, re.MULTILINE)
    assert literal == []
    assert "/.env" in (ROOT / ".gitignore").read_text().splitlines()
    assert ".env" in (ROOT / ".dockerignore").read_text().splitlines()
