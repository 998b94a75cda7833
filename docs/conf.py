"""The documentation as a site: `make docs`. Where a page is in the navigation, and what is made from the code."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import reference_pages

ROOT = Path(__file__).resolve().parents[1]
project = "Plumbline"
html_title = "Plumbline"
extensions = ["myst_parser"]
html_theme = "furo"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
exclude_patterns = ["vocabulary.txt"]
myst_heading_anchors = 4
highlight_language = "text"

NAVIGATION = {
    "Start": ["tour", "quickstart", "faq", "limits"],
    "Measure": [
        *("declare-a-provider", "declare-a-workload", "declare-a-model", "your-own-model", "your-prompts", "engines", "request-patterns"),
        *("clusters", "rehearse-with-simulation", "rerun-on-demand", "hardware-probes", "selfcheck", "import-results"),
    ],
    "Read": [
        *("pages", "read-a-report", "read-a-scorecard", "read-a-finding", "read-a-training-result", "read-an-inference-result"),
        *("compare", "export-tables", "grafana"),
    ],
    "Decide": ["decide", "decisions-method", "cost", "cost-scenarios", "replay-prices", "evidence-packs"],
    "Operate": [
        *("operate", "team-server", "scale", "gitops", "credentials", "security", "reliability", "alerts", "slack-messages"),
        *("watch-providers", "watch-environment", "watch-prices"),
    ],
    "Extend": ["extend", "house", "reference/contributing"],
    "Reference": ["command-line", "reference/commands", "reference/configuration", "reference/metrics", "reference/changes"],
}
BELOW = {"clusters": ["providers/*"], "house": ["decisions/*", "measurements/*"]}
"""Pages of a folder, below a page of the navigation."""
FROM_ROOT = {"CONTRIBUTING.md": "reference/contributing.md", "CHANGELOG.md": "reference/changes.md", "README.md": "index.md"}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)((?:#[^)\s]*)?)\)")


def contents(pages: list[str], caption: str = "") -> str:
    options = [":hidden:", ":glob:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", "", "```{toctree}", *options, "", *pages, "```", ""])


def local_links(text: str, folder: str, at: str) -> str:
    """The page's links as the site has them. `folder`: of the page in the site; `at`: the repository's folder that its links start from.

    A file outside the site becomes its path in the repository; the README is the first page."""

    def link(found: re.Match[str]) -> str:
        image, title, target, anchor = found.groups()
        path = posixpath.normpath(posixpath.join(at, target))
        if "://" in target or not (ROOT / path).exists():
            return found[0]  # what is missing is reported by the build
        inside = FROM_ROOT.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") and (ROOT / path).is_file() else None)
        if inside is None:
            return title if path in title else f"{title} (`{path}`)"
        return f"{image}[{title}]({posixpath.relpath(inside, folder or '.')}{anchor})"

    return _LINK.sub(link, text)


def _read(app: Any, page: str, source: list[str]) -> None:
    folder = posixpath.dirname(page)
    if folder != "reference":
        source[0] = local_links(source[0], folder, posixpath.join("docs", folder))
    if page == "index":
        source[0] += "".join(contents(pages, caption) for caption, pages in NAVIGATION.items())
    elif page in BELOW:
        source[0] += contents(BELOW[page])


def _write(app: Any) -> None:
    folder = ROOT / "docs" / "reference"
    folder.mkdir(exist_ok=True)
    pages = {name: made() for name, made in reference_pages.PAGES.items()}
    pages |= {
        Path(page).name: local_links((ROOT / name).read_text(encoding="utf-8"), "reference", ".")
        for name, page in FROM_ROOT.items()
        if page != "index.md"
    }
    for name, text in pages.items():
        if not (folder / name).exists() or (folder / name).read_text(encoding="utf-8") != text:
            (folder / name).write_text(text, encoding="utf-8")


def setup(app: Any) -> None:
    app.connect("builder-inited", _write)
    app.connect("source-read", _read)
