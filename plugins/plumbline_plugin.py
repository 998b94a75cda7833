"""Puts Plumbline into Airflow's navigation and listens for benchmarks that begin. Every component of Airflow executes this file, so it builds
nothing by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from plumbline.airflow import pool_listener
from plumbline.dashboard import LazyApp

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI

PREFIX = "/plumbline"


def guarded() -> FastAPI:
    """The dashboard for people who may see plugins in Airflow; anybody else gets 401 or 403 on every route."""
    from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
    from airflow.api_fastapi.core_api.security import requires_access_view
    from fastapi import Depends

    from plumbline.dashboard.app import create_app

    return create_app(dependencies=[Depends(requires_access_view(AccessView.PLUGINS))], may_see_money=_may_see_money())


def _may_see_money() -> Callable[..., bool]:
    """By FAB's own permission; the simple auth manager knows none, so there who may read connections may see prices."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi import Depends

    from plumbline.embedded.team_server import MONEY_PERMISSION

    def may(user: Any = Depends(get_user)) -> bool:  # noqa: B008 (an annotation would be read where these names are not)
        manager = get_auth_manager()
        if isinstance(manager, SimpleAuthManager):
            return manager.is_authorized_connection(method="GET", user=user)
        return manager.is_authorized_custom_view(method="GET", resource_name=MONEY_PERMISSION[1], user=user)

    return may


class PlumblinePlugin(AirflowPlugin):
    name = "plumbline"
    listeners = [pool_listener]  # noqa: RUF012 (Airflow's own attribute)
    fastapi_apps = [{"app": LazyApp(guarded), "url_prefix": PREFIX, "name": "Plumbline"}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        {
            "name": "Plumbline",
            # Behind a base_url with a path, Airflow mounts plugins below that path, and the link must say so.
            "href": f"{urlsplit(conf.get('api', 'base_url', fallback='')).path.rstrip('/')}{PREFIX}/",
            "destination": "nav",
            "url_route": "plumbline",
        }
    ]
