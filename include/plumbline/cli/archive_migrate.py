"""`plumbline archive migrate`: bring an archive to another schema on purpose."""

from __future__ import annotations

from typing import Annotated

import typer
from sqlalchemy.exc import SQLAlchemyError

from plumbline.archive import SchemaMismatch
from plumbline.archive.engine import make_engine
from plumbline.archive.migrate import move
from plumbline.cli.output import FAILED, Json, clear_errors, emit, fail, out
from plumbline.declarations import places


def migrate(
    to: Annotated[str | None, typer.Option("--to", help="the schema, such as 0008; the newest that this version knows if left out")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="go back to an older schema although that deletes what newer tables hold")] = False,
    as_json: Json = False,
) -> None:
    """Migrate the archive to this version's schema, or to an older one. Whole or not at all, also if it is killed."""
    with clear_errors(SchemaMismatch, LookupError, ValueError):
        engine = make_engine(places().archive_url)
        try:
            before, after = move(engine, to, may_lose=yes)
        except SQLAlchemyError as error:
            fail(f"the archive was not migrated and has its schema as before: {getattr(error, 'orig', None) or error}", FAILED)
        finally:
            engine.dispose()

    def show() -> None:
        out.print(f"schema {after}" + (" already" if before == after else f", before {before or 'empty'}"), highlight=False)

    emit(as_json, {"before": before, "after": after}, show)
