"""The API's documentation page, generated from its OpenAPI description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from plumbline.dashboard.rendering import PageRenderer, base_path

_EXAMPLES = {
    "series_key": "SERIES_KEY", "metric": "step_time", "campaign_id": "2026-11", "trial_id": "TRIAL_ID", "team": "platform", "kind": "training",
}  # fmt: skip


@dataclass(frozen=True)
class ApiParameter:
    """One parameter of a call. `shape`: its type, its choices and limits, in words."""

    name: str
    where: str
    required: bool
    shape: str
    meaning: str


@dataclass(frozen=True)
class ApiCall:
    """One thing that may be asked. `answer`: the fields of what comes back, nested ones after their parent with their depth."""

    method: str
    path: str
    anchor: str
    summary: str
    parameters: tuple[ApiParameter, ...]
    answer: tuple[tuple[int, str, str, str], ...]
    example: str


def api_calls(description: Mapping[str, Any]) -> tuple[ApiCall, ...]:
    """Every call of an OpenAPI document, in its order."""
    schemas = description.get("components", {}).get("schemas", {})
    calls = []
    for path, methods in description["paths"].items():
        for method, call in methods.items():
            parameters = tuple(_parameter(p, schemas) for p in call.get("parameters", ()))
            answer = call["responses"]["200"]["content"]["application/json"]["schema"]
            calls.append(
                ApiCall(
                    method=method.upper(),
                    path=path,
                    anchor=call["operationId"],
                    summary=call.get("description") or call["summary"],
                    parameters=parameters,
                    answer=tuple(_fields(answer, schemas)),
                    example=_example(path, parameters),
                )
            )
    return tuple(calls)


def _parameter(parameter: Mapping[str, Any], schemas: Mapping[str, Any]) -> ApiParameter:
    schema = parameter["schema"]
    meaning = parameter.get("description") or schema.get("description") or ""
    # What may be left out may be null: once said is enough.
    shape = _shape(schema, schemas).removesuffix(" or null")
    return ApiParameter(parameter["name"], parameter["in"], bool(parameter.get("required")), shape, meaning)


def _shape(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return _shape(_target(schema, schemas), schemas)
    if "anyOf" in schema:
        shapes = [_shape(s, schemas) for s in schema["anyOf"]]
        return " or ".join(dict.fromkeys(s for s in shapes))
    if "enum" in schema or "const" in schema:
        return ", ".join(str(v) for v in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        items = schema.get("items", {})
        return f"list of {_shape(items, schemas)}" if items else "list"
    limits = [f"{word} {schema[key]}" for key, word in (("minimum", "at least"), ("maximum", "at most")) if key in schema]
    if schema.get("default") not in (None, ""):
        limits.append(f"{schema['default']} if left out")
    shape = {"date-time": "time", "date": "day"}.get(schema.get("format", ""), schema.get("type", "anything"))
    return ", ".join([shape, *limits])


def _target(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    target: Mapping[str, Any] = schemas[schema["$ref"].rpartition("/")[2]]
    return target


def _fields(schema: Mapping[str, Any], schemas: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[int, str, str, str]]:
    """(depth, name, shape, meaning) of an object's fields and of those inside them."""
    if "$ref" in schema:
        schema = _target(schema, schemas)
    if schema.get("type") == "array":
        yield from _fields(schema.get("items", {}), schemas, depth)
        return
    for name, field in schema.get("properties", {}).items():
        element = field
        while "$ref" in element or element.get("type") == "array":
            element = _target(element, schemas) if "$ref" in element else element.get("items", {})
        has_fields = "properties" in element and depth < 3
        shape = ("list of objects" if field.get("type") == "array" else "object") if has_fields else _shape(field, schemas)
        yield depth, name, shape, field.get("description", "")
        if has_fields:
            yield from _fields(element, schemas, depth + 1)


def _example(path: str, parameters: tuple[ApiParameter, ...]) -> str:
    for p in parameters:
        if p.where == "path":
            path = path.replace(f"{{{p.name}}}", _EXAMPLES.get(p.name, p.name.upper()))
    query = {p.name: _EXAMPLES.get(p.name, p.name.upper()) for p in parameters if p.where == "query" and p.required}
    return path + (f"?{urlencode(query)}" if query else "")


def _address(request: Request) -> str:
    """Where the pages are, with the path that they are mounted at: `base_url` is that of the outermost app, Airflow."""
    return f"{request.url.scheme}://{request.url.netloc}{base_path(request)}"


def router(pages: PageRenderer) -> APIRouter:
    """`/api` and `/api/openapi.json`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/api", response_class=HTMLResponse)
    def show_api(request: Request) -> Response:
        return pages.page(request, "api.html.j2", calls=api_calls(request.app.openapi()), origin=_address(request))

    @routes.get("/api/openapi.json")
    def show_description(request: Request) -> Response:
        description: dict[str, Any] = {**request.app.openapi(), "servers": [{"url": base_path(request) or "/"}]}
        return JSONResponse(description)

    return routes
