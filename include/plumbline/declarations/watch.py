"""What is done about a provider between its monthly reruns."""

from __future__ import annotations

from pydantic import Field

from plumbline.declarations.base import Declared, Name
from plumbline.declarations.units import Duration, Pause


class ProbeTrial(Declared):
    """A short trial between the monthly ones. Every trial measures the hardware first (matmul, memory, disk) and notes driver and libraries,
    so the shortest workload that runs there is the cheapest look from inside."""

    workload: Name = Field(description="what is run: the shortest that runs there, such as nightly-gpu; with its declared repeats")
    every: Duration = Field(7 * 86400.0, ge=86400.0, description="how long after its last campaign it is run again; a day at least")


class Watch(Declared):
    """A changed driver, machine or software starts the provider's benchmark by itself; a changed price does not, it only moves money."""

    enabled: bool = Field(True, description="false: nobody looks between campaigns, and no change starts anything")
    debounce: Pause = Field(3600.0, description="how long after a rerun was started further changes are held back for the next one")
    workloads: tuple[Name, ...] | None = Field(
        None, min_length=1, description="what a change measures again; without it everything that the monthly rerun runs"
    )
    probe: ProbeTrial | None = Field(None, description="a short trial that looks from inside; without it none is started between campaigns")
