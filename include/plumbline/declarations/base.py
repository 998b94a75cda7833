"""Base of all declarations: frozen, strict, without unknown keys; and kinds of a declaration that other packages add."""

from __future__ import annotations

import json
from contextvars import ContextVar
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Annotated, Any, ClassVar, NamedTuple, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    StringConstraints,
    TypeAdapter,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapSerializer,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticKnownError
from typing_extensions import Self

from plumbline.formats.reading.pattern import checked, compiled

Residency = Annotated[str, Field(pattern=r"^[A-Z]{2,4}$", description="a country or union where data stays, such as DE or EU")]
Name = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"),
    Field(description="lower-case letters, digits and dashes, at most 63"),
]
"""Also valid as a file name, a Kubernetes label value and, with `_` for `-`, a DAG id."""
ConnectionId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,200}$")]
"""The id of an Airflow connection."""


class Declared(BaseModel):
    """Base of all declarations: unknown keys are errors, values are never coerced, instances never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, revalidate_instances="never")
    only_limits: ClassVar[bool] = False
    """Whether each of its fields is a limit, of which the smaller number is the stricter one; see `declarations.limits`."""


class ExactlyOne(Declared):
    """Base of declarations of which exactly one field is given."""

    example: ClassVar[str]

    @model_validator(mode="after")
    def _require_exactly_one(self) -> Self:
        given, fields = [name for name, value in self if value is not None], type(self).model_fields
        if len(given) != 1:
            raise ValueError(
                f"names {' and '.join(given) or 'nothing'}; expected exactly one of {', '.join(fields)}, such as {self.example}"
            )
        return self

    @property
    def declared(self) -> tuple[str, Any]:
        """The given field and its value."""
        return next((name, value) for name, value in self if value is not None)


_ARCHIVED = ContextVar("archived", default=False)


def is_archived() -> bool:
    """Whether a trial is read rather than a declaration: rules that came later do not make an archive's trials unreadable."""
    return _ARCHIVED.get()


def _tried(pattern: str) -> str:
    if not is_archived():
        return checked(pattern)
    compiled(pattern)
    return pattern


DeclaredPattern = Annotated[str, AfterValidator(_tried), Field(description="a regular expression of Python's re")]
"""The type of every field that holds a pattern: one that does not compile, or takes too long for a text, is refused where declarations are read."""


def archived(own: Any) -> WrapValidator:
    """Metadata of a trial's field that holds a declaration, of the type `own`, as it once was; see `is_archived`."""
    # As in `extensible`, the handler would validate Python values. Instances never change, and an archive has few different ones.
    of_json = lru_cache(maxsize=256)(TypeAdapter(own).validate_json)

    def validate(value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        before = _ARCHIVED.set(True)
        try:
            return of_json(json.dumps(value)) if info.mode == "json" else handler(value)
        finally:
            _ARCHIVED.reset(before)

    return WrapValidator(validate)


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
            return model.validate_json(
                json.dumps(value), context=info.context
            )  # the handler would validate Python values, whose lists are not tuples
        if isinstance(value, base) and not isinstance(value, own_types):
            return value
        return handler(value) if model is adapter else model.validate_python(value, context=info.context)

    def serialize(value: Any, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
        if isinstance(value, own_types):
            return handler(value)
        return value.model_dump(mode=info.mode, exclude_defaults=info.exclude_defaults)

    # A lambda: without the annotation of a return type the JSON Schema stays that of our own kinds.
    return Extensible(WrapValidator(validate), WrapSerializer(lambda value, handler, info: serialize(value, handler, info)))
