"""An error counter of a GPU's driver."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from plumbline.metrics.rows import Part

Large = Annotated[int, Field(ge=0, le=2**63 - 1)]


class GpuCounter(Part):
    """An error counter of a GPU's driver, read before and after the trial. A counter that the card lacks has no row."""

    node: int = Field(0, ge=0, description="of a training job on several nodes, the node's rank")
    gpu: int = Field(ge=0, description="in the order of CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES")
    counter: str = Field(pattern=r"^[a-z][a-z0-9_]*$", examples=["ecc_uncorrected_volatile", "xid_79"])
    before: Large | None = Field(description="null: it could not be read then")
    after: Large | None

    @property
    def new(self) -> int:
        """Errors during the trial; 0 if one end is unknown. A counter that restarted (a reset GPU) counts from 0."""
        if self.before is None or self.after is None:
            return 0
        return self.after - self.before if self.after >= self.before else self.after
