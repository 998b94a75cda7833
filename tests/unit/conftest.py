"""The archive of an installation of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.fakes.installation import own_home

if TYPE_CHECKING:
    from plumbline.archive import Archive


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    from plumbline.archive import open_archive  # tests of the harness need none of it

    own_home(tmp_path, monkeypatch)
    with open_archive() as opened:
        yield opened
