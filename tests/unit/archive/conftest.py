"""Every test of the archive runs on SQLite and, marked integration, on a real PostgreSQL. Of the latter, the quick tests are those of
writing, reading, migrating, restoring and bundling; the others are marked full."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from plumbline.archive import Archive, open_archive

QUICK_ON_POSTGRESQL = {
    "test_backup",
    "test_bundle",
    "test_engine",
    "test_findings",
    "test_migrate",
    "test_trials",
    "test_record",
    "test_recorded_schema",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and "[postgresql" in item.nodeid and item.path.stem not in QUICK_ON_POSTGRESQL:
            item.add_marker(pytest.mark.full)


@pytest.fixture
def archive(archive_url: str) -> Iterator[Archive]:
    with open_archive(archive_url) as opened:
        yield opened
