"""The command line."""

import sys


def main() -> None:
    """Entry point of the `plumbline` command."""
    from plumbline.cli.app import app
    from plumbline.declarations import installation

    try:
        app()
    except Exception as error:
        if (why := installation.full_disk_message(error)) is None:
            raise
        sys.stderr.write(f"{why}\n")
        sys.exit(1)
