"""Where a progress bar in a command's output is: the other count of steps whose reports have no number."""

from __future__ import annotations

import re
from dataclasses import dataclass

BAR = re.compile(r"(?<![\d/.])(?P<done>\d{1,12})/(?P<total>\d{1,12}) \[\d{1,6}:\d\d")
"""As tqdm draws it."""


@dataclass(frozen=True)
class BarPosition:
    """Steps that are done, of how many."""

    done: int
    total: int


def bar_position(line: str, before: BarPosition | None) -> BarPosition | None:
    """The position after this line. Of several bars the one with the largest total counts: a validation's is shorter."""
    for match in BAR.finditer(line):
        seen = BarPosition(int(match["done"]), int(match["total"]))
        if before is None or seen.total >= before.total:
            before = seen
    return before
