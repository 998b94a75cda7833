"""Types of the archive's columns, alike on both databases."""

from __future__ import annotations

import zlib
from datetime import datetime, timezone
from typing import Any

from sqlalchemy import JSON, DateTime, Dialect, LargeBinary, String
from sqlalchemy.types import TypeDecorator

from plumbline.metrics.printable import printable, printable_values


class UtcDateTime(TypeDecorator[datetime]):
    """An instant. Takes only datetimes with a zone, keeps them in UTC and hands them back with it (SQLite itself drops the zone)."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone; expected an instant such as 2026-11-01T02:00:00+00:00")
        return value.astimezone(timezone.utc)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=timezone.utc) if value.tzinfo is None else value.astimezone(timezone.utc)


MAX_TEXT = 64 << 20
"""Bytes of one text: a document has at most 8 MiB."""


class CompressedText(TypeDecorator[str]):
    """Text kept as zlib bytes: a result document is a third of the archive's size otherwise, and is read whole or not at all."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:
        return None if value is None else zlib.compress(value.encode(), 6)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        inflate = zlib.decompressobj()
        text = inflate.decompress(bytes(value), MAX_TEXT)
        if inflate.unconsumed_tail or not inflate.eof:
            raise zlib.error(f"the text is cut short, or has more than {MAX_TEXT:,} bytes")
        return text.decode()


class PrintableText(TypeDecorator[str]):
    """Text without control characters: what a provider, a script or a person wrote reaches no terminal and no page with them."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return printable(value) if isinstance(value, str) else value


class PrintableJson(TypeDecorator[Any]):
    """JSON whose texts have no control characters."""

    impl = JSON
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return printable_values(value)
