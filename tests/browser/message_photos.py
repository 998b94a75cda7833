"""Photos of the pages that `plumbline alerts preview --save FOLDER` wrote: `python tests/browser/message_photos.py FOLDER` puts
NAME-light.png and NAME-dark.png beside each NAME.html."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

sys.path.insert(0, str(Path(__file__).parent))
from chromium import browser
from playwright.sync_api import Browser

SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def photograph(started: Browser, page_file: Path, scheme: Literal["light", "dark"]) -> Path:
    """The whole page in one colour scheme; the network is off."""
    context = started.new_context(viewport={"width": 780, "height": 600}, color_scheme=scheme, offline=True)
    try:
        page = context.new_page()
        page.goto(page_file.resolve().as_uri(), wait_until="load")
        target = page_file.with_name(f"{page_file.stem}-{scheme}.png")
        page.screenshot(path=str(target), full_page=True)
        return target
    finally:
        context.close()


def main(folder: Path) -> None:
    pages = sorted(folder.glob("*.html"))
    if not pages:
        sys.exit(f"{folder} has no page; `plumbline alerts preview --example --save {folder}` writes one")
    with browser() as started:
        for page_file in pages:
            for scheme in SCHEMES:
                sys.stdout.write(f"{photograph(started, page_file, scheme)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
