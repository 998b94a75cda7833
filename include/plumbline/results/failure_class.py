"""Why a trial gave no numbers."""

from __future__ import annotations

from typing import Literal

FailureClass = Literal[
    "quota_exceeded",
    "insufficient_capacity",
    "image_error",
    "launch_timeout",
    "interrupted",
    "out_of_memory",
    "wrong_hardware",
    "provider_fault",
    "harness_error",
    "server_error",
    "timeout",
    "unreachable",
    "bad_declaration",
]
