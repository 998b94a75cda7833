"""The table of an nccl-tests program, of its out-of-place columns."""

from __future__ import annotations

from plumbline.formats.reading.command_output import CommandOutput, DeclaredNumbers, Output, UnreadableOutput
from plumbline.formats.reading.lines import lines_of, numbers
from plumbline.formats.registry import register
from plumbline.metrics.rows import Point, Reason, metric_curve, metric_row

_MAX_POINTS = 200


@register
class NcclTests(CommandOutput):
    name = "nccl-tests"
    order = 130
    metrics = ("collective_bus_bandwidth", "collective_latency")

    def read(self, text: str, declared: DeclaredNumbers) -> Output:
        """Bus bandwidth of each size in bytes/s, that of the largest as the number; the time of the smallest in seconds."""
        header: list[str] = []
        sizes: dict[float, tuple[float, float]] = {}
        wrong = 0.0
        for line in lines_of(text):
            cells = line.lstrip("# ").split()
            if line.startswith("#"):
                header = cells if {"size", "time", "busbw"} <= set(cells) else header
            elif len(cells) == len(header) and header:
                named = dict(zip(reversed(header), reversed(cells), strict=True))  # of a name that comes twice, the first column counts
                values = [number for name in ("size", "time", "busbw") for number in numbers(named[name])]
                if len(values) == 3:
                    sizes[values[0]] = (values[1] * 1e-6, values[2] * 1e9)
                    wrong += sum(number for name, cell in zip(header, cells, strict=True) if name == "#wrong" for number in numbers(cell))
        if not sizes:
            raise UnreadableOutput("no table of nccl-tests with the columns size, time and busbw")
        smallest, largest = min(sizes), max(sizes)
        rows = [
            metric_row("collective_bus_bandwidth", sizes[largest][1], 1, method=f"{largest:.0f} bytes"),
            metric_row("collective_latency", sizes[smallest][0], 1, method=f"{smallest:.0f} bytes"),
        ]
        points = (Point(at=size, value=sizes[size][1], n=1) for size in sorted(sizes)[-_MAX_POINTS:])
        curve = metric_curve("collective_bus_bandwidth", "message_bytes", points)
        wrong_values = [Reason(code="wrong_results", detail=f"nccl-tests found {wrong:.0f} wrong values")] if wrong else []
        return Output(rows, [curve], wrong_values)
