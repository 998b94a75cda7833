"""Output of all commands: tables that fit the terminal, `--json`, exit codes, and errors of the archive."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, NoReturn, TextIO

import typer
from pydantic_core import to_jsonable_python
from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.markup import escape
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from plumbline.cli.exit_status import FAILED, OK, UNUSABLE
from plumbline.cli.guard import PrintableStream
from plumbline.metrics.printable import printable, printable_json

if TYPE_CHECKING:
    from plumbline.archive import Archive
    from plumbline.archive.identifiers import Identified


Json = Annotated[bool, typer.Option("--json", help="print JSON on standard output instead of tables")]

_NARROW = 100
_PIPED_WIDTH = 140  # a table that is piped or logged is not cut to a terminal that is not there


class _Console(Console):
    """Prints text as it is: `[/ops/123]` in a name or a log is no style (`marked` makes those), and a line is left to the terminal to wrap."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    @property
    def file(self) -> IO[str]:
        # What is rendered has no control characters: styles and the lines of progress bars pass the guard.
        stream = super().file
        return stream.beneath if isinstance(stream, PrintableStream) else stream

    @file.setter
    def file(self, stream: IO[str]) -> None:
        self._file = stream

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))

    def print(self, *objects: Any, **options: Any) -> None:
        options.setdefault("soft_wrap", all(isinstance(each, (str, Text)) for each in objects))
        super().print(*(fitted(self, each) if isinstance(each, Table) else each for each in objects), **options)


def _width(stream: TextIO) -> int | None:
    """None: the terminal's own."""
    if stream.isatty():
        return None
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdigit() and int(columns) else _PIPED_WIDTH


out = _Console(width=_width(sys.stdout))
err = _Console(stderr=True, width=_width(sys.stderr))

TONES = {"good": "green", "warn": "yellow", "bad": "bold red"}
SEVERITY_STYLES = {"page": "bold red", "warn": "yellow", "info": "cyan"}


def marked(template: str, *values: object) -> Text:
    """Text with styles: Rich markup in `template`, a literal with `{}` for each value; the values themselves are text as it is."""
    return Text.from_markup(template.format(*(escape(str(value)) for value in values)), emoji=False)


def beside(label: Text, text: Text) -> None:
    """A line that begins with a label; on a terminal, or below 100 columns, what does not fit goes on below the text, not below the label.
    Elsewhere it stays one line, which can be searched."""
    if not (out.is_terminal or out.width < _NARROW):
        out.print(Text.assemble(label, text))
        return
    lines = text.wrap(out, max(out.width - label.cell_len, 20))
    for n, line in enumerate(lines):
        out.print(Text.assemble(label if n == 0 else " " * label.cell_len, line))


def table(title: str | Text, *columns: str, right: tuple[str, ...] = ()) -> Table:
    """An empty table in the house style; the columns named in `right` hold numbers."""
    # Rich gives the title's style to a string alone.
    styled = title if isinstance(title, str) else Text.assemble(title, style="bold")
    made = Table(title=styled, title_justify="left", title_style="bold", header_style="dim", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        # A provider's name cut in two cannot be searched for or copied.
        made.add_column(name, justify="right" if name in right else "left", overflow="fold", no_wrap=name == "provider")
    return made


def emit(as_json: bool, data: Any, show: Callable[[], None]) -> None:
    """Print `data` as JSON, or let `show` print it for people."""
    if as_json:
        text = json.dumps(to_jsonable_python(data, inf_nan_mode="null"), indent=1, ensure_ascii=False, allow_nan=False)
        sys.stdout.write(printable_json(text) + "\n")
    else:
        show()


def fields_of(record: object, *names: str) -> dict[str, Any]:
    """These values of a record by name, for `--json`."""
    return {name: getattr(record, name) for name in names}


def fail(message: str, code: int = UNUSABLE) -> NoReturn:
    """Say what is wrong on standard error and leave with `code`."""
    err.print(message, style="red")
    raise typer.Exit(code)


@contextmanager
def clear_errors(*kinds: type[Exception]) -> Iterator[None]:
    """Turn the errors that a person can mend into their sentence and exit code 2; anything else keeps its traceback."""
    try:
        yield
    except kinds as error:
        fail(str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error))


def require_stores() -> None:
    """Ends with a sentence, before anything is measured, if the result store's address is none or the archive cannot be written."""
    from sqlalchemy.exc import SQLAlchemyError

    from plumbline.archive.engine import one_line
    from plumbline.launch import stores

    with clear_errors(ValueError):
        stores.home()
    try:
        with open_archive() as archive:
            archive.check_writable()
    except SQLAlchemyError as error:
        fail(f"the archive cannot be written: {one_line(error)}; nothing was measured", FAILED)


@contextmanager
def recorded_later(campaign_id: str) -> Iterator[None]:
    """A database, disk or permission that fails while something is measured ends in a sentence that says how to record it; exit code 1."""
    from sqlalchemy.exc import SQLAlchemyError

    from plumbline.archive.engine import one_line

    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        fail(f"{one_line(error)}; once that is mended, plumbline archive collect {campaign_id} records what was measured", FAILED)


NO_CAMPAIGN = "the archive is empty; measure a first campaign: plumbline run"


def open_archive() -> Archive:
    """The archive of a command that measures or imports, created if there is none. Exit code 2 if it cannot be opened."""
    return _opened(create=True)


