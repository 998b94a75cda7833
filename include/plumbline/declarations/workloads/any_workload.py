"""Every kind of workload as one type, and the class of a declaration."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Tag

from plumbline.declarations.workloads.container import ContainerWorkload
from plumbline.declarations.workloads.inference import InferenceWorkload
from plumbline.declarations.workloads.script import ScriptWorkload
from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.declarations.workloads.workload import Workload

AnyWorkload = TrainingWorkload | ScriptWorkload | ContainerWorkload | InferenceWorkload
OF_TASK: dict[str, type[Workload]] = {"script": ScriptWorkload, "container": ContainerWorkload}
"""By task.kind, the class of a training declaration that describes no model of ours; TrainingWorkload of all others."""


def class_of_training(data: Any) -> type[Workload]:
    """The class of a training workload's data."""
    kind = _part(_part(data, "task"), "kind")
    return OF_TASK.get(kind, TrainingWorkload) if isinstance(kind, str) else TrainingWorkload


def _tag(workload: Any) -> str | None:
    kind = _part(workload, "kind")
    return class_of_training(workload).__name__ if kind == "training" else InferenceWorkload.__name__ if kind == "inference" else None


def _part(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


# Tagged by the class, which the JSON Schema names too: messages find the shape of a field by it.
TaggedWorkload = Annotated[
    Annotated[TrainingWorkload, Tag(TrainingWorkload.__name__)]
    | Annotated[ScriptWorkload, Tag(ScriptWorkload.__name__)]
    | Annotated[ContainerWorkload, Tag(ContainerWorkload.__name__)]
    | Annotated[InferenceWorkload, Tag(InferenceWorkload.__name__)],
    Discriminator(_tag),
]
"""AnyWorkload as a field, whose class follows from kind and task.kind."""
