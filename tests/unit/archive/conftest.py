"""Every test of the archive runs on SQLite and, marked integration, on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.fakes.postgres_server import archive_url, postgres_server  # noqa: F401

from plumbline.archive import Archive, open_archive


@pytest.fixture
def archive(archive_url: str) -> Iterator[Archive]:  # noqa: F811
    with open_archive(archive_url) as opened:
        yield opened
