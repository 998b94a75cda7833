"""The lines of a bundle beside its documents: attempts, expired evidence and rows of conclusions, one JSON object each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import date
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, create_model
from sqlalchemy import JSON, BigInteger, Integer

from plumbline.archive.columns import PrintableJson, UtcDateTime
from plumbline.archive.records import Action
from plumbline.archive.schema import Base
from plumbline.results import InvalidResult, Reason, bounded_json
from plumbline.results.document import Sha256

MAX_ROWS = 200_000
MAX_BYTES = 256 * 2**20
_Int32 = Annotated[int, Field(ge=-(2**31), lt=2**31)]


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Line = TypeVar("Line", bound=BaseModel)


class CorrectionLine(_Line):
    """The attempt that an attempt replaces, and who said so when and why."""

    attempt: int
    at: AwareDatetime
    by: str
    why: str


class AttemptLine(_Line):
    """One attempt. `document`: its file's name in `documents/`; `action` and `reasons`: the other archive's verdict; `uri`: its folder there."""

    document: str
    sha256: Sha256
    action: Action
    reasons: list[Reason]
    uri: str
    recorded_at: AwareDatetime
    correction: CorrectionLine | None = None


class ExpiredLine(_Line):
    """A raw file that is kept no longer: its place in the document, and by which rule it went."""

    document: str
    position: _Int32
    expired_at: AwareDatetime
    rule: str
    removed_at: AwareDatetime | None = None


@cache
def row_line(table: str) -> type[BaseModel]:
    """A row of a table as a line; the number that the table itself gives its rows stays behind."""
    fields: dict[str, Any] = {}
    for column in Base.metadata.tables[table].columns:
        if column.name != "id":
            kind = _type(column.type)
            fields[column.name] = (kind | None, None) if column.nullable else (kind, ...)
    return create_model(f"a row of {table}", __base__=_Line, **fields)


def _type(kind: Any) -> Any:
    if isinstance(kind, UtcDateTime):
        return AwareDatetime
    if isinstance(kind, JSON | PrintableJson):
        return dict[str, Any] | list[Any]
    return _Int32 if isinstance(kind, Integer) and not isinstance(kind, BigInteger) else kind.python_type


def write_lines(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """One line each, with sorted keys: the same content gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        for line in lines:
            file.write(json.dumps(line, sort_keys=True, ensure_ascii=False, default=_iso) + "\n")


def _iso(value: Any) -> str:
    assert isinstance(value, date)  # a datetime is one
    return value.isoformat()


def read_lines(path: Path, kind: type[Line]) -> Iterator[Line]:
    """The lines of a file. InvalidResult, naming file, line, field and what is expected, for one that does not hold or exceeds a bound."""
    bounded_json.check_size(path.stat().st_size, str(path), MAX_BYTES)
    with path.open("rb") as file:
        # One byte over the bound is enough to refuse a line.
        for number, line in enumerate(iter(lambda: file.readline(bounded_json.MAX_BYTES + 1), b""), 1):
            if number > MAX_ROWS:
                raise InvalidResult(f"{path} has more than {MAX_ROWS:,} lines; expected at most that")
            yield bounded_json.parse_model(kind, line, f"{path}:{number}")
