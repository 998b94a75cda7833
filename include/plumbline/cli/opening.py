"""The installation's archive for a command: where it cannot be opened, a person is told why instead of how."""

from __future__ import annotations

from sqlalchemy.exc import OperationalError

from plumbline import archive
from plumbline.archive import Archive, SchemaMismatch
from plumbline.cli.output import clear_errors, fail


def open_archive() -> Archive:
    """The archive. Exit code 2 for one of another schema that may not be migrated here, that is none, or whose server does not answer."""
    try:
        with clear_errors(SchemaMismatch, ValueError):
            return archive.open_archive()
    except OperationalError as error:
        fail(f"the archive does not answer: {str(error.orig).strip()}; PLUMBLINE_ARCHIVE_URL says where it is")
