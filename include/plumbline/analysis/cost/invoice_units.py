"""Units of an invoice that are times of an instance or of its GPUs."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import NamedTuple

from plumbline.formats.reading.foreign_number import ForeignNumber, amount

_HOURS = {"s": Decimal(1) / 3600, "m": Decimal(1) / 60, "h": Decimal(1), "d": Decimal(24)}
_UNIT = re.compile(
    r"(?P<many>\d[\d,.]*)?\s*(?P<noun>[a-z ]*?)\s*(?:\bper\b|/)?\s*(?<![a-z])(?P<time>sec|second|min|minute|h|hr|hour|day)s?"
)
_INSTANCES = {
    "",
    "instance",
    "vm",
    "virtual machine",
    "compute",
    "compute instance",
    "node",
    "server",
    "machine",
    "pod",
    "unit",
    "usage",
    "running",
}
_GPUS = {"gpu", "accelerator"}


class BilledTime(NamedTuple):
    """Hours that one unit of a quantity is, of an instance or, with `of_gpu`, of one GPU."""

    hours: Decimal
    of_gpu: bool


def billed_time(unit: str) -> BilledTime | None:
    """A unit such as Hours, 10 Hours, GPU Per Hour or Seconds; None of one that is no time of an instance, such as gibibyte hour."""
    match = _UNIT.fullmatch(re.sub(r"[-_]+", " ", unit.replace("(s)", "s")).strip().lower())
    if match is None:
        return None
    noun = match["noun"].strip().removesuffix("s")
    if noun not in _INSTANCES | _GPUS:
        return None
    try:
        many = amount((match["many"] or "1").replace(",", ""))
    except ForeignNumber:
        return None
    return BilledTime(many * _HOURS[match["time"][0]], noun in _GPUS)
