"""The command line."""

import sys

from plumbline.cli.app import app


def main() -> None:
    """Entry point of the `plumbline` command."""
    try:
        app()
    except Exception as error:
        from plumbline.declarations.installation import full_disk_message  # loads every model of a declaration

        if (why := full_disk_message(error)) is None:
            raise
        sys.stderr.write(f"{why}\n")
        sys.exit(1)
