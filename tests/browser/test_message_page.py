"""A message's page in a real browser: light and dark, wide and narrow, without a request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.browser.chromium import QUICK_SHAPES, SHAPES, browser
from tests.browser.message_photos import photograph

from plumbline.alerts import render
from plumbline.alerts.chart import picture
from plumbline.alerts.preview import EXAMPLE_CONTEXT, EXAMPLE_FINDING, EXAMPLE_HISTORY, page


@pytest.fixture(scope="module")
def started() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "message.html"
    path.write_text(page(render(EXAMPLE_FINDING, context=EXAMPLE_CONTEXT), picture(EXAMPLE_HISTORY, "chart.png")))
    return path


@pytest.mark.parametrize("shape", QUICK_SHAPES)
def test_it_fits_every_window_and_asks_for_nothing(shape: str, started: Browser, page_file: Path) -> None:
    context = started.new_context(**SHAPES[shape], offline=True)  # type: ignore[arg-type]
    opened = context.new_page()
    requests: list[str] = []
    opened.on("request", lambda request: requests.append(request.url))
    opened.goto(page_file.as_uri(), wait_until="load")
    assert opened.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert opened.evaluate("[...document.images].every(i => i.complete && i.naturalWidth === 1200 && i.alt.length > 50)")
    assert [r for r in requests if not r.startswith("data:") and r != page_file.as_uri()] == []
    context.close()


@pytest.mark.full
def test_a_photo_in_each_theme(started: Browser, page_file: Path) -> None:
    light, dark = (photograph(started, page_file, scheme).read_bytes() for scheme in ("light", "dark"))
    assert light != dark and light.startswith(b"\x89PNG") and dark.startswith(b"\x89PNG")
