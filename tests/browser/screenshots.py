"""Pictures of a report.

`python tests/browser/screenshots.py FOLDER` writes a sample report and one PNG for each shape of window, unfolded.
`python tests/browser/screenshots.py REPORT.html PICTURE.png` takes the first screen of a report that was written: README's picture.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from chromium import SHAPES, browser, opened
from sample import campaign

from plumbline.presentation.html.report import write_report

README = {"width": 1280, "height": 800}


def sample(folder: Path) -> None:
    """Every shape of a sample report, with what the console said and what was asked of a network."""
    report = write_report(campaign(folder / "results"), folder / "reports")
    with browser() as started:
        for shape in SHAPES:
            with opened(started, report, shape) as (page, errors, requests):
                page.evaluate("document.querySelectorAll('section:not(#raw) details').forEach((box) => { box.open = true; })")
                page.screenshot(path=str(folder / f"report-{shape}.png"), full_page=True)
                sys.stdout.write(f"{folder / f'report-{shape}.png'}  console errors: {len(errors)}  requests: {len(requests)}\n")
                for line in (*errors, *requests):
                    sys.stdout.write(f"  {line}\n")


def first_screen(report: Path, picture: Path) -> None:
    """What a person sees who opens the report: light, and as wide as a page on a code host shows it."""
    with browser() as started, opened(started, report, "wide-light") as (page, _, _requests):
        page.set_viewport_size(README)  # type: ignore[arg-type]
        page.screenshot(path=str(picture))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        first_screen(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        sample(Path(sys.argv[1]))
