"""The documentation as a site: `make docs`. Where a page is in the navigation, and what is made from the code."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mdit_py_plugins.anchors.index import slugify

sys.path.insert(0, str(Path(__file__).parent))
import reference_pages

from plumbline.results import schema

ROOT = Path(__file__).resolve().parents[1]
project = "Plumbline"
html_title = "Plumbline"
extensions = ["myst_parser"]
html_theme = "furo"
html_static_path = ["site.css", "search_order.js"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
exclude_patterns = ["vocabulary.txt"]
myst_heading_anchors = 4
highlight_language = "text"

NAVIGATION = {
    "Start": ["tour", "quickstart", "package", "in-your-words", "faq", "limits"],
    "Measure": [
        *(
            "add-a-provider",
            "declare-a-provider",
            "declare-a-workload",
            "declare-a-model",
            "your-own-model",
            "your-own-training",
            "any-container",
            "two-clusters",
            "your-prompts",
            "engines",
        ),
        *(
            "request-patterns",
            "load-a-server",
            "clusters",
            "slurm-and-ssh",
            "rehearse-with-simulation",
            "rerun-on-demand",
            "hardware-probes",
            "selfcheck",
            "import-results",
        ),
    ],
    "Read": [
        *("my-alert", "pages", "read-a-report", "read-a-scorecard", "read-a-finding", "read-a-training-result", "read-an-inference-result"),
        *("compare", "export-tables", "grafana"),
    ],
    "Decide": ["decide", "decisions-method", "cost", "cost-scenarios", "own-or-rent", "replay-prices", "promises", "evidence-packs"],
    "Operate": [
        *(
            "operate",
            "upgrading",
            "your-airflow",
            "team-server",
            "single-sign-on",
            "scale",
            "gitops",
            "credentials",
            "security",
            "reliability",
            "alerts",
            "slack-messages",
        ),
        *("acceptance", "watch-providers", "watch-environment", "availability", "watch-prices"),
    ],
    "Extend": ["read-the-code", "extend", "house", "reference/contributing"],
    "Reference": [
        "command-line",
        "sample-files",
        "reference/commands",
        "reference/configuration",
        "reference/metrics",
        "reference/changes",
    ],
}
BELOW = {"clusters": ["providers/*"], "house": ["decisions/*", "measurements/*"]}
"""Pages of a folder, below a page of the navigation."""
FROM_ROOT = {"CONTRIBUTING.md": "reference/contributing.md", "CHANGELOG.md": "reference/changes.md", "README.md": "index.md"}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)((?:#[^)\s]*)?)\)")
_GLOSSARY = "in-your-words"
_ROW = re.compile(r"\| (?P<words>[^|]+) \| [^|]*?\]\((?P<page>[\w-]+)\.md(?:#(?P<anchor>[\w-]+))?\)")
_HEADING = re.compile(r"#+ (.+)$")


def synonyms() -> dict[str, dict[str, list[str]]]:
    """Index entries by page and anchor (empty: the page), from the rows of docs/in-your-words.md.

    The words of a row lead to its first link. The row's own section has each with a mark, so that the search shows it second."""
    found: dict[str, dict[str, list[str]]] = {}
    section = ""
    for line in (ROOT / "docs" / f"{_GLOSSARY}.md").read_text(encoding="utf-8").splitlines():
        if heading := _HEADING.match(line):
            section = slugify(heading[1])
        elif row := _ROW.match(line):
            words = [word.strip().lower() for word in row["words"].split(",")]
            found.setdefault(row["page"], {}).setdefault(row["anchor"] or "", []).extend(words)
            found.setdefault(_GLOSSARY, {}).setdefault(section, []).extend(f"{word} …" for word in words)
    return found


def with_synonyms(text: str, places: dict[str, list[str]]) -> str:
    """The page with index entries beside the headings of `places` (anchor to words); its search puts index entries first."""
    lines: list[str] = []
    missing, code = dict(places), False
    for line in text.splitlines():
        code ^= line.startswith("```")
        heading = None if code else _HEADING.match(line)
        title = line.startswith("# ") and not lines
        words = missing.pop("" if title else slugify(heading[1]), None) if heading else None
        entries = ["```{index} " + ", ".join(f"! {word}" for word in words), "```"] if words else []
        lines += [line, "", *entries] if title else [*entries, "", line] if entries else [line]
    if missing:
        raise ValueError(f"docs/{_GLOSSARY}.md links to {', '.join(missing)}, which the page does not have")
    return "\n".join(lines) + "\n"


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
    if places := synonyms().get(page):
        app.env.note_dependency(str(ROOT / "docs" / f"{_GLOSSARY}.md"))
        source[0] = with_synonyms(source[0], places)
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
    (Path(app.outdir) / schema.FILE_NAME).write_text(schema.schema_text(), encoding="utf-8")


def _search_page(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    if page == "search":
        app.add_js_file("search_order.js", loading_method="defer")  # runs after Sphinx's own, which it orders


def setup(app: Any) -> None:
    app.connect("html-page-context", _search_page)
    app.connect("builder-inited", _write)
    app.connect("source-read", _read)