def read_archive(*, listing: bool = False, as_json: bool = False, empty: bool = False) -> Archive:
    """The archive of a command that reads, or changes what was recorded; nothing is created.

    Exit code 2 if there is none or it is empty. `listing`: an empty one is an answer, with exit code 0; `as_json`: the command's own one.
    `empty`: an empty one serves like any other.
    """
    from plumbline.archive import NoArchive

    try:
        archive = _opened(create=False)
    except NoArchive as error:
        fail(no_archive(error))
    if not empty and not (listing and as_json) and archive.is_empty():
        archive.close()
        if not listing:
            fail(NO_CAMPAIGN)
        out.print(NO_CAMPAIGN)
        raise typer.Exit(OK)
    return archive


@contextmanager
def planning_archive() -> Iterator[Archive]:
    """The archive of a command that counts what was used before it starts something. Where there is none, an empty one that is gone afterwards:
    whoever records a result creates it."""
    from plumbline import archive
    from plumbline.declarations.addresses import database_url

    with ExitStack() as stack:
        try:
            opened = _opened(create=False)
        except archive.NoArchive:
            opened = archive.open_archive(database_url(Path(stack.enter_context(tempfile.TemporaryDirectory())) / "archive.db"))
        yield stack.enter_context(opened)


def announce_new_archive() -> None:
    """Names the address where a measurement begins an archive, before it starts: a mistyped one shows."""
    from plumbline.archive.archive import NoArchive, require_file
    from plumbline.declarations import installation_paths

    try:
        with clear_errors(ValueError):
            require_file(installation_paths().archive_url)
    except NoArchive as error:
        err.print(f"no archive at {error}{_named_by()}: this measurement begins one", style="dim")


def no_archive(address: object) -> str:
    """Where no archive is, which variable says so, and what to do."""
    return f"no archive at {address}{_named_by()}; expected an existing one, or measure a first campaign: plumbline run"


def _named_by() -> str:
    from plumbline.declarations.archive_address import DEFINED_BY, SETTING

    for name, what in ((SETTING, f"the address in {SETTING}"), (DEFINED_BY, f"the connection in {DEFINED_BY}")):
        if os.environ.get(name):
            return f", {what}"
    home = os.environ.get("PLUMBLINE_HOME")
    return f" (PLUMBLINE_HOME={home})" if home else ""


def _opened(create: bool) -> Archive:
    """NoArchive without `create`; exit code 2 if it cannot be opened."""
    # Half a second, which commands without the archive do not wait for.
    from sqlalchemy.exc import OperationalError

    from plumbline import archive

    try:
        with clear_errors(archive.SchemaMismatch, ValueError):
            return archive.open_archive(create=create)
    except OperationalError as error:
        fail(f"the archive does not answer: {str(error.orig).strip()}; PLUMBLINE_ARCHIVE_URL names its address")


def completed(*kinds: Identified) -> Callable[[str | None], str | None]:
    """The callback of an argument that names a finding, a campaign or a trial: an id, or as much of it as only one begins with."""

    def complete(typed: str | None) -> str | None:
        if typed is None:
            return None
        with clear_errors(LookupError), read_archive() as archive:
            return archive.complete_identifier(*kinds, typed=typed)

    return complete


_TALLEST = 3
"""Lines of a row on average, beyond which cards are easier to read."""
_ANY = 10_000
_NUMBER = 3
"""Characters of a first cell that is only a place in a ranking: a card's title has the next one too."""


def fitted(console: Console, shown: Table) -> RenderableType:
    """The table, or its rows as cards where a word would be cut or rows get too high. A table without a heading stays."""
    if not shown.show_header or _fits(console, shown):
        return shown
    return Group(*_cards(shown, console.width))


def _fits(console: Console, shown: Table) -> bool:
    # What it needs is cut to what there is, so ask with room for any table.
    if Measurement.get(console, console.options.update(max_width=_ANY), shown).minimum > console.width:
        return False
    lines = len(console.render_lines(shown, pad=False))
    return lines <= _TALLEST * shown.row_count + sum(row.end_section for row in shown.rows) + 4


def _cards(shown: Table, width: int) -> Iterator[RenderableType]:
    if shown.title:
        yield Text(shown.title, style="bold") if isinstance(shown.title, str) else shown.title
    columns = [(str(column.header), list(column.cells)) for column in shown.columns]
    for number, row in enumerate(shown.rows):
        cells = [(name, _text(own[number], str(row.style or ""))) for name, own in columns]
        titles = 2 if len(cells[0][1].plain) <= _NUMBER and len(cells) > 1 else 1
        yield Text(" ", style="bold").join(text for _, text in cells[:titles])
        pairs = [Text.assemble((f"{name} " if name else "", "dim"), text) for name, text in cells[titles:] if text.plain not in ("", "–")]
        yield from (Padding(line, (0, 0, 0, 2)) for line in _flow(pairs, width - 2))
    yield Text()


def _flow(pairs: list[Text], width: int) -> Iterator[Text]:
    """The pairs, as many a line as fit."""
    line = Text()
    for pair in pairs:
        if line.cell_len and line.cell_len + 3 + pair.cell_len > width:
            yield line
            line = Text()
        line.append(" · " if line.cell_len else "", "dim").append_text(pair)
    if line.cell_len:
        yield line


def _text(cell: object, style: str) -> Text:
    text = cell.copy() if isinstance(cell, Text) else Text(str(cell))
    text.stylize_before(style)
    return text
