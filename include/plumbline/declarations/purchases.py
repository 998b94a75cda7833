"""The ways an instance is paid for; they are never compared with each other."""

from __future__ import annotations

from typing import Literal

Purchase = Literal["on_demand", "spot", "reserved"]
Term = Literal["1y", "3y"]
"""How long a reservation binds."""
