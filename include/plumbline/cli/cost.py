"""`plumbline cost`: what trials, campaigns and plans cost, line by line."""

from __future__ import annotations

import typer

cost = typer.Typer(help="What trials, campaigns and plans cost, line by line.", no_args_is_help=True)


@cost.callback()
def group() -> None:
    """What trials, campaigns and plans cost, line by line."""
