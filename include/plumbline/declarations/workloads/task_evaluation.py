"""Tasks of EleutherAI's lm-eval that a served model must solve: public ones by name, own ones from a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from plumbline.declarations.base import Declared
from plumbline.metrics.units import Percent

MAX_FILE_BYTES = 2**19
"""Of an own folder's files together: a trial carries them."""
_SUFFIXES = (".yaml", ".yml", ".json", ".jsonl", ".csv", ".txt", ".py")
TaskName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]*$", max_length=100)]


class TaskEvaluation(Declared):
    """What `lm_eval` of an evaluation asks. A task, or a group of tasks, gives one accuracy over all its questions.

    `folder`: in `evaluations/` beside the declarations, with YAML files of further tasks and their data. Its content becomes `files` when
    declarations are read, so that a trial carries its tasks and their hash."""

    tasks: tuple[TaskName, ...] = Field(min_length=1, max_length=64, description="names of tasks or groups, such as arc_easy")
    folder: str | None = Field(None, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)*$")
    limit: int | None = Field(None, ge=1, le=1_000_000, description="first questions of each task; all if omitted")
    few_shot: int | None = Field(None, ge=0, le=64, description="solved examples before a question; the task's own number if omitted")
    chat: bool = Field(False, description="through the chat template, examples as turns")
    accuracy: dict[TaskName, Annotated[Percent, Field(gt=0, le=1)]] = Field(
        default_factory=dict, description="by task: share of right answers below which a trial is invalid"
    )
    lost: Percent | None = Field(
        None, ge=0, le=1, description="percentage points below the reference's accuracy of any task beyond which a trial is invalid"
    )
    files: dict[str, str] | None = None

    @field_validator("tasks")
    @classmethod
    def _distinct(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        names = [metric_of(name) for name in value]
        for i, name in enumerate(names):
            if name in names[:i]:
                raise ValueError(f"{value[names.index(name)]} and {value[i]} have one metric, {name}; expected distinct names")
        return value

    @model_validator(mode="after")
    def _limits_of_tasks(self) -> TaskEvaluation:
        for name in self.accuracy:
            if name not in self.tasks:
                raise ValueError(f"accuracy names {name}; expected one of tasks: {', '.join(self.tasks)}")
        return self


def metric_of(task: str) -> str:
    """The metric of a task's accuracy: `task_accuracy_arc_easy`."""
    return f"task_accuracy_{re.sub(r'[^a-z0-9]+', '_', task.lower())}"


def load_tasks(data: Any, folder: Path) -> list[tuple[tuple[str | int, ...], str]]:
    """Add the content of `evaluation.lm_eval.folder` to an inference workload's data; its problems, by field."""
    evaluation = data.get("evaluation") if isinstance(data, dict) else None
    declared = evaluation.get("lm_eval") if isinstance(evaluation, dict) else None
    if not isinstance(declared, dict):
        return []
    where = ("evaluation", "lm_eval")
    if "files" in declared:
        return [((*where, "files"), "files are read from the folder; expected folder alone")]
    try:
        name = TaskEvaluation.model_validate_json(json.dumps(declared)).folder
    except (TypeError, ValidationError):
        return []  # its own check reports it
    if name is None:
        return []
    own = folder / name
    if not own.is_dir():
        return [((*where, "folder"), f"{name} is not a folder; expected one in {folder.name}/ with YAML files of lm-eval's tasks")]
    try:
        files = dict(sorted(_files(own)))
    except (OSError, UnicodeDecodeError) as error:
        return [((*where, "folder"), f"{name} cannot be read ({error}); expected text files")]
    if problem := next(_problems(name, files), None):
        return [((*where, "folder"), problem)]
    declared["files"] = files
    return []


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix in _SUFFIXES and not any(part.startswith((".", "__")) for part in path.relative_to(folder).parts):
            yield path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8")


def _problems(name: str, files: dict[str, str]) -> Iterator[str]:
    tasks = [path for path in files if path.endswith((".yaml", ".yml"))]
    if not tasks:
        yield f"{name} has no .yaml file; expected YAML files of lm-eval's tasks"
    if (size := sum(len(text.encode()) for text in files.values())) > MAX_FILE_BYTES:
        yield f"{name} has {size:,} bytes of files; expected at most {MAX_FILE_BYTES:,}: a trial carries them"
    for path in tasks:
        try:
            root = yaml.compose(files[path], Loader=yaml.SafeLoader)
        except yaml.YAMLError as error:
            yield f"{name}/{path} is not YAML ({' '.join(str(error).split())}); expected a task of lm-eval"
            continue
        if not isinstance(root, yaml.MappingNode):
            yield f"{name}/{path} is not a mapping; expected a task of lm-eval, with task: and dataset_path:"
            continue
        for data in _data_files(root):
            if "://" not in data and data not in files and not any(c in data for c in "*?["):
                yield f"{name}/{path} reads {data}, which is not in {name}; expected its path from that folder"


def _data_files(root: yaml.MappingNode) -> Iterator[str]:
    """Paths in dataset_kwargs.data_files, which is a path, a list of paths, or a mapping of splits to either."""
    for step in ("dataset_kwargs", "data_files"):
        found = next((value for key, value in root.value if key.value == step), None)
        if isinstance(found, yaml.MappingNode):
            root = found
            continue
        yield from _scalars(found) if step == "data_files" else ()
        return
    yield from _scalars(root)


def _scalars(node: yaml.Node | None) -> Iterator[str]:
    if isinstance(node, yaml.ScalarNode):
        yield str(node.value)
    elif isinstance(node, yaml.SequenceNode):
        for each in node.value:
            yield from _scalars(each)
    elif isinstance(node, yaml.MappingNode):
        for _, each in node.value:
            yield from _scalars(each)
