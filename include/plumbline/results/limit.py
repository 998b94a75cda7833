"""What gave out: the limit of a highest rate or of a step, with the evidence for it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

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
service                 an endpoint as it is sold, whose hardware nobody sees
data, communication, host    a step of training waits for its batch, for other ranks, or for the program that drives the device
client                  the load generator
path                    the server and the protocol around the model
not_shown               nothing that was seen explains it"""
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
        if limit not in _RANKED:
            raise ValueError(f"{limit} is no limit of what is rented; expected one of {', '.join(sorted(_RANKED))}")
        return cls(phase=phase, limit=limit, seen=seen)
