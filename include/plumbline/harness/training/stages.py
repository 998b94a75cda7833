"""What a step is made of, in the order in which it happens. Standard library only: the worker's start-up is measured."""

from __future__ import annotations

from typing import Literal

StageName = Literal["data_wait", "host_to_device", "generation", "forward", "backward", "gradient_sync", "optimizer"]

STAGES: tuple[StageName, ...] = ("data_wait", "host_to_device", "generation", "forward", "backward", "gradient_sync", "optimizer")
"""data_wait: until the batch was at hand. generation: answers of reinforcement learning. gradient_sync: other ranks, waited for once
this rank's own gradients were there; not part of backward."""
