"""Render templates as pages, with navigation and security headers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlencode

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi import Depends as depends
from fastapi.responses import HTMLResponse, JSONResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from pydantic_core import to_jsonable_python

from plumbline.archive import Archive
from plumbline.dashboard.access import can_see_costs, require_cost_access
from plumbline.dashboard.assets import Assets
from plumbline.dashboard.money_fields import shown_without_money, without_numbers
from plumbline.declarations import BrokenFiles
from plumbline.metrics.formatting import (
    capitalize_first,
    format_amount,
    format_bytes,
    format_change,
    format_money,
    format_name,
    format_percent,
    format_probability,
)
from plumbline.presentation.filters import Filter
from plumbline.presentation.series_summary import format_age
from plumbline.words.definitions import definition, definitions

Attempt = Annotated[int | None, Query(ge=1, le=2**31 - 1, description="the last usable one, else the last, if left out")]
"""No larger than what the archive's column holds."""

# A page loads only its own style sheets and scripts, none of them inline. Plotly places its letters and layers by style
# attributes and one style element of its own: hence 'unsafe-inline' for styles, and for styles alone.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'; "
    "frame-ancestors 'self'; base-uri 'none'; form-action 'self'"
)
LAST_VALID = "Plumbline-Last-Valid-Declarations"
"""Header of a page as JSON while files of declarations are broken: where, such as `teams/x.yaml:3`."""
T = TypeVar("T")
Endpoint = TypeVar("Endpoint", bound=Callable[..., Response])
_CODE_SPAN = re.compile(r"`([^`]+)`")
_SEPARATORS = re.compile(r"[^A-Za-z0-9]+")


@dataclass(frozen=True)
class TypedField:
    """A field as it was filled in; without a label it is hidden. `error`: why it is not accepted."""

    name: str
    value: str
    label: str = ""
    error: str = ""


@dataclass(frozen=True)
class RefusedForm:
    """A form that was not accepted. `buttons`: (value of `action`, label); `error`: what concerns no single field; `mended_at`: its page in Airflow."""

    action: str
    fields: tuple[TypedField, ...]
    buttons: tuple[tuple[str, str], ...]
    method: str = "post"
    error: str = ""
    mended_at: str = ""


@dataclass(frozen=True)
class NavEntry:
    """An entry of the navigation, by its place from left to right. `under`: the path of another one, below which it is listed on the pages of both."""

    place: int
    title: str
    path: str
    under: str = ""


@dataclass(frozen=True)
class PageRenderer:
    """Renders templates for one app. `now` is the clock of every page; `all_simulated`: whether nothing in the archive was measured;
    `broken`: why the last valid declarations are shown, None while the present ones are.
    `navigation`: the entries of the app's pages, each with whether it is of costs alone."""

    templates: Environment
    assets: Assets
    now: Callable[[], datetime]
    all_simulated: Callable[[], bool]
    broken: Callable[[], BrokenFiles | None]
    navigation: list[tuple[NavEntry, bool]]

    def entries(self, money: bool) -> list[NavEntry]:
        """The navigation of a reader, in order; `money`: with access to costs."""
        return sorted((entry for entry, costs in self.navigation if money or not costs), key=lambda entry: (entry.place, entry.title))

    def page(self, request: Request, name: str, view: Any = None, /, *, status: int = 200, **context: Any) -> Response:
        """The view model as JSON where the address ends with `.json`, else the template as a page, with `base` (mount path), `now`, `money` (access to costs), `nav`, `here` (its entry), `all_simulated`
        and `carried`, the query of links: of the filter `chosen`, if the page has one."""
        # Together: what a template compares with the view stays the same object.
        view, context = self.shown(request, (view, context))
        broken = self.broken()
        if wants_json(request):
            headers = {} if broken is None else {LAST_VALID: broken.places.encode("ascii", "backslashreplace").decode()}
            return JSONResponse(to_jsonable_python(view, inf_nan_mode="null"), status, headers)
        base = base_path(request)
        sees_costs = can_see_costs(request)
        context_filter = context.get("chosen")
        chosen = context_filter if isinstance(context_filter, Filter) else Filter()
        entries, path = self.entries(sees_costs), request.url.path.removeprefix(base)
        here = self._current_entry(path)
        context |= {
            "base": base,
            "now": self.now(),
            "nav": [(each.title, each.path, chosen.carried(each.path)) for each in entries if not each.under],
            "beside": [(each.title, each.path, each.path == path) for each in entries if here in (each.path, each.under)],
            "carried": chosen.carried,
            "chosen_fields": {name: str(value) for name, value in vars(chosen).items() if value and (name, value) != ("per", "token")},
            "money": sees_costs,
            "all_simulated": self.all_simulated(),
            "broken": broken,
            "here": here,
            "request": request,
        }
        html = self.templates.get_template(name).render(**context)
        if not sees_costs:
            html = without_numbers(html)
        return HTMLResponse(html, status, {"Content-Security-Policy": PAGE_POLICY, "Cache-Control": "no-store"})

    def shown(self, request: Request, value: T) -> T:
        """What the user of this request may see of a value; the one place at which a page's contents lose their money."""
        return value if can_see_costs(request) else shown_without_money(value)

    def json(self, request: Request, value: Any, headers: Mapping[str, str] | None = None) -> Response:
        """An answer for a page's script."""
        return JSONResponse(to_jsonable_python(self.shown(request, value), inf_nan_mode="null"), headers=headers)

    def _current_entry(self, path: str) -> str:
        """The entry of the navigation that a path belongs to; empty for campaigns, trials and reports, which have none."""
        first = f"/{path.split('/')[1]}" if path.count("/") else "/"
        return next((entry.under or entry.path for entry, _ in self.navigation if first == entry.path), "")

    def message(self, request: Request, title: str, text: str, status: int = 200) -> Response:
        """A page of one sentence. As JSON it is an error also where a page says "no results yet"."""
        if wants_json(request):
            return JSONResponse({"detail": text}, 503 if status == 200 else status)
        return self.page(request, "message.html.j2", status=status, title=title, text=text)

    def refused(
        self, request: Request, title: str, form: RefusedForm, status: int = 422, about: Sequence[tuple[str, str]] = ()
    ) -> Response:
        """The form again, with what was typed. `about`: (name, path) of what it acts on."""
        return self.page(request, "refused.html.j2", status=status, title=title, form=form, about=about)

    def refused_query(self, request: Request, errors: Mapping[str, str]) -> Response:
        """The form of a page's address again. `errors`: by field, "" for what concerns no single one."""
        if wants_json(request):
            return JSONResponse({"detail": "; ".join(f"{name}: {text}" if name else text for name, text in errors.items())}, 422)
        typed = {name: value for name, value in request.query_params.items() if name != "parts"}
        fields = tuple(
            TypedField(name, value, capitalize_first(format_name(name.removeprefix("w."))), errors.get(name, ""))
            for name, value in typed.items()
        )
        others = "; ".join(text for name, text in errors.items() if name not in typed)
        path = request.url.path.removeprefix(base_path(request))
        return self.refused(request, "Not accepted", RefusedForm(path, fields, (("", "Show"),), "get", others))


