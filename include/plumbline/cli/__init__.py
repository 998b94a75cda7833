"""The command line."""

import sys

from plumbline.cli.exit_status import INTERRUPTED

TYPE_CHECKING = False  # typing itself is imported late: what is read before `main` begins, Ctrl-C interrupts with a traceback
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> None:
    """Entry point of the `plumbline` command."""
    try:
        from plumbline.cli.app import app  # here, so that Ctrl-C while it is read is one line too

        app()
    except KeyboardInterrupt:
        _interrupted()
    except SystemExit as left:
        # Typer leaves so; a command that has said what its interruption means raises its own.
        if isinstance(getattr(left.__context__, "__cause__", None), KeyboardInterrupt):
            _interrupted()
        raise
    except Exception as error:
        if "KeyboardInterrupt" in str(error):  # pydantic wraps one that comes while it builds a model
            _interrupted()
        from plumbline.declarations.installation import full_disk_message  # loads every model of a declaration

        if (why := full_disk_message(error)) is None:
            raise
        sys.stderr.write(f"{why}\n")
        sys.exit(1)


def _interrupted() -> "NoReturn":
    sys.stderr.write("interrupted\n")
    sys.exit(INTERRUPTED)
