"""An app of the dashboard is built in a quarter of the time: tests build hundreds.

FastAPI reads each endpoint's signature again for every app, and makes a validator of every parameter. The endpoints are closures over the
app's archive, but their signatures are the same; what was read from one serves the next, with the next one's function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from types import FunctionType
from typing import Any

from fastapi import routing
from fastapi.dependencies import utils as dependencies
from fastapi.dependencies.models import Dependant

_read = dependencies.get_dependant
_known: dict[tuple[object, ...], Dependant] = {}


def install() -> None:
    """For all apps that this process builds from now on."""
    routing.get_dependant = dependencies.get_dependant = _get_dependant


def _get_dependant(*, path: str, call: Callable[..., Any], **more: Any) -> Dependant:
    if not isinstance(call, FunctionType):
        return _read(path=path, call=call, **more)
    asked = sorted((name, tuple(value) if isinstance(value, list) else value) for name, value in more.items())
    # Defaults can name a function of the app's own, which makes another signature.
    named = sorted((call.__kwdefaults__ or {}).items())
    key = (path, *asked, call.__code__, call.__defaults__, *named, *sorted(call.__annotations__.items()))
    try:
        known = _known.get(key)
    except TypeError:  # a default without a hash
        return _read(path=path, call=call, **more)
    if known is None:
        known = _known[key] = _own(_read(path=path, call=call, **more), call)
    return _own(known, call)


def _own(known: Dependant, call: Callable[..., Any]) -> Dependant:
    """One whose lists a route may add to."""
    lists = {field.name: list(value) for field in fields(known) if isinstance(value := getattr(known, field.name), list)}
    return replace(known, **{**lists, "call": call})
