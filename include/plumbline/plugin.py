"""Puts Plumbline into Airflow's navigation and listens for benchmarks that begin. Every component of Airflow executes this file, so it builds
nothing by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from plumbline.airflow import pool_listener, preload
from plumbline.dashboard import LazyApp

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI

    from plumbline.dashboard.acting import Acting

PREFIX = "/plumbline"


def guarded() -> FastAPI:
    """The dashboard for people who may see plugins and Plumbline's DAGs in Airflow; anybody else gets 401 or 403 on every route. In an Airflow
    that several teams share, each may see plugins, and a role says whose DAGs."""
    from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
    from airflow.api_fastapi.core_api.security import requires_access_view
    from fastapi import Depends

    from plumbline.airflow.action_runs import active_runs
    from plumbline.dashboard.app import create_app

    seen_by = [Depends(requires_access_view(AccessView.PLUGINS)), Depends(_reads_our_dags())]
    return create_app(seen_by, may_see_money=_may_see_money(), acting=_acting(), active_runs=active_runs)


def _reads_our_dags() -> Callable[..., None]:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
    from airflow.api_fastapi.core_api.security import get_user
    from airflow.models import DagModel  # noqa: TID251 (the API server has the metadata database)
    from fastapi import Depends, HTTPException

    from plumbline.workflows.plan import REVIEW_DAG

    def check(user: Any = Depends(get_user)) -> None:  # noqa: B008 (an annotation would be read where these names are not)
        details = DagDetails(id=REVIEW_DAG, team_name=DagModel.get_team_name(REVIEW_DAG))
        if not get_auth_manager().is_authorized_dag(method="GET", details=details, user=user):
            raise HTTPException(403, f"Plumbline's pages require a role that may read its DAGs, such as {REVIEW_DAG}")

    return check


def _acting() -> Acting:
    """Who may start runs of the DAG `finding_action` may act on findings; the forms are signed with Airflow's secret."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
    from airflow.api_fastapi.auth.tokens import get_signing_key
    from airflow.api_fastapi.core_api.security import get_user
    from airflow.models import DagModel  # noqa: TID251 (the API server has the metadata database)
    from fastapi import Depends

    from plumbline.airflow.action_runs import ActionRuns
    from plumbline.dashboard.acting import Acting, Actor

    def actor(user: Any = Depends(get_user)) -> Actor:  # noqa: B008 (an annotation would be read where these names are not)
        def may_start(dag_id: str) -> bool:
            details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
            return bool(get_auth_manager().is_authorized_dag(method="POST", access_entity=DagAccessEntity.RUN, details=details, user=user))

        return Actor(user.get_id(), user.get_name(), may_start)

    return Acting(actor, ActionRuns(), get_signing_key("api", "secret_key"))


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
            return bool(manager.is_authorized_connection(method="GET", user=user))
        return bool(manager.is_authorized_custom_view(method="GET", resource_name=MONEY_PERMISSION[1], user=user))

    return may


class PlumblinePlugin(AirflowPlugin):  # type: ignore[misc]  # airflow's types are not followed
    name = "plumbline"
    listeners = [pool_listener, preload]  # noqa: RUF012 (Airflow's own attribute)
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
