"""A headless Chromium that can reach nothing, and pictures of a page in the shapes that people see it in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

WIDE = ViewportSize(width=1440, height=900)
SHAPES = {
    "wide-light": {"viewport": WIDE, "color_scheme": "light"},
    "wide-dark": {"viewport": WIDE, "color_scheme": "dark"},
    "phone-light": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "device_scale_factor": 2},
}

# What a wide and a narrow window show; dark charts have a test of their own.
QUICK_SHAPES = [pytest.param(name, marks=pytest.mark.full if name == "wide-dark" else ()) for name in SHAPES]


def executable() -> str | None:
    """Chromium's path: CHROMIUM from the environment, else the first one installed; None if there is none."""
    named = os.environ.get("CHROMIUM")
    return named or next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser process; RuntimeError if there is no Chromium."""
    path = executable()
    if path is None:
        raise RuntimeError("no Chromium on this machine; install the package chromium or name one in CHROMIUM")
    with sync_playwright() as playwright:
        # Containers have no user namespaces for Chromium's own sandbox and a small /dev/shm; only our own page is opened.
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"])
        try:
            yield started
        finally:
            started.close()


@contextmanager
def opened(started: Browser, page_file: Path, shape: str) -> Iterator[tuple[Page, list[str], list[str]]]:
    """The page of a local file, its console errors and every request it made beyond the file itself. The network is off."""
    context = started.new_context(**SHAPES[shape], offline=True)  # type: ignore[arg-type]
    page = context.new_page()
    errors: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(page_file.resolve().as_uri(), wait_until="load")
    own = page_file.resolve().as_uri()
    try:
        yield page, errors, [url for url in requests if url != own and not url.startswith("data:")]
    finally:
        context.close()
