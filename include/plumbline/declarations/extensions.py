"""Kinds of a declaration that other packages add: a subclass of the kinds' base, registered under its kind in an entry point group."""

from __future__ import annotations

import json
from importlib.metadata import entry_points
from typing import Any, NamedTuple, get_args

from pydantic import (
    SerializationInfo,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapSerializer,
    WrapValidator,
)
from pydantic_core import PydanticKnownError

from plumbline.declarations.base import Declared


class Extensible(NamedTuple):
    """Annotations that make a union of our own kinds, discriminated by `kind`, accept registered kinds too. The JSON Schema does not change."""

    validator: WrapValidator
    serializer: WrapSerializer


def extensible(own: Any, base: type[Declared], group: str) -> Extensible:
    """`own`: the annotated union of our own kinds, or the only one. `base`: the base class of every kind. `group`: the entry point group."""
    own_types = get_args(get_args(own)[0]) if get_args(own) else (own,)
    own_kinds = [get_args(kind.model_fields["kind"].annotation)[0] for kind in own_types]
    adapter: TypeAdapter[Any] = TypeAdapter(own)

    def validate(value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        kind = value.get("kind") if isinstance(value, dict) else None
        model = adapter
        if isinstance(kind, str) and kind not in own_kinds:  # reading entry points is slow
            entries = {entry.name: entry for entry in entry_points(group=group)}
            if kind not in entries:
                kinds = ", ".join(f"'{name}'" for name in (*own_kinds, *entries))
                raise PydanticKnownError("union_tag_invalid", {"discriminator": "'kind'", "tag": kind, "expected_tags": kinds})
            model = TypeAdapter(entries[kind].load())
        if info.mode == "json":
            return model.validate_json(json.dumps(value))  # the handler would validate Python values, whose lists are not tuples
        if isinstance(value, base) and not isinstance(value, own_types):
            return value
        return handler(value) if model is adapter else model.validate_python(value)

    def serialize(value: Any, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
        if isinstance(value, own_types):
            return handler(value)
        return value.model_dump(mode=info.mode, exclude_defaults=info.exclude_defaults)

    # A lambda: without the annotation of a return type the JSON Schema stays that of our own kinds.
    return Extensible(WrapValidator(validate), WrapSerializer(lambda value, handler, info: serialize(value, handler, info)))
