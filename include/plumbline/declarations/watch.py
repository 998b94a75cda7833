"""What is done about a provider between its monthly reruns."""

from __future__ import annotations

from pydantic import Field

from plumbline.declarations.base import Declared, Name
from plumbline.declarations.units import Duration, Pause


class Watch(Declared):
    """A changed driver, machine or software starts the provider's benchmark by itself; a changed price does not, it only moves money."""

    enabled: bool = Field(True, description="false: nobody looks between campaigns, and no change starts anything")
    debounce: Pause = Field(3600.0, description="how long after a rerun was started further changes are held back for the next one")
    workloads: tuple[Name, ...] | None = Field(
        None, min_length=1, description="what a change measures again; without it everything that the monthly rerun runs"
    )
    probe: Duration | None = Field(
        None, ge=86400.0, description="how often its arithmetic and memory are measured from inside, such as 7d; without it never"
    )
