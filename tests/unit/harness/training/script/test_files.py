"""A script's files where the trial runs."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from plumbline.declarations.workloads.script import ScriptTask
from plumbline.harness.measurement import TrialFailed
from plumbline.harness.training.script.files import place_files, start_folder


def task(**fields: Any) -> ScriptTask:
    given = {"kind": "script", "command": ["python", "train.py"], "report": {"format": "nanogpt"}} | fields
    return ScriptTask.model_validate_json(json.dumps(given))


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    return subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, str]:
    """A repository of two commits, and the first one."""
    folder = tmp_path / "repository"
    (folder / "gpt").mkdir(parents=True)
    (folder / "gpt" / "train.py").write_text("print(1)\n")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    first = git(folder, "rev-parse", "HEAD")
    (folder / "gpt" / "train.py").write_text("print(2)\n")
    git(folder, "commit", "-qam", "second")
    return folder, first


def test_a_commit_is_fetched_and_hashed_by_its_files(tmp_path: Path, repository: tuple[Path, str]) -> None:
    folder, first = repository
    fetched = task(files={"source": "git", "url": str(folder), "commit": first, "path": "gpt"})
    sha256 = place_files(fetched, tmp_path / "one")
    assert (start_folder(fetched, tmp_path / "one") / "train.py").read_text() == "print(1)\n"
    assert place_files(fetched, tmp_path / "again") == sha256
    second = task(files={"source": "git", "url": str(folder), "commit": git(folder, "rev-parse", "HEAD")})
    assert place_files(second, tmp_path / "two") != sha256


@pytest.mark.fault("the commit of a training script is in no repository", ends="bad_declaration", keeps="nothing on the machine")
@pytest.mark.parametrize(
    ("changed", "failure_class", "words"),
    [
        ({"commit": "f" * 40}, "bad_declaration", "has no commit ffff"),
        ({"path": "other"}, "bad_declaration", "has no folder other"),
        ({"url": "/nowhere/at/all"}, "unreachable", "cannot be fetched"),
    ],
)
def test_what_cannot_be_fetched(
    tmp_path: Path, repository: tuple[Path, str], changed: dict[str, str], failure_class: str, words: str
) -> None:
    files = {"source": "git", "url": str(repository[0]), "commit": repository[1]} | changed
    with pytest.raises(TrialFailed, match=words) as caught:
        place_files(task(files=files), tmp_path / "one")
    assert caught.value.failure_class == failure_class


def test_files_of_the_image_are_copied(tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.mkdir()
    (image / "train.py").write_text("print(1)\n")
    (image / "link").symlink_to("train.py")
    sha256 = place_files(task(folder=str(image)), tmp_path / "one")
    assert (tmp_path / "one" / "link").is_symlink()
    (image / "train.py").write_text("print(2)\n")
    assert place_files(task(folder=str(image)), tmp_path / "two") != sha256
    with pytest.raises(TrialFailed, match=r"task.folder /nowhere is no folder"):
        place_files(task(folder="/nowhere"), tmp_path / "three")


@pytest.mark.fault("the image's folder of a script has a pipe or a device", ends="bad_declaration", keeps="the trial's document")
def test_a_pipe_in_the_images_folder(tmp_path: Path) -> None:
    folder = tmp_path / "image"
    folder.mkdir()
    (folder / "train.py").write_text("")
    os.mkfifo(folder / "pipe")
    with pytest.raises(
        TrialFailed, match=r"task\.folder \S+image cannot be copied: \S+pipe is no file, folder or link; expected such alone"
    ):
        place_files(task(folder=str(folder)), tmp_path / "files")
