"""Column types: instants keep their zone, texts their bytes."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from sqlalchemy.dialects import sqlite

from plumbline.archive.columns import CompressedText, UtcDateTime

DIALECT = sqlite.dialect()


def test_instants_are_kept_in_utc() -> None:
    there = datetime(2025, 11, 1, 5, 30, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    stored = UtcDateTime().process_bind_param(there, DIALECT)
    assert stored == datetime(2025, 11, 1, tzinfo=timezone.utc)
    assert UtcDateTime().process_result_value(stored.replace(tzinfo=None), DIALECT) == there  # type: ignore[union-attr]
    assert UtcDateTime().process_bind_param(None, DIALECT) is None


def test_an_instant_without_a_zone_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"^2025-11-01 00:00:00 "):
        UtcDateTime().process_bind_param(datetime(2025, 11, 1), DIALECT)  # noqa: DTZ001 (that is the point)


def test_text_is_smaller_stored_and_the_same_again() -> None:
    written = "ärchive \u0000 " * 1000
    stored = CompressedText().process_bind_param(written, DIALECT)
    assert stored is not None and len(stored) < len(written) / 10
    assert CompressedText().process_result_value(memoryview(stored), DIALECT) == written
