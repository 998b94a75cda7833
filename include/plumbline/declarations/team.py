"""A team: what it weighs when it chooses a provider, training and inference apart."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator, model_validator

from plumbline.declarations.base import Declared, Name
from plumbline.declarations.criteria import Criterion
from plumbline.declarations.metrics import metric

Weight = Annotated[float, Field(gt=0, le=1)]


class Preference(Declared):
    """Weights by metric (they sum to 1) and hard gates: a provider that fails a gate is not eligible, whatever its score."""

    workloads: tuple[Name, ...] = Field(min_length=1, description="the workloads whose results count")
    weights: dict[str, Weight] = Field(min_length=1)
    gates: tuple[Criterion, ...] = ()

    @field_validator("weights")
    @classmethod
    def _known_metrics(cls, value: dict[str, float]) -> dict[str, float]:
        for name in value:
            try:
                known = metric(name)
            except KeyError as error:
                raise ValueError(error.args[0]) from None
            if known.direction == "informative":
                raise ValueError(f'"{name}" is neither better high nor low and cannot be weighed; expected a metric with a direction')
        total = sum(value.values())
        if abs(total - 1) > 1e-6:
            raise ValueError(f"weights sum to {total:g}; expected 1")
        return value


class Team(Declared):
    """One YAML file under `include/config/teams/`."""

    name: Name
    description: str = ""
    training: Preference | None = None
    inference: Preference | None = None

    @model_validator(mode="after")
    def _something(self) -> Team:
        if self.training is None and self.inference is None:
            raise ValueError("neither training nor inference; expected at least one with its workloads and weights")
        return self
