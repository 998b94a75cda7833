"""Data Docs: the pages of a check, kept as a small static site that reads without a network.

Great Expectations renders the page of each suite; its scripts, styles and logos come from other people's servers, so they are
taken out and a style of ours put in. The index is ours: verdicts first.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from jinja2 import Environment, PackageLoader

from plumbline.quality.gx import page_of
from plumbline.quality.report import Verdict
from plumbline.quality.validation import ExpectationOutcome
from plumbline.results import Reason

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$")
_SCRIPTS = re.compile(r"<script\b.*?</script\s*>|<footer\b.*?</footer\s*>", re.DOTALL | re.IGNORECASE)
_LOADING = re.compile(r"<(?:script|link|img|iframe|object|embed|source|base|meta)\b[^>]*>", re.DOTALL | re.IGNORECASE)
_SITE_LINK = re.compile(r"<a\s[^>]*href=\"\.\./[^>]*>(.*?)</a>", re.DOTALL | re.IGNORECASE)  # to pages of a site that is not built
_REMOTE_STYLE = re.compile(r"url\([^)]*\)", re.IGNORECASE)
# Great Expectations does not escape what it shows: whatever markup stands in a result, a browser must neither run nor load it.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

_templates = Environment(loader=PackageLoader("plumbline.quality"), autoescape=True)


def write_site(
    docs: Path,
    name: str,
    outcomes: Sequence[ExpectationOutcome],
    verdicts: Mapping[str, Verdict],
    problems: Sequence[Reason],
    success: bool,
) -> Path:
    """Write `docs/name/index.html` and a page for each suite; the index's path. The whole folder appears at once or not at all."""
    if not _NAME.match(name):
        raise ValueError(f'"{name}" cannot name a folder of Data Docs; expected letters, digits, dots, dashes and underscores')
    docs.mkdir(parents=True, exist_ok=True)
    draft, old = docs / f".{name}.{os.getpid()}.new", docs / f".{name}.{os.getpid()}.old"
    for leftover in (draft, old):
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        draft.mkdir()
        for outcome in outcomes:
            (draft / f"{outcome.suite}.html").write_text(strip_remote(page_of(outcome.result)), encoding="utf-8")
        index = _templates.get_template("index.html.j2").render(
            name=name,
            style=style(),
            policy=_POLICY,
            outcomes=outcomes,
            verdicts=verdicts,
            problems=problems,
            success=success,
            checked_at=datetime.now(timezone.utc),
        )
        (draft / "index.html").write_text(index, encoding="utf-8")
        final = docs / name
        if final.exists():
            final.rename(old)
        draft.rename(final)
    finally:
        shutil.rmtree(draft, ignore_errors=True)  # renamed by now, or cut short by a full disk
    shutil.rmtree(old, ignore_errors=True)
    return final / "index.html"


def strip_remote(page: str) -> str:
    """The page without anything that is run or loaded, and with our own style; its text, tables and links stay as they are."""
    for pattern in (_SCRIPTS, _LOADING):
        page = pattern.sub("", page)
    page = _SITE_LINK.sub(r"\1", page)
    head = f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    page = _REMOTE_STYLE.sub("none", page).replace("<head>", f"<head>{head}", 1).replace("</head>", f"<style>{style()}</style></head>", 1)
    return page.replace("<body>", '<body><p class="pl-back"><a href="index.html">Verdicts</a></p>', 1)


def style() -> str:
    """The style of all pages."""
    return _templates.get_template("pages.css").render()