def make_renderer(
    all_simulated: Callable[[], bool] = lambda: False, broken: Callable[[], BrokenFiles | None] = lambda: None
) -> PageRenderer:
    """Pages over this package's templates."""
    templates, assets = _templates()
    return PageRenderer(templates, assets, lambda: datetime.now(timezone.utc), all_simulated, broken, [])


@cache
def _templates() -> tuple[Environment, Assets]:
    """The templates, compiled once for all apps of a process, and the files that they name."""
    assets = Assets()
    templates = Environment(
        loader=PackageLoader("plumbline.dashboard", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "words": format_name,
        "amount": format_amount,
        "money": format_money,
        "change": format_change,
        "size": format_bytes,
        "explanation": explanation,
        "chance": format_probability,
        "percent": format_percent,
        "sentence": capitalize_first,
        "anchor": anchor,
        "age": format_age,
        "code": code,
        "definition": definition,
        "definitions": definitions,
    }
    templates.globals["asset"] = assets.versioned
    return templates, assets


def base_path(request: Request) -> str:
    """The path that the app is mounted at; empty at the root."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def code(text: str) -> Markup:
    """The text with backticks as code elements."""
    return Markup(_CODE_SPAN.sub(r"<code>\1</code>", str(escape(text))))


def wants_json(request: Request) -> bool:
    """Whether the answer is a page's view model as JSON, or an error as JSON."""
    return request.url.path.endswith(".json")


class PageRoutes(APIRouter):
    """Routes of pages. Each page answers its view model as JSON too: at its own address with `.json`, the overview at `/overview.json`.

    `entry`: in the navigation; None of pages that have none. `money`: only readers with access to costs see them.
    """

    def __init__(self, entry: NavEntry | None = None, *, money: bool = False, include_in_schema: bool = True) -> None:
        super().__init__(include_in_schema=include_in_schema)
        self.entry, self.money = entry, money
        self._declared: list[tuple[str, Callable[..., Any], dict[str, Any]]] = []

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self._declared.append((path, endpoint, options))

    def add_to(self, app: FastAPI) -> None:
        """Add the routes to the app; including a router of FastAPI would analyze the signature of each endpoint twice."""
        dependencies = [depends(require_cost_access)] if self.money else []
        for path, endpoint, options in self._declared:
            behind = [*dependencies, *(options["dependencies"] or ())]
            shown = options["include_in_schema"] and self.include_in_schema
            app.router.add_api_route(path, endpoint, **{**options, "dependencies": behind, "include_in_schema": shown})

    def page(self, path: str) -> Callable[[Endpoint], Endpoint]:
        """Register an endpoint for both addresses."""

        def register(endpoint: Endpoint) -> Endpoint:
            # First: the page's own address would take `.json` for the end of a name.
            self.get("/overview.json" if path == "/" else f"{path}.json", response_class=JSONResponse)(endpoint)
            self.get(path, response_class=HTMLResponse, include_in_schema=False)(endpoint)
            return endpoint

        return register


def anchor(text: str) -> str:
    """The text as the id of an element."""
    return _SEPARATORS.sub("-", text).strip("-").lower()


def explanation(detail: Mapping[str, object]) -> str:
    """A finding's attribution; empty without one."""
    return str(detail.get("explanation") or "")


IMMEDIATE_PROVIDERS = 12
"""With results of so many providers or fewer, a page waits for all its parts: a loading state would only flash."""

Waiting = Literal["", "main", "all"]


def read_parts(request: Request, parts: Waiting = "") -> Waiting:
    """A page's dependency: what its address waits for. JSON waits for everything."""
    return "all" if wants_json(request) else parts


Parts = Annotated[Waiting, depends(read_parts)]
"""The parts that a page waits for: the parts that are cached, its main part too, or everything."""


def waits_for(archive: Archive, parts: Waiting) -> Waiting:
    """`parts`, or all of them where the fleet is small."""
    return parts if parts != "all" and len(archive.provider_names()) > IMMEDIATE_PROVIDERS else "all"


def address_with(request: Request, parts: Waiting) -> str:
    """The query of this page that waits for `parts`."""
    parameters = [(name, value) for name, value in request.query_params.multi_items() if name != "parts"]
    return f"?{urlencode([*parameters, ('parts', parts)])}"
