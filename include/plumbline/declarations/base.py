"""What every declaration is: frozen, strict, and closed to keys that it does not know."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Name = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"),
    Field(description="lower-case letters, digits and dashes, at most 63"),
]
"""A name that is also a file name, a Kubernetes label value and, with `_` for `-`, a DAG id."""


class Declared(BaseModel):
    """Base of all declarations: unknown keys are errors, values are never coerced, instances never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, revalidate_instances="never")


class LauncherDeclaration(Declared):
    """Base of all launchers: what a trial asks of the one that started it, whatever its kind."""

    @property
    def hosted(self) -> bool:
        """Whether the model runs behind a URL, on hardware that nobody but the provider sees."""
        return False

    @property
    def trial_limit_s(self) -> float:
        """After how long the launcher ends a trial."""
        return float(getattr(self, "timeout", 0.0))

    @property
    def isolates_accelerators(self) -> bool:
        """Whether a trial sees its own accelerators alone, rather than all of the node's."""
        return False

    @property
    def gang_assembly_s(self) -> float:
        """How long the nodes of a job wait for each other."""
        return 120.0

    @property
    def unreachable_s(self) -> float:
        """How long the launcher may be unable to reach a trial that runs."""
        return 0.0

    @property
    def replaces_pods(self) -> bool:
        """Whether a trial can go on in another pod, with what it kept on a volume."""
        return False
