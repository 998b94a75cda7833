"""Base of all declarations: frozen, strict, without unknown keys."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Name = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"),
    Field(description="lower-case letters, digits and dashes, at most 63"),
]
"""Also valid as a file name, a Kubernetes label value and, with `_` for `-`, a DAG id."""


class Declared(BaseModel):
    """Base of all declarations: unknown keys are errors, values are never coerced, instances never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, revalidate_instances="never")
