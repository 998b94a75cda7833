"""Pictures of pages.

`python -m tests.browser.page_photos --docs [F3 F50]` retakes all pictures of pages in docs/images, of a year of three providers and of
fifty. F3, F50: folders of `tests.browser.fleet` and `tests.browser.large_fleet`; what is not there is simulated first.

`python -m tests.browser.page_photos FOLDER [HOME CONFIG [ADDRESS …]]` takes PAGE-{wide,phone}-{light,dark}.webp of each route of the app,
or of these addresses.
"""

from __future__ import annotations

import io
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image
from playwright.sync_api import BrowserContext

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "include")]

from tests.browser import fleet, large_fleet  # noqa: E402
from tests.browser.airflow_pages import examples, routes  # noqa: E402
from tests.browser.chromium import browser  # noqa: E402
from tests.browser.served import served  # noqa: E402
from tests.data.page_addresses import address_of  # noqa: E402

from plumbline.dashboard.app import create_app  # noqa: E402
from plumbline.declarations.installation import override_home  # noqa: E402

SHAPES = {"wide": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
SCHEMES = ("light", "dark")
LONGEST = 1800
_PATIENCE_MS = 180_000  # fifty providers on a busy machine
QUALITY = 45
"""Of WebP: letters of 12 pixels have clean edges."""
_BOTH = (
    "/",
    "/providers",
    "/providers/{provider}",
    "/workloads/{workload}",
    "/decisions/{team}/{kind}",
)
DOCS = {
    "pages": (
        (*_BOTH, "/findings", "/since", "/prices", "/spend", "/providers/{provider}/promises"),
        ("/workloads", "/findings/{finding_id}", "/campaigns/{campaign_id}", "/trials/{trial_id}"),
    ),
    "pages-50": (("/", "/findings", "/decisions/{team}/{kind}"), ("/providers", "/workloads/{workload}", "/campaigns/{campaign_id}")),
}
"""Folder of docs/images → routes taken wide and on a phone, and routes taken wide only."""
Picture = tuple[str, str, str]
"""Route or address, shape, scheme."""


def name_of(path: str) -> str:
    """A route's name as a file: /decisions/{team}/{kind} is decisions-team-kind."""
    return re.sub(r"[^a-z0-9]+", "-", path).strip("-") or "overview"


def photograph(context: BrowserContext, url: str, target: Path, width: int) -> None:
    """One page from its top, once its charts are drawn."""
    page = context.new_page()
    page.goto(url, wait_until="load", timeout=_PATIENCE_MS)
    page.wait_for_function("() => !document.querySelector('[data-later]')", timeout=_PATIENCE_MS)
    page.wait_for_function("() => document.querySelectorAll('.chart').length === document.querySelectorAll('.chart.js-plotly-plot').length")
    page.wait_for_timeout(300)
    high = min(page.evaluate("document.documentElement.scrollHeight"), LONGEST)
    taken = page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": width, "height": high})
    page.close()
    Image.open(io.BytesIO(taken)).convert("RGB").save(target, quality=QUALITY, method=6)


def take(folder: Path, home: Path, config: Path, pictures: Sequence[Picture], addresses: Mapping[str, str]) -> None:
    """Write each picture. `addresses`: of each route the page that stands for it."""
    folder.mkdir(parents=True, exist_ok=True)
    with override_home(home, config), served(create_app()) as address, browser() as started:
        for shape, scheme in dict.fromkeys(picture[1:] for picture in pictures):
            context = started.new_context(viewport=SHAPES[shape], color_scheme=scheme)  # type: ignore[arg-type]
            for path in (path for path, *own in pictures if own == [shape, scheme]):
                url = address + addresses[path]
                if "text/html" in context.request.get(url, timeout=_PATIENCE_MS).headers.get("content-type", ""):
                    target = folder / f"{name_of(path)}-{shape}-{scheme}.webp"
                    photograph(context, url, target, SHAPES[shape]["width"])
                    sys.stdout.write(f"{target}\n")
            context.close()


def main(folder: Path, home: Path, config: Path, addresses: Sequence[str] = ()) -> None:
    """Every page, or these, in every shape and scheme."""
    pages = {path: path for path in addresses} or example_addresses(home, config)
    take(folder, home, config, [(path, shape, scheme) for shape in SHAPES for scheme in SCHEMES for path in pages], pages)


def example_addresses(home: Path, config: Path) -> dict[str, str]:
    """Route → an example of its pages; `/budgets` is another one's old address."""
    known = examples(home, config)
    shown = [
        route for route in routes(home, config) if not route.path.startswith(("/reports/", "/budgets")) and not route.path.endswith(".json")
    ]
    return {route.path: address_of(route, known) for route in shown}


def docs_pictures(fleets: Sequence[Path]) -> None:
    """All of `DOCS`; what was there before goes."""
    for (name, (both, wide)), folder, simulate in zip(DOCS.items(), fleets, (fleet.rehearsed, large_fleet.rehearsed), strict=True):
        home, config = folder / "home", folder / "config"
        if not home.exists():
            simulate(folder)
        target = ROOT / "docs" / "images" / name
        shutil.rmtree(target, ignore_errors=True)
        pictures = [(path, shape, "light") for shape, paths in (("wide", (*both, *wide)), ("phone", both)) for path in paths]
        take(target, home, config, pictures, example_addresses(home, config))


if __name__ == "__main__":
    given = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="fleet-") as scratch:
        if given[0] == "--docs":
            docs_pictures([Path(folder) for folder in given[1:]] or [Path(scratch) / name for name in DOCS])
        elif len(given) >= 3:
            main(*(Path(argument) for argument in given[:3]), given[3:])
        else:
            main(Path(given[0]), *fleet.rehearsed(Path(scratch)))
