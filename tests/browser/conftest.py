"""One browser and one page for a file of tests, one simulated fleet for a process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from tests.browser.chromium import WIDE, browser, executable
from tests.browser.fleet import rehearsed
from tests.browser.served import served

from plumbline.dashboard.app import create_app
from plumbline.declarations.installation import override_home


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if executable() is None:
        absent = pytest.mark.skip(reason="no Chromium found: install the package chromium or name one in CHROMIUM")
        for item in (item for item in items if Path(__file__).parent in item.path.parents):
            item.add_marker(absent)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """For one file: as long as it lives, no other test of the process could run an event loop."""
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def window(chromium: Browser) -> Iterator[Page]:
    """One page for a file: each new one compiles the library of charts again, for two seconds."""
    context = chromium.new_context(viewport=WIDE)
    yield context.new_page()
    context.close()


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Home and declarations of eight months of three simulated providers, only read."""
    return rehearsed(tmp_path_factory.mktemp("fleet"), "2026-03..2026-10", 3)


@pytest.fixture(scope="module")
def fleet_address(fleet: tuple[Path, Path]) -> Iterator[str]:
    """The pages of the fleet."""
    with override_home(*fleet), served(create_app()) as found:
        yield found
