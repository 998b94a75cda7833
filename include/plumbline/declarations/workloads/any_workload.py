"""Every kind of workload as one type, the class of a declaration, and kinds that a file of their own adds."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Annotated, Any, get_args

from pydantic import (
    Discriminator,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    Tag,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapSerializer,
    WrapValidator,
)

from plumbline.declarations.base import Extensible
from plumbline.declarations.workloads.container import ContainerWorkload
from plumbline.declarations.workloads.inference import InferenceWorkload
from plumbline.declarations.workloads.script import ScriptWorkload
from plumbline.declarations.workloads.training import OWN_TASKS, TrainingWorkload
from plumbline.declarations.workloads.workload import Workload

AnyWorkload = TrainingWorkload | ScriptWorkload | ContainerWorkload | InferenceWorkload
OF_TASK: dict[str, type[Workload]] = {"script": ScriptWorkload, "container": ContainerWorkload}
"""By task.kind, the class of a training declaration that describes no model of ours; TrainingWorkload of all others. A file of `kinds` adds its own."""
_OWN = get_args(AnyWorkload)
_ROOM = "plumbline.kinds"


def class_of_training(data: Any) -> type[Workload]:
    """The class of a training workload's data."""
    kind = _part(_part(data, "task"), "kind")
    if not isinstance(kind, str):
        return TrainingWorkload
    if kind not in OF_TASK and kind not in OWN_TASKS:
        import_module(_ROOM)  # the room is above this one; its files make their tasks known
    return OF_TASK.get(kind, TrainingWorkload)


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


def _added_class(value: Any) -> type[Workload] | None:
    """The class of a workload whose kind is none of AnyWorkload."""
    made = class_of_training(value) if _part(value, "kind") == "training" else None
    return None if made is None or made in _OWN else made


def _validate(value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    added = _added_class(value)
    if added is None or type(value) is added:
        return handler(value) if added is None else value
    return added.model_validate_json(json.dumps(value)) if info.mode == "json" else added.model_validate(value)


def _serialize(value: Any, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
    return handler(value) if type(value) in _OWN else value.model_dump(mode=info.mode, exclude_defaults=info.exclude_defaults)


# As in `extensible`: a lambda, so that the JSON Schema stays that of our own kinds.
ADDED_KINDS = Extensible(WrapValidator(_validate), WrapSerializer(lambda value, handler, info: _serialize(value, handler, info)))
"""Annotations that make a field of TaggedWorkload accept kinds that other files add. The validator is the last annotation."""
