"""`plumbline drift detect`: the detector of long series as a filter, for evaluation from outside and for scripts."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from plumbline.cli.output import OK, UNUSABLE, fail

drift = typer.Typer(help="Change points of series that come from elsewhere.", no_args_is_help=True)


@drift.callback()
def group() -> None:
    """Change points of series that come from elsewhere."""


@drift.command()
def detect(
    stdin: Annotated[bool, typer.Option("--stdin", help='JSON lines: {"values": [101.2, null, …]}, one series a line')] = False,
    floor: Annotated[float | None, typer.Option(help="least relative change, such as 0.05; default 0.015")] = None,
) -> None:
    """Print, for each series read, a JSON list of the 0-based indices of the first points after its changes.

    Each line is answered at once, in order. null and NaN are missing points. Other fields, such as `repeats`, are not used.
    A line that is no such series is answered with null and named on standard error; the lines around it are not affected, and the
    exit code is then 2.
    """
    if not stdin:
        fail("nothing to read; expected --stdin and JSON lines on standard input")
    # ruptures and scipy take a second: `plumbline --help` does not wait for them.
    from plumbline.drift.series import FLOOR, changes

    least = FLOOR if floor is None else floor
    code = OK
    for number, line in enumerate(sys.stdin, 1):
        if not line.strip():
            continue
        try:
            answer: list[int] | None = [change.index for change in changes(_values(line), floor=least)]
        except (ValueError, OverflowError) as error:
            answer, code = None, UNUSABLE
            print(f"line {number}: {error}", file=sys.stderr, flush=True)
        print(json.dumps(answer), flush=True)
    raise typer.Exit(code)


def _values(line: str) -> list[float | None]:
    """The series of one line. Raises ValueError that names the field and what was expected."""
    try:
        said: Any = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f'not JSON ({error}); expected {{"values": [101.2, 100.9, null]}}') from None
    values = said.get("values") if isinstance(said, dict) else None
    if not isinstance(values, list):
        raise ValueError('values: missing or no list; expected {"values": [101.2, 100.9, null]}')
    for place, value in enumerate(values):
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise ValueError(f"values[{place}]: {json.dumps(value)} is no number; expected a number, or null for a missing point")
    return values
