"""Pictures of every page for the documentation: `python -m tests.browser.page_photos FOLDER [HOME CONFIG [ADDRESS …]]`.

FOLDER gets PAGE-{wide,phone}-{light,dark}.png of each page, the route list taken from the app, or of these addresses. Without HOME and
CONFIG a fleet is simulated first (tests/browser/fleet.py). Pictures are cut at a few screens and have 256 colours: they stay small enough
for a repository.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from PIL import Image
from playwright.sync_api import BrowserContext

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "include")]

from tests.browser.airflow_pages import examples, routes  # noqa: E402
from tests.browser.chromium import browser  # noqa: E402
from tests.browser.fleet import rehearsed  # noqa: E402
from tests.browser.served import served  # noqa: E402
from tests.data.page_addresses import address_of  # noqa: E402

from plumbline.dashboard.app import create_app  # noqa: E402
from plumbline.declarations.installation import override_home  # noqa: E402

SHAPES = {"wide": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
SCHEMES = ("light", "dark")
LONGEST = 2600


def name_of(path: str) -> str:
    """A route's name as a file: /decisions/{team}/{kind} is decisions-team-kind."""
    return re.sub(r"[^a-z0-9]+", "-", path).strip("-") or "overview"


def photograph(context: BrowserContext, url: str, target: Path, width: int) -> None:
    """One page from its top, once its charts are drawn."""
    page = context.new_page()
    page.goto(url, wait_until="load")
    page.wait_for_function("() => !document.querySelector('[data-later]')")
    page.wait_for_function("() => document.querySelectorAll('.chart').length === document.querySelectorAll('.chart.js-plotly-plot').length")
    page.wait_for_timeout(300)
    high = min(page.evaluate("document.documentElement.scrollHeight"), LONGEST)
    taken = page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": width, "height": high})
    page.close()
    Image.open(io.BytesIO(taken)).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(target, optimize=True)


def main(folder: Path, home: Path, config: Path, addresses: Sequence[str] = ()) -> None:
    """Every page, or these, in every shape and scheme."""
    folder.mkdir(parents=True, exist_ok=True)
    known = {} if addresses else examples(home, config)
    pages = {path: path for path in addresses} or {route.path: address_of(route, known) for route in routes(home, config)}
    with override_home(home, config), served(create_app()) as address, browser() as started:
        for (shape, window), scheme in ((s, c) for s in SHAPES.items() for c in SCHEMES):
            context = started.new_context(viewport=window, color_scheme=scheme)  # type: ignore[arg-type]
            for path, url in ((path, address + own) for path, own in pages.items()):
                if path.startswith(("/api/v1", "/reports/")) or "text/html" not in context.request.get(url).headers.get("content-type", ""):
                    continue
                target = folder / f"{name_of(path)}-{shape}-{scheme}.png"
                photograph(context, url, target, window["width"])
                sys.stdout.write(f"{target}\n")
            context.close()


if __name__ == "__main__":
    given = sys.argv[1:]
    if len(given) >= 3:
        main(*(Path(argument) for argument in given[:3]), given[3:])
    else:
        with tempfile.TemporaryDirectory(prefix="fleet-") as scratch:
            main(Path(given[0]), *rehearsed(Path(scratch)))
