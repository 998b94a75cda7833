"""A trial carries a script's folder: the same files give the same hash everywhere, and come out as they went in."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plumbline.declarations.workloads import script_files
from plumbline.declarations.workloads.script import PRIVATE_FOLDER, FolderFiles
from plumbline.declarations.workloads.script_files import copy_packed, folder_hash, load_files, packed_files, unpack
from plumbline.formats.reading.text_file import UnusableFile


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a script with a module, a program and a link."""
    made = tmp_path / "scripts" / "train"
    (made / "model").mkdir(parents=True)
    (made / "train.py").write_text("import model\n")
    (made / "model" / "__init__.py").write_text("WIDTH = 8\n")
    (made / "model" / "größe.txt").write_bytes(bytes(range(256)))
    (made / "run.sh").write_text("#!/bin/sh\n")
    (made / "run.sh").chmod(0o750)
    (made / "latest").symlink_to("model")
    return made


def read(folder: Path, **task: Any) -> tuple[FolderFiles | None, list[str]]:
    """The files as a declaration beside the folder gets them, and its problems."""
    data: dict[str, Any] = {"task": {"files": {"source": "folder", "path": folder.name}, **task}}
    problems = load_files(data, folder.parent)
    return None if problems else FolderFiles.model_validate_json(json.dumps(data["task"]["files"])), [text for _, text in problems]


def packed(folder: Path) -> FolderFiles:
    files, problems = read(folder)
    assert files is not None, problems
    return files


def test_files_come_out_as_they_went_in(folder: Path, tmp_path: Path) -> None:
    files, into = packed(folder), tmp_path / "there"
    into.mkdir()
    unpack(files, into)
    assert {p.relative_to(into).as_posix() for p in into.rglob("*")} == {p.relative_to(folder).as_posix() for p in folder.rglob("*")}
    assert (into / "model" / "größe.txt").read_bytes() == bytes(range(256))
    assert (os.access(into / "run.sh", os.X_OK), os.access(into / "train.py", os.X_OK)) == (True, False)
    assert (into / "latest").readlink() == Path("model")
    assert folder_hash(into) == folder_hash(folder) == files.sha256


def test_neither_times_nor_who_may_read_count(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "train"
    shutil.copytree(folder, other, symlinks=True)
    (other / ".git").mkdir()
    (other / ".git" / "HEAD").write_text("main")
    (other / "model" / "__pycache__").mkdir()
    (other / "model" / "__pycache__" / "x.pyc").write_text("x")
    (other / "empty").mkdir()
    (other / "train.py").chmod(0o600)
    os.utime(other / "train.py", (1, 1))
    assert packed(other) == packed(folder)


def rename(folder: Path) -> None:
    (folder / "train.py").rename(folder / "main.py")


def edit(folder: Path) -> None:
    (folder / "train.py").write_text("import modal\n")


def execute(folder: Path) -> None:
    (folder / "train.py").chmod(0o755)


def relink(folder: Path) -> None:
    (folder / "latest").unlink()
    (folder / "latest").symlink_to("train.py")


@pytest.mark.parametrize("change", [rename, edit, execute, relink])
def test_each_change_is_another_hash(folder: Path, change: Callable[[Path], None]) -> None:
    before = packed(folder)
    change(folder)
    assert packed(folder).sha256 != before.sha256


def absolute(folder: Path) -> None:
    (folder / "passwords").symlink_to("/etc/passwd")


def leaving(folder: Path) -> None:
    (folder / "outside").symlink_to("model/../../..")


def circle(folder: Path) -> None:
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def large(folder: Path) -> None:
    (folder / "weights.bin").write_bytes(os.urandom(1_100_000))


def huge(folder: Path) -> None:
    with (folder / "data.bin").open("wb") as file:
        file.truncate(40 * 2**20)


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def missing(folder: Path) -> None:
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (absolute, "train/passwords is a link to /etc/passwd; expected links that stay in the folder"),
        (leaving, "train/outside is a link to model/../../..; expected links that stay in the folder"),
        (pipe, "train/pipe is no file, folder or link"),
        (large, "expected at most 1,048,576: weights.bin (1,100,000 bytes), "),
        (huge, "expected at most 33,554,432: data.bin (41,943,040 bytes), "),
        (empty, "train holds no file; expected the script's files"),
        (missing, "train is not a folder of scripts/"),
    ],
)
def test_a_folder_that_no_trial_can_carry(folder: Path, change: Callable[[Path], None], said: str) -> None:
    change(folder)
    files, problems = read(folder)
    assert files is None and len(problems) == 1 and said in problems[0]


def test_links_in_a_circle_are_one_problem_or_none(folder: Path) -> None:
    circle(folder)  # Python before 3.13 refuses to resolve them
    assert len(read(folder)[1]) <= 1


