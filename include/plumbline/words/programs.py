"""What a workload of a team's own runs: its script by repository and commit, its container by command and image, and the numbers that it declares."""

from __future__ import annotations

import shlex

from plumbline.declarations import AnyWorkload
from plumbline.declarations.workloads.container import ContainerTask
from plumbline.declarations.workloads.script import FolderFiles, GitFiles, ScriptTask

_COMMIT, _DIGEST = 12, 12
_BETTER = {"higher": "higher is better", "lower": "lower is better", "none": "informative"}


def program_text(workload: AnyWorkload) -> str:
    """What it runs and from where, such as `python train.py of https://… at commit 0123456789ab`; empty for a workload of Plumbline's own."""
    task = getattr(workload, "task", None)
    if isinstance(task, ScriptTask):
        return f"{shlex.join(task.command)} of {_files(task.files, task.folder)}{_image(task.image)}"
    if isinstance(task, ContainerTask):
        return f"{shlex.join(task.command)}{_image(task.image)}"
    return ""


def declared_numbers(workload: AnyWorkload) -> tuple[str, ...]:
    """Each number that a container declares by its own name, with unit and better side."""
    found = workload.declared_metrics.items()
    return tuple(f"{name} in {'no unit' if each.unit == '1' else each.unit}, {_BETTER[each.better]}" for name, each in found)


def _files(files: GitFiles | FolderFiles | None, folder: str | None) -> str:
    if isinstance(files, GitFiles):
        inside = f", folder {files.path}" if files.path not in (None, "", ".") else ""
        return f"{files.url} at commit {files.commit[:_COMMIT]}{inside}"
    return f"scripts/{files.path}" if isinstance(files, FolderFiles) else f"the folder {folder}"


def _image(image: str | None) -> str:
    if image is None:
        return ""
    name, _, digest = image.partition("@sha256:")
    return f" in {name}@{digest[:_DIGEST]}"
