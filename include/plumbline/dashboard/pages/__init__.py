"""Pages, found by this folder: one file a page, whose `router` takes the site and gives its routes."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module

from plumbline.dashboard.rendering import PageRoutes
from plumbline.dashboard.site import Site


def all_routes(site: Site) -> Iterator[PageRoutes]:
    """The routes of each file, by name."""
    for found in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name):
        yield import_module(f"{__name__}.{found.name}").router(site)
