"""Secrets that the archive holds already: in documents, in the files that these carry, and in every text of every table.

Rules of declarations keep them out today; what was recorded before, imported or written by hand is found here. Nothing quotes them."""

from __future__ import annotations

import io
import json
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json
from sqlalchemy import JSON, Column, String, Table, func, select
from sqlalchemy.orm import Session

from plumbline.archive.columns import CompressedText, PrintableJson, PrintableText
from plumbline.archive.schema import Base, Document, Trial
from plumbline.declarations.secret_texts import SecretFound, is_secret_name, secret_in, secrets_of_data, secrets_of_names, text_problem
from plumbline.declarations.trials import Trial as DeclaredTrial
from plumbline.declarations.workloads.prompts import MAX_FILE_BYTES
from plumbline.declarations.workloads.script_secrets import secret_files
from plumbline.declarations.workloads.text_file import inflated
from plumbline.declarations.yaml_source import format_path, value_at

ADVICE = "revoke it where it was issued: documents, exports, packs and backups keep it"
_FILES = ("trial", "workload", "task", "files", "content")
_BATCH = 200


def stored_secrets(session: Session) -> list[str]:
    """One sentence for each secret and place, with what to do; the tables' columns are found from the schema."""
    found = list(_documents(session))
    for table in Base.metadata.sorted_tables:
        if table is not Document.__table__:
            for column in table.columns:
                found += _column(session, table, column)
    return [f"{where}: {what}; {ADVICE}" for where, what in found]


def _what(finding: SecretFound) -> str:
    """A finding's problem without what a declaration is expected to hold instead."""
    return finding.problem.partition(", which ")[0]


def _documents(session: Session) -> Iterator[tuple[str, str]]:
    seen: dict[str, list[str]] = {}
    last = -1
    while True:
        query = select(Document.trial_pk, Trial.trial_id, Trial.attempt).join(Trial, Trial.id == Document.trial_pk)
        batch = session.execute(query.where(Document.trial_pk > last).order_by(Document.trial_pk).limit(_BATCH)).all()
        if not batch:
            return
        for row in batch:
            try:
                content = session.scalars(select(Document.content).where(Document.trial_pk == row.trial_pk)).one()
                document = from_json(content)
            except (zlib.error, ValueError):  # named as damage by `verification`
                continue
            for what in _document(content, document, seen):
                yield f"{row.trial_id}#{row.attempt}", what
        last = batch[-1].trial_pk


def _document(content: str, document: Any, seen: dict[str, list[str]]) -> Iterator[str]:
    trial = document.get("trial") if isinstance(document, dict) else None
    suspected = document if secret_in(content) is not None else {"trial": trial}
    for finding in (*secrets_of_data(suspected), *_names(trial)):
        yield f"its document {_what(finding)} at {format_path(finding.field)}"
    packed = value_at(document, _FILES)
    if isinstance(packed, str):
        if packed not in seen:
            seen[packed] = _packed(packed)
        for path in seen[packed]:
            yield f"its document carries the script's file {path}, which holds credentials"


def _names(trial: Any) -> Iterator[SecretFound]:
    """Secrets by their names, which only the models distinguish from our own fields."""
    if not _has_secret_name(trial):
        return
    try:
        declared = DeclaredTrial.model_validate_json(json.dumps(trial))  # Python values would not do: their lists are no tuples
    except ValidationError:
        return
    for finding in secrets_of_names(declared, ("trial",)):
        if " the name of a secret " in finding.problem:
            yield finding


def _has_secret_name(data: Any) -> bool:
    if isinstance(data, Mapping):
        return any((isinstance(each, str) and is_secret_name(name)) or _has_secret_name(each) for name, each in data.items())
    return isinstance(data, list) and any(map(_has_secret_name, data))


def _packed(content: str) -> list[str]:
    try:
        with tarfile.open(fileobj=io.BytesIO(inflated(content, 4 * MAX_FILE_BYTES)), encoding="utf-8") as archive:
            files = [(member.name, file.read()) for member in archive if member.isreg() and (file := archive.extractfile(member))]
    except (ValueError, OSError, zlib.error, tarfile.TarError):  # a damaged copy is refused where it is used
        return []
    return secret_files(files)


def _column(session: Session, table: Table, column: Column[Any]) -> Iterator[tuple[str, str]]:
    """Of texts each different value once: most columns repeat few."""
    if isinstance(column.type, JSON | PrintableJson):
        values = session.execute(select(column, *table.primary_key.columns).where(column.is_not(None))).yield_per(1000)
        for row in values:
            for finding in secrets_of_data(row[0]):
                place = format_path(finding.field)
                yield f"{table.name} {_key(row[1:])}", f"{column.name}{f'.{place}' if place else ''} {_what(finding)}"
    elif isinstance(column.type, String | PrintableText | CompressedText):
        distinct = not isinstance(column.type, CompressedText)
        query = select(column).where(column.is_not(None))
        for value in session.scalars(query.distinct() if distinct else query).yield_per(1000):
            if (what := text_problem(value)) is not None:
                same = select(*table.primary_key.columns).where(column == value).limit(1)
                count = session.scalar(select(func.count()).select_from(table).where(column == value)) or 1
                more = f" and {count - 1} more rows" if count > 1 else ""
                yield f"{table.name} {_key(session.execute(same).one())}{more}", f"{column.name} {what}"


def _key(values: Any) -> str:
    """A row's key for people; never a secret in it."""
    return " ".join(str(value) if text_problem(str(value)) is None else "(withheld)" for value in values)
