"""No command writes a control character to a terminal, whatever a provider or a script wrote into the archive."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.table import Table
from rich.text import Text
from sqlalchemy import JSON, String, text
from tests.unit.cli.test_missing_archive import LISTS, SUBJECTS
from tests.unit.metrics.test_printable import HOSTILE
from typer.testing import CliRunner, Result

from plumbline.archive import FindingRecord, open_archive
from plumbline.archive.columns import PrintableJson, PrintableText
from plumbline.archive.schema import Base
from plumbline.cli import output
from plumbline.cli.app import app
from plumbline.cli.guard import guarded
from plumbline.metrics.printable import printable

HASHED = {"environments.facts", "snapshots.facts"}
"""Columns whose bytes a hash is of."""
WITHOUT = "abcdefghijk"


def test_every_column_of_text_stores_none() -> None:
    columns = {f"{table.name}.{column.name}": column.type for table in Base.metadata.tables.values() for column in table.columns}
    texts = {name: kind for name, kind in columns.items() if isinstance(kind, String | PrintableText)}
    objects = {name: kind for name, kind in columns.items() if isinstance(kind, JSON | PrintableJson)}
    assert len(texts) > 80 and len(objects) > 8
    assert {name for name, kind in texts.items() if not isinstance(kind, PrintableText)} == set()
    assert {name for name, kind in objects.items() if not isinstance(kind, PrintableJson)} == HASHED


@pytest.mark.fault("a provider's detail holds control characters", ends="stored without them", keeps="the terminal of who reads it")
def test_a_detail_is_stored_without_them(home: Path, plumbline: Callable[..., Result]) -> None:
    open_archive().close()
    noted = plumbline("log", "incident", "local-2core", "--what", f"no node {HOSTILE} answers", "--reference", "T-1")
    assert noted.exit_code == 0, noted.output
    with open_archive() as archive:
        (entry,) = archive.operations()
        archive.add_audit(who=HOSTILE, what="finding_acknowledged", subject="x", why=HOSTILE, detail={"a": [HOSTILE]})
        (said,) = (each for each in archive.audit() if each.subject == "x")
    assert entry.what == f"no node {WITHOUT} answers"
    assert (said.who, said.why, said.detail) == (WITHOUT, WITHOUT, {"a": [WITHOUT]})


@pytest.fixture
def hostile(home: Path, campaigns: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive of an older version, which stored the characters in each column of text that no rule of the archive reads."""
    campaigns(**{"2026-11": [0.1, 0.1]})
    it = HOSTILE.replace("\ud800", "")
    with open_archive() as archive:
        (*_, first) = archive.trials()
        made = {"provider": "local-2core", "severity": "warn", "series_key": first.series_key, "campaign_id": "2026-11"}
        archive.save_findings([FindingRecord("f-12345", kind="performance", headline="x", detail={"why": "y"}, **made)])
        with archive.engine.begin() as connection:
            # Past the types of the columns.
            for change in ("findings SET headline", "campaigns SET reason"):
                connection.execute(text(f"UPDATE {change} = :it"), {"it": it})
            connection.execute(
                text("UPDATE findings SET detail = :it"), {"it": json.dumps({"evidence": it, "explanation": it, "title": it})}
            )
    monkeypatch.chdir(home)


@pytest.mark.parametrize("words", [*LISTS, *SUBJECTS], ids=" ".join)
def test_rows_of_an_older_version_reach_no_terminal_either(hostile: None, words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, ["f-12345" if word == "abc" else word for word in words])
    for shown in (result.stdout, result.stderr):
        assert printable(shown) == shown


def test_the_rows_are_shown_without_them(hostile: None) -> None:
    for words in (("findings", "list"), ("findings", "show", "f-12345")):
        # Rich drops the end of a title's sequence before it is removed; its text is then shown.
        shown = CliRunner().invoke(app, [*words]).stdout.replace("\n", "").replace("0;owned", "").replace("52;c;QUJD\\", "")
        assert WITHOUT in shown, (words, shown)


def commands_that_write() -> list[Callable[[Any], None]]:
    """Each way in which a command prints."""
    return [
        lambda it: output.out.print(it),
        lambda it: output.err.print(Text(it), style="red"),
        lambda it: output.out.print(_table(it)),
        lambda it: output.out.print(output.marked("[bold]{}[/bold]", it)),
        lambda it: output.beside(Text("label "), Text(it)),
        lambda it: output.emit(True, {"a": it}, lambda: None),
        lambda it: sys.stdout.write(it),  # type: ignore[arg-type, return-value]
        lambda it: sys.stderr.writelines([it]),
        lambda it: print(it),  # noqa: T201
        lambda it: print(it, file=sys.stderr),  # noqa: T201
        lambda it: typer.echo(it, err=True),
    ]


def _table(it: str) -> Table:
    made = output.table(it, "provider")
    made.add_row(it)
    return made


@pytest.mark.parametrize("write", commands_that_write())
def test_a_new_command_prints_none_however_it_prints(write: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = StringIO(), StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with guarded():
        write(HOSTILE)
    shown = out.getvalue() + err.getvalue()
    assert "a" in shown and "\x1b" not in shown.replace("\x1b[31m", "")
    assert printable(shown.replace("\x1b[31m", "")) == shown.replace("\x1b[31m", "")


def test_json_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    out = StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    with guarded():
        output.emit(True, {"a": HOSTILE}, lambda: None)
    assert json.loads(out.getvalue()) == {"a": HOSTILE}
