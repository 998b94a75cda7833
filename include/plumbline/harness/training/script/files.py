"""A script's files where the trial runs: unpacked, cloned or copied once, hashed, and given to each stretch of training as a fresh copy."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

from plumbline.declarations.workloads.script import FolderFiles, GitFiles, ScriptTask
from plumbline.declarations.workloads.script_files import unpack
from plumbline.formats.reading.text_file import UnusableFile
from plumbline.harness.measurement import TrialFailed
from plumbline.whole_file import sha256_file

_GIT_S = 900.0
_EVERYTHING = ("+refs/heads/*:refs/plumbline/*", "+refs/tags/*:refs/tags/*")


def place_files(task: ScriptTask, into: Path) -> str:
    """The script's files in the new folder `into`, and their SHA-256 (names and contents). TrialFailed if they cannot be had."""
    if isinstance(task.files, FolderFiles):
        into.mkdir()
        try:
            unpack(task.files, into)
        except UnusableFile as error:
            raise TrialFailed("bad_declaration", str(error)) from error
        return str(task.files.sha256)
    if isinstance(task.files, GitFiles):
        _clone(task.files, into)
    else:
        folder = Path(task.folder or "")
        if not folder.is_dir():
            raise TrialFailed(
                "bad_declaration", f"task.folder {folder} is no folder here; expected one of the image, with the script's files"
            )
        try:
            shutil.copytree(folder, into, symlinks=True, copy_function=_copy_file)
        except OSError as error:
            raise TrialFailed("bad_declaration", f"task.folder {folder} cannot be copied: {_first(error)}") from error
    return _hash(into)


def _copy_file(source: str, target: str) -> str:
    """Of files alone: a device has no end, and a pipe waits for a writer."""
    if not stat.S_ISREG(os.lstat(source).st_mode):
        raise OSError(f"{source} is no file, folder or link; expected such alone")
    return shutil.copy2(source, target)


def _first(error: OSError) -> str:
    """One sentence of what copytree collects."""
    collected = error.args[0] if isinstance(error, shutil.Error) and error.args else None
    return str(collected[0][2]) if isinstance(collected, list) and collected else str(error.strerror or error)


def start_folder(task: ScriptTask, place: Path) -> Path:
    """Where the command starts, of files that lie at `place`."""
    return place / task.files.path if isinstance(task.files, GitFiles) and task.files.path else place


def _hash(folder: Path) -> str:
    summed = hashlib.sha256()
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".git")
        for path in (Path(place, name) for name in sorted(names)):
            content = str(path.readlink()) if path.is_symlink() else sha256_file(path)
            summed.update(f"{path.relative_to(folder).as_posix()}\0{content}\0".encode(errors="surrogateescape"))
    return summed.hexdigest()


def _clone(files: GitFiles, into: Path) -> None:
    """The commit alone where the server gives one out, else all of the history."""
    if shutil.which("git") is None:
        raise TrialFailed("image_error", "git is not installed; expected an image with git, for task.files.source git")
    # A question for a password would wait for ever.
    variables = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_SSH_COMMAND": os.environ.get("GIT_SSH_COMMAND", "ssh -oBatchMode=yes")}
    fetched = _git(["init", "-q", str(into)], variables) or _git(
        ["-C", str(into), "fetch", "-q", "--depth", "1", "--", files.url, files.commit], variables
    )
    if fetched is not None and (failure := _git(["-C", str(into), "fetch", "-q", "--", files.url, *_EVERYTHING], variables)) is not None:
        raise TrialFailed("unreachable", f"task.files.url {files.url} cannot be fetched: {failure}")
    if (failure := _git(["-C", str(into), "checkout", "-q", "--detach", files.commit], variables)) is not None:
        raise TrialFailed(
            "bad_declaration", f"{files.url} has no commit {files.commit}: {failure}; expected a commit that was pushed there"
        )
    if files.path is not None and not (into / files.path).is_dir():
        raise TrialFailed(
            "bad_declaration", f"commit {files.commit} of {files.url} has no folder {files.path}; expected task.files.path in it"
        )


def _git(arguments: list[str], variables: Mapping[str, str]) -> str | None:
    """None if git did it, else the last line of what it wrote."""
    try:
        done = subprocess.run(
            ["git", *arguments], env=dict(variables), stdin=subprocess.DEVNULL, capture_output=True, timeout=_GIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"git took longer than {_GIT_S:.0f} s"
    lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit status {done.returncode}"]
    return lines[-1] if done.returncode else None
