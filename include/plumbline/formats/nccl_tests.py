"""The table of an nccl-tests program, of its out-of-place columns."""

from __future__ import annotations

import re

from plumbline.formats.reading.command_output import CommandOutput, DeclaredNumbers, Output, UnreadableOutput
from plumbline.formats.reading.lines import lines_of, numbers
from plumbline.formats.registry import register
from plumbline.metrics.rows import Point, Reason, metric_curve, metric_row

_MAX_POINTS = 200
_RANK = re.compile(r"# +Rank +(\d+) ")


@register
class NcclTests(CommandOutput):
    name = "nccl-tests"
    order = 130
    lines = r"#|^.{0,80}\d+ +\d+ +\w+ +"
    metrics = ("collective_bus_bandwidth", "collective_latency")

    def read(self, text: str, declared: DeclaredNumbers) -> Output:
        """Bus bandwidth of each size in bytes/s, that of the largest as the number; the time of the smallest in seconds.

        Of several operations or types the first one. A size or a rank that comes twice is of programs that ran beside each other."""
        header: list[str] = []
        tables: dict[tuple[str, ...], dict[float, tuple[float, float]]] = {}
        ranks: list[int] = []
        wrong, twice = 0.0, None
        for line in lines_of(text):
            cells = line.lstrip("# ").split()
            if line.startswith("#"):
                header = cells if {"size", "time", "busbw"} <= set(cells) else header
                ranks += [int(rank[1])] if (rank := _RANK.match(line)) is not None else []
            elif len(cells) == len(header) and header:
                named = dict(zip(reversed(header), reversed(cells), strict=True))  # of a name that comes twice, the first column counts
                values = [number for name in ("size", "time", "busbw") for number in numbers(named[name])]
                if len(values) == 3:
                    wrong += sum(number for name, cell in zip(header, cells, strict=True) if name == "#wrong" for number in numbers(cell))
                    if values[0] > 0:  # a size below one element for each rank moves nothing
                        table = tables.setdefault(tuple(named.get(name, "") for name in ("type", "redop", "root")), {})
                        twice = values[0] if values[0] in table and twice is None else twice
                        table[values[0]] = (values[1] * 1e-6, values[2] * 1e9)
        if not tables:
            raise UnreadableOutput("no table of nccl-tests with the columns size, time and busbw, and a size above 0")
        sizes = next(iter(tables.values()))
        smallest, largest = min(sizes), max(sizes)
        rows = [
            metric_row("collective_bus_bandwidth", sizes[largest][1], 1, method=f"{largest:.0f} bytes"),
            metric_row("collective_latency", sizes[smallest][0], 1, method=f"{smallest:.0f} bytes"),
        ]
        points = (Point(at=size, value=sizes[size][1], n=1) for size in sorted(sizes)[-_MAX_POINTS:])
        curve = metric_curve("collective_bus_bandwidth", "message_bytes", points)
        invalid = [Reason(code="wrong_results", detail=f"nccl-tests found {wrong:.0f} wrong values")] if wrong else []
        if twice is not None or len(set(ranks)) < len(ranks):
            what = f"rank {min(rank for rank in ranks if ranks.count(rank) > 1)}" if len(set(ranks)) < len(ranks) else f"size {twice:.0f}"
            detail = f"{what} comes twice: several programs ran beside each other; expected one over all ranks, built with MPI=1"
            invalid.append(Reason(code="ranks_missing", detail=detail))
        return Output(rows, [curve], invalid, ranks=len(set(ranks)) or None)