def test_damaged_content_is_no_trial(folder: Path, tmp_path: Path) -> None:
    files = packed(folder)
    assert files.content is not None
    for content in (files.content[: len(files.content) // 2], "no base64", files.content[:40] + "AAAA" + files.content[44:]):
        with pytest.raises(UnusableFile, match=r"task\.files\.content is damaged"):
            unpack(files.model_copy(update={"content": content}), tmp_path / "damaged")
    with pytest.raises(UnusableFile, match="which the trial was planned with"):
        unpack(files.model_copy(update={"sha256": "0" * 64}), tmp_path / "other")


def test_private_files_stay_where_they_are(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, _ = read(folder, private=True)
    assert files is not None and files.content is None and files.sha256 == packed(folder).sha256
    monkeypatch.setenv(PRIVATE_FOLDER, str(folder.parent))
    into = tmp_path / "there"
    into.mkdir()
    unpack(files, into)
    assert folder_hash(into) == files.sha256
    edit(folder)
    with pytest.raises(UnusableFile, match="which the trial was planned with"):
        unpack(files, tmp_path / "again")
    monkeypatch.setenv(PRIVATE_FOLDER, str(tmp_path / "nothing"))
    with pytest.raises(UnusableFile, match="train is not a folder of nothing/"):
        unpack(files, tmp_path / "nowhere")


@pytest.mark.parametrize(
    "file", [".env", ".env.local", ".netrc", "model/id_rsa", "deploy.pem", ".aws/credentials", "my-service-account.json"]
)
def test_credentials_are_packed_into_no_trial(folder: Path, file: str) -> None:
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_text("TOKEN=x\n")
    files, (problem,) = read(folder)
    assert files is None and problem.startswith(f"train holds credentials, which every trial's documents would show: {file}; expected")
    assert read(folder, private=True)[1] == [], "documents hold its hash alone"
    with pytest.raises(UnusableFile, match="holds credentials"):
        packed_files(folder)


def test_what_a_trial_would_carry(folder: Path) -> None:
    (folder / ".env.example").write_text("TOKEN=\n")
    assert packed_files(folder) == [
        (".env.example", 7), ("latest", 5), ("model/__init__.py", 10), ("model/größe.txt", 256), ("run.sh", 10), ("train.py", 13),
    ]  # fmt: skip


def test_what_gitignore_names_is_not_packed(folder: Path) -> None:
    before = packed(folder)
    (folder / ".gitignore").write_text("*.env\n!kept.env\n/data/\nlogs/\n")
    (folder / "data").mkdir()
    for name in ("my.env", "data/train.bin", "model/logs/a.txt", "model/data/kept.txt", "model/other.bin"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x" * 10)
    (folder / "model" / ".gitignore").write_text("*.bin\n")
    names = [name for name, _ in packed_files(folder)]
    assert names == sorted(
        [".gitignore", "latest", "model/.gitignore", "model/__init__.py", "model/data/kept.txt", "model/größe.txt", "run.sh", "train.py"],
        key=os.fsencode,
    )
    assert packed(folder).sha256 != before.sha256


def test_ignored_files_change_no_hash_and_come_out_nowhere(folder: Path, tmp_path: Path) -> None:
    (folder / ".gitignore").write_text(".env\n")
    before = packed(folder)
    (folder / ".env").write_text("HF_TOKEN=hunter2")
    after, into, copied = packed(folder), tmp_path / "there", tmp_path / "copied"
    assert after == before
    into.mkdir()
    unpack(after, into)
    copy_packed(folder, copied)
    for place in (into, copied):
        assert not (place / ".env").exists() and folder_hash(place) == before.sha256
    (into / ".env").write_text("")  # where the trial runs all files count
    assert folder_hash(into, unpacked=True) != before.sha256


def test_a_private_folder_is_packed_by_the_same_rule(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / ".gitignore").write_text("*.log\n")
    (folder / "a.log").write_text("x")
    files, problems = read(folder, private=True)
    assert files is not None and files.content is None, problems
    monkeypatch.setenv(PRIVATE_FOLDER, str(folder.parent))
    into = tmp_path / "there"
    into.mkdir()
    unpack(files, into)
    assert not (into / "a.log").exists()


@pytest.mark.fault("scripts/x is a link to a folder outside", ends="refused", keeps="what lies outside")
def test_a_folder_behind_a_link_is_not_packed(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "notes.txt").write_text("of others")
    link = folder.parent / "other"
    link.symlink_to(outside)
    assert read(link)[1] == ["other is, or lies behind, a link out of scripts/; expected a folder of scripts/ itself"]
    inside = folder.parent / "inside"
    inside.symlink_to(folder)
    assert packed(inside).sha256 == packed(folder).sha256


def test_the_root_is_no_folder_of_a_script() -> None:
    with pytest.raises(UnusableFile, match="/ is the root of the file system; expected the folder with the script's files"):
        packed_files(Path("/"))


def test_too_many_files_end_the_search(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_files, "_MOST_FILES", 3)
    with pytest.raises(UnusableFile, match="train holds more than 3 files"):
        packed_files(folder)


@pytest.mark.parametrize("text", ["hf_" + "q" * 34, "https://me:" + "hunter2@host/x", "AKIA" + "IOSFODNN7EXAMPLE"])
def test_keys_in_the_contents_are_refused_by_their_shape(folder: Path, text: str) -> None:
    (folder / "conf.yaml").write_text(f"a: 1\nkey: {text}\n")
    [problem] = read(folder)[1]
    assert problem.startswith("train holds credentials") and "conf.yaml (a" in problem and text not in problem
