"""The command line."""

import sys


def main() -> None:
    """Entry point of the `plumbline` command."""
    from plumbline.cli.app import app
    from plumbline.results import full_disk

    try:
        app()
    except Exception as error:
        if (why := full_disk.full(error)) is None:
            raise
        sys.stderr.write(f"{why}\n")
        sys.exit(1)
