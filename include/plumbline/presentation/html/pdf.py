"""A written report as PDF, printed by the Chromium of this machine: page one is the cover, folded sections stay folded."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from plumbline.whole_file import whole_file

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
VARIABLE = "CHROMIUM"
LIMIT_S = 180


class NoBrowser(RuntimeError):
    """No Chromium on this machine, or one that cannot print. The message names what is expected."""


def write_pdf(page: Path) -> Path:
    """`<page>.pdf` beside the HTML file, whole or not at all; NoBrowser without a Chromium that prints it."""
    browser = find_browser()
    target = page.with_suffix(".pdf")
    with tempfile.TemporaryDirectory(prefix="plumbline-pdf-") as scratch:
        draft = Path(scratch) / target.name
        command = [browser, "--headless", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={scratch}/profile"]
        # Chromium's sandbox refuses root, as in containers; the only page is our own file, and it loads nothing.
        command += ["--no-sandbox"] if os.name == "posix" and os.geteuid() == 0 else []
        command += ["--no-pdf-header-footer", f"--print-to-pdf={draft}", page.resolve().as_uri()]
        try:
            process = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoBrowser(f"{browser} does not print {page.name}: {error}; expected a Chromium or Chrome that runs headless") from error
        if process.returncode or not draft.is_file():
            last_line = (process.stderr.strip().splitlines() or ["no output"])[-1]
            raise NoBrowser(f"{browser} ended with {process.returncode} and wrote no PDF: {last_line}")
        with whole_file(target) as part:
            shutil.copyfile(draft, part)
    return target


def find_browser() -> str:
    """The Chromium or Chrome named in CHROMIUM, else the first one installed; NoBrowser without one."""
    override = os.environ.get(VARIABLE)
    if override:
        if shutil.which(override) is None:
            raise NoBrowser(f"{VARIABLE} is {override}, which is no program; expected the path of a Chromium or Chrome")
        return override
    installed = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if installed is None:
        raise NoBrowser(f"no Chromium to print the PDF with; install the package chromium, or name a Chromium or Chrome in {VARIABLE}")
    return installed
