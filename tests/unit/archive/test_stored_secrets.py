"""Secrets that an archive holds already: in documents, in what these carry, and in every text of every table."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import JSON, Boolean, Column, Date, DateTime, Float, Integer, LargeBinary, Numeric, String, Table, insert
from tests.data.result_documents import document, failed, trial

from plumbline.archive import Archive, open_archive
from plumbline.archive.columns import PrintableJson, PrintableText
from plumbline.archive.schema import Base, Document
from plumbline.archive.stored_secrets import ADVICE
from plumbline.declarations.workloads import script_files
from plumbline.declarations.workloads.script import ScriptWorkload

PLANTED = "hf_" + "q" * 34
TEXTS, JSONS = (String, PrintableText), (JSON, PrintableJson)
"""Apart, so that this file holds no key."""
SCRIPT: dict[str, Any] = {
    "kind": "training",
    "name": "ours",
    "version": 1,
    "needs": {"accelerator": "cpu"},
    "steps": {"discard": 3, "measure": 17},
    "repeats": {"per_slot": 1, "slots": ["02:00"]},
}
TASK: dict[str, Any] = {"kind": "script", "command": ["python", "train.py"], "folder": "/opt/train", "report": {"format": "nanogpt"}}


def recorded(archive: Archive, **task: Any) -> str:
    """Record a trial of a script as it was possible before; its name."""
    workload = ScriptWorkload.model_validate_json(json.dumps(SCRIPT | {"task": TASK | task}))
    planned = trial(workload=workload)  # type: ignore[arg-type]
    archive.record(failed(planned), uri="file:///store")
    return f"{planned.trial_id}#1"


def test_an_archive_without_secrets(archive: Archive) -> None:
    archive.record(document(), uri="file:///store")
    archive.record(document(trial("inference")), uri="file:///store")
    recorded(archive, environment={"MODE": "fast"})
    assert archive.secrets() == []


@pytest.mark.fault("a document of before holds a key", ends="archive verify names it", keeps="the key, which no line quotes")
@pytest.mark.parametrize(
    ("task", "what"),
    [
        ({"environment": {"HF_TOKEN": "hunter2"}}, "its document has the name of a secret and a value (HF_TOKEN) at trial.workload.task.environment.HF_TOKEN"),
        ({"environment": {"MODE": PLANTED}}, "its document holds a Hugging Face token at trial.workload.task.environment.MODE"),
        ({"command": ["train", "--api-key", "hunter2"]}, "its document gives api-key a value in clear at trial.workload.task.command[2]"),
        ({"command": ["sh", "-c", "A_TOKEN=hunter2 x"]}, "its document gives A_TOKEN a value in clear at trial.workload.task.command[2]"),
    ],
)  # fmt: skip
def test_a_secret_in_a_document_is_named(archive: Archive, task: dict[str, Any], what: str) -> None:
    name = recorded(archive, **task)
    assert archive.secrets() == [f"{name}: {what}; {ADVICE}"]
    assert archive.verify() == [], "nothing is damaged"


def test_a_file_that_a_document_carries_is_named(archive: Archive, tmp_path: Path) -> None:
    folder = tmp_path / "train"
    folder.mkdir()
    (folder / "train.py").write_text("pass")
    (folder / ".env").write_text("HF_TOKEN=hunter2")
    (folder / "notes.txt").write_text(f"ours is {PLANTED}")
    content = script_files.deflated(script_files._tar(folder))
    files = {"source": "folder", "path": "train", "sha256": script_files.folder_hash(folder), "content": content}
    name = recorded(archive, files=files, folder=None)
    carried = "its document carries the script's file {}, which holds credentials"
    assert archive.secrets() == [
        f"{name}: {carried.format('.env')}; {ADVICE}",
        f"{name}: {carried.format('notes.txt (a Hugging Face token)')}; {ADVICE}",
    ]


def value_of(column: Column[Any]) -> Any:
    """Any value that the column takes."""
    for kind, value in (
        (Boolean, False),
        (Integer, 1),
        (Float, 1.0),
        (Numeric, 1),
        (JSON, {}),
        (PrintableJson, {}),
        (LargeBinary, b""),
        (DateTime, datetime(2026, 11, 1, tzinfo=timezone.utc)),
        (Date, date(2026, 11, 1)),
    ):
        if isinstance(column.type, kind):
            return value
    return datetime(2026, 11, 1, tzinfo=timezone.utc) if "Date" in type(column.type).__name__ else f"a {column.name}"


def planted_row(table: Table) -> dict[Column[Any], Any]:
    """A row with a key in each of its texts."""
    row = {column: value_of(column) for column in table.columns}
    row |= {column: f"{column.name} {PLANTED}" for column in table.columns if isinstance(column.type, TEXTS)}
    return row | {column: {"a": [{"b": PLANTED}]} for column in table.columns if isinstance(column.type, JSONS)}


def test_every_text_of_every_table_is_looked_at(tmp_path: Path) -> None:
    tables = [table for table in Base.metadata.sorted_tables if table is not Document.__table__]
    with open_archive(f"sqlite:///{tmp_path / 'archive.sqlite'}") as archive:
        with archive.engine.connect() as connection:
            connection.connection.cursor().execute("PRAGMA foreign_keys=OFF")
            connection.connection.cursor().execute("PRAGMA ignore_check_constraints=ON")
            for table in tables:
                connection.execute(insert(table).values(planted_row(table)))
            connection.commit()
        found = archive.secrets()
    texts = [(table.name, column) for table in tables for column in table.columns if isinstance(column.type, (*TEXTS, *JSONS))]
    assert len(texts) > 100
    said = {(line.split()[0], line.removesuffix(f"; {ADVICE}").rpartition(": ")[2].split()[0]) for line in found}
    assert said == {(table, f"{c.name}.a[0].b" if isinstance(c.type, JSONS) else c.name) for table, c in texts}
    assert all(line.endswith(f" holds a Hugging Face token; {ADVICE}") and PLANTED not in line for line in found)
