"""The team server's first step says what it lacks. Its way to success is in tests/integration/test_compose.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from plumbline.embedded import team_server


def test_without_the_first_users_password_it_says_where_it_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_ADMIN_USER", "admin")
    monkeypatch.delenv("PLUMBLINE_ADMIN_PASSWORD", raising=False)
    with pytest.raises(team_server.StepFailed, match=r"PLUMBLINE_ADMIN_PASSWORD .*`make server-env`"):
        team_server._first_user()


def test_the_first_step_that_fails_ends_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", f"sqlite:///{tmp_path / 'missing' / 'airflow.db'}")
    assert team_server.main() == team_server.FAILED
    said = capfd.readouterr()
    assert "`airflow db migrate`" in said.err
    assert "the archive" not in said.out


@pytest.mark.fault("an image of the team server is named by a tag", ends="refused", keeps="the image that was looked at")
@pytest.mark.parametrize(
    ("images", "refused"), [("postgres:17 minio@sha256:" + "ab" * 32, "postgres:17 in .env"), ("postgres@sha256:12", "in .env")]
)
def test_an_image_without_a_digest_is_refused(monkeypatch: pytest.MonkeyPatch, images: str, refused: str) -> None:
    monkeypatch.setenv("PLUMBLINE_SERVER_IMAGES", images)
    with pytest.raises(team_server.StepFailed, match=refused):
        team_server._images()


@pytest.mark.parametrize("images", ["", "postgres@sha256:" + "ab" * 32])
def test_images_by_digest_or_none_to_look_at_pass(monkeypatch: pytest.MonkeyPatch, images: str) -> None:
    monkeypatch.setenv("PLUMBLINE_SERVER_IMAGES", images)
    team_server._images()


@pytest.mark.fault("another process reads the arguments of server_init's commands", ends="refused", keeps="the first user's password")
def test_no_password_is_on_a_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, str]] = []
    commands: list[object] = []
    monkeypatch.setenv("PLUMBLINE_ADMIN_USER", "boss")
    monkeypatch.setenv("PLUMBLINE_ADMIN_PASSWORD", "-secret")
    monkeypatch.setattr(team_server, "make_first_user", lambda user, password: made.append((user, password)) or True)
    monkeypatch.setattr(team_server.subprocess, "run", lambda *words, **_: commands.append(words))
    team_server._first_user()
    assert made == [("boss", "-secret")] and commands == []
