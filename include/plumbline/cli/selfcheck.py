"""`plumbline selfcheck`: does the instrument measure what is known, on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Annotated

import typer
from rich.text import Text

from plumbline.cli.output import FAILED, OK, Json, emit, out, table
from plumbline.results import CheckLine

_STYLE = {"pass": "green", "fail": "red", "not_applicable": "dim"}


class Device(str, Enum):
    cpu = "cpu"
    cuda = "cuda"


def selfcheck(
    device: Annotated[Device, typer.Option(help="cuda: also the GPU's event timer and counter of energy (AMD's too)")] = Device.cpu,
    as_json: Json = False,
) -> None:
    """Check timers, energy, counted FLOPs, the load client and clocks against what is known; exit code 1 if a line fails."""
    from plumbline.harness import selfcheck as instrument

    lines = instrument.run(device.value)
    emit(as_json, {"lines": lines}, lambda: _show(lines))
    raise typer.Exit(FAILED if any(line.status == "fail" for line in lines) else OK)


def _show(lines: Sequence[CheckLine]) -> None:
    shown = table("", "check", "", "measured", "expected", "tolerance", "reason", right=("measured", "expected", "tolerance"))
    for line in lines:
        values = (_number(line.measured, line.unit), _number(line.expected, line.unit), _number(line.tolerance, line.unit))
        shown.add_row(line.name, Text(line.status, style=_STYLE[line.status]), *values, Text(line.reason or "", style="dim"))
    out.print(shown)


def compact(lines: Sequence[CheckLine]) -> str:
    """One line about all of them, such as `selfcheck: 7 pass, 2 not applicable`; failed ones by name."""
    count = {status: sum(line.status == status for line in lines) for status in _STYLE}
    bad = ", ".join(line.name for line in lines if line.status == "fail")
    parts = [f"{count['pass']} pass", f"{count['fail']} fail ({bad})" if bad else "", f"{count['not_applicable']} not applicable"]
    return "selfcheck: " + ", ".join(part for part in parts if part)


def _number(value: float | None, unit: str) -> str:
    return "–" if value is None else f"{value:.6g} {unit}"
