"""What gave out: the limit of a highest rate or of a step, with the evidence for it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from plumbline.judgement import Judgement, met, not_shown
from plumbline.metrics import Phase

LimitName = Literal[
    "accelerator",
    "cores",
    "memory",
    "network",
    "engine_setting",
    "service",
    "data",
    "communication",
    "host",
    "client",
    "path",
    "not_shown",
]
"""accelerator, cores    their computation
memory                  reading the weights
network                 between the client and the server
engine_setting          the engine's limit of concurrent requests, with the hardware at work
service                 an endpoint as it is sold, whose hardware is not seen
data, communication, host    a step of training waits for its batch, for other ranks, or for the program that drives the device
client                  the load generator
path                    the server and the protocol around the model
not_shown               nothing that was seen explains it"""
BUSY, AT_WORK = 0.7, 0.3
"""From so much of its time on hardware is busy; with less than AT_WORK of what it can do it waits for something else."""
LIMIT_WORDS: dict[LimitName, str] = {
    "accelerator": "the accelerator",
    "cores": "the cores",
    "memory": "memory bandwidth",
    "network": "the network",
    "engine_setting": "the engine's limit of concurrent requests",
    "service": "the endpoint as it is sold",
    "data": "the data",
    "communication": "other ranks",
    "host": "the host program",
    "client": "the client",
    "path": "the server's path without the model",
    "not_shown": "not shown",
}
_RANKED: frozenset[LimitName] = frozenset(("accelerator", "cores", "memory", "network", "engine_setting", "service"))


class Limit(BaseModel):
    """What limited the figures of one phase. `seen`: the evidence; `missing`, `decides`: of a limit that is not the hardware's, what a claim
    about the hardware lacks and what would make it one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    phase: Phase
    limit: LimitName
    seen: str = Field(min_length=1)
    missing: str = ""
    decides: str = ""

    @model_validator(mode="after")
    def _shown_or_not(self) -> Limit:
        """Only a limit of what is rented is shown: another one is no claim, whoever wrote the document."""
        if (self.limit in _RANKED) == bool(self.missing) or bool(self.missing) != bool(self.decides):
            raise ValueError(
                f"limit {self.limit} with missing {self.missing!r} and decides {self.decides!r}; expected both, "
                f"or neither of {', '.join(sorted(_RANKED))}"
            )
        return self

    @property
    def judgement(self) -> Judgement:
        """Whether the figure is one of the hardware: met, or not shown."""
        if self.missing:
            return not_shown(self.seen, self.missing, self.decides)
        return met(self.seen)

    @property
    def word(self) -> str:
        return LIMIT_WORDS[self.limit]

    @classmethod
    def shown(cls, phase: Phase, limit: LimitName, seen: str) -> Limit:
        """One that makes the figure a claim about what is rented."""
        return cls(phase=phase, limit=limit, seen=seen)
