"""Pictures of a sample report: `python tests/browser/screenshots.py FOLDER` writes the report and one PNG for each shape of window."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from chromium import SHAPES, browser, opened
from sample import campaign

from plumbline.reports import write


def main(folder: Path) -> None:
    report = write(campaign(folder / "results"), folder / "reports")
    with browser() as started:
        for shape in SHAPES:
            with opened(started, report, shape) as (page, errors, requests):
                page.screenshot(path=str(folder / f"report-{shape}.png"), full_page=True)
                sys.stdout.write(f"{folder / f'report-{shape}.png'}  console errors: {len(errors)}  requests: {len(requests)}\n")
                for line in (*errors, *requests):
                    sys.stdout.write(f"  {line}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
