"""How a page is made: a template with its place in the navigation, and the headers that keep it to itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from plumbline.dashboard.access import money
from plumbline.dashboard.assets import Assets
from plumbline.dashboard.overview import explanation
from plumbline.reports.figures import chance, percent, sentence, size, words

NAV = (
    ("Overview", "/"),
    ("Providers", "/providers"),
    ("Workloads", "/workloads"),
    ("Decisions", "/decisions"),
    ("Findings", "/findings"),
    ("Prices", "/prices"),
    ("Budgets", "/budgets"),
    ("API", "/api"),
)
OF_MONEY = ("/decisions", "/prices", "/budgets")
# A page loads its own style sheets and scripts and nothing else, and no script stands in it. Plotly places its letters and layers by style
# attributes and one style element of its own: hence 'unsafe-inline' for styles, and for styles alone.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'; "
    "frame-ancestors 'self'; base-uri 'none'; form-action 'self'"
)
API = "/api/v1/"
_TICKED = re.compile(r"`([^`]+)`")
_BETWEEN = re.compile(r"[^A-Za-z0-9]+")


@dataclass(frozen=True)
class Pages:
    """Renders templates for one app. `now` is the clock of every page."""

    templates: Environment
    assets: Assets
    now: Callable[[], datetime]

    def page(self, request: Request, name: str, status: int = 200, **context: Any) -> HTMLResponse:
        """The template as a page. It knows `base` (where the app is mounted), `now`, whether its reader may see `money`, and which entry of the navigation it belongs to."""
        base = base_of(request)
        seen = money(request)
        nav = [place for place in NAV if seen or place[1] not in OF_MONEY]
        context |= {
            "base": base,
            "now": self.now(),
            "nav": nav,
            "money": seen,
            "here": _here(request.url.path.removeprefix(base)),
            "request": request,
        }
        html = self.templates.get_template(name).render(**context)
        return HTMLResponse(html, status, {"Content-Security-Policy": PAGE_POLICY, "Cache-Control": "no-store"})

    def message(self, request: Request, title: str, text: str, status: int = 200) -> HTMLResponse:
        """A page of one sentence."""
        return self.page(request, "message.html.j2", status, title=title, text=text)


def make_pages(now: Callable[[], datetime] | None = None) -> Pages:
    """Pages over this package's templates; `now`: the wall clock if left out."""
    assets = Assets()
    templates = Environment(
        loader=PackageLoader("plumbline.dashboard", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "words": words,
        "size": size,
        "explanation": explanation,
        "chance": chance,
        "percent": percent,
        "sentence": sentence,
        "anchor": anchor,
        "code": code,
    }
    templates.globals["asset"] = assets.versioned
    return Pages(templates, assets, now or (lambda: datetime.now(timezone.utc)))


def base_of(request: Request) -> str:
    """The path that the app is mounted at; empty at the root."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def code(text: str) -> Markup:
    """The text with what stands between backticks as code."""
    return Markup(_TICKED.sub(r"<code>\1</code>", str(escape(text))))


def is_api(request: Request) -> bool:
    """Whether a program asks: its errors are JSON, not pages."""
    return request.url.path.removeprefix(base_of(request)).startswith(API)


def anchor(text: str) -> str:
    """The text as the id of an element."""
    return _BETWEEN.sub("-", text).strip("-").lower()


def _here(path: str) -> str:
    """The entry of the navigation that a path belongs to; campaigns, trials and reports are found from the overview."""
    first = f"/{path.split('/')[1]}" if path.count("/") else "/"
    return first if first in {at for _, at in NAV} else "/"
