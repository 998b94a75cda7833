"""Who may act on findings and start repeats, and the signed forms with which they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from fastapi import Depends, HTTPException, Request
from fastapi.params import Depends as Dependency
from itsdangerous import BadSignature, URLSafeTimedSerializer

from plumbline.archive import FindingView
from plumbline.workflows.finding_action import ActionRun, RunOfDag
from plumbline.workflows.plan import ACTION_DAG, REASON_LIMIT

REFUSED = f"actions on findings require a role that may start runs of the DAG {ACTION_DAG}: docs/team-server.md (Users and roles)"
FORM_REFUSED = "the form is not valid for this user, or older than 12 hours: reload the page"
_FORM_LIFE_S = 12 * 3600


@dataclass(frozen=True)
class Actor:
    """The user of a request. `may_start`: whether they may start runs of a DAG."""

    user_id: str
    name: str
    may_start: Callable[[str], bool]


class Runs(Protocol):
    """Applies requests: in Airflow by runs of their DAGs."""

    def start(self, request: RunOfDag, key: str, by: str) -> ActionRun:
        """AlreadyStarted if a run with this key did not fail."""

    def latest(self) -> Mapping[str, ActionRun]:
        """The newest runs by key."""


@dataclass(frozen=True)
class Acting:
    """`actor`: a dependency of FastAPI's that returns the Actor. `secret`: signs forms; the same in every replica."""

    actor: Callable[..., Actor]
    runs: Runs
    secret: str

    def note_actor(self) -> Dependency:
        """Store the user once per request; `actor_of` reads it."""

        def note(request: Request, actor: Actor = Depends(self.actor)) -> None:  # noqa: B008
            request.state.actor = actor

        dependency: Dependency = Depends(note)
        return dependency

    def form_token(self, actor: Actor, view: FindingView) -> str:
        """Ties a form to its user and to the state of the finding that the user sees."""
        return self.sign(actor, "finding_action", view.finding_id, view.updated_at.isoformat())

    def sign(self, actor: Actor, purpose: str, *values: str) -> str:
        """A form's token: what it is for, its user and its values."""
        return self._serializer(purpose).dumps([actor.user_id, *values])

    def verify(self, actor: Actor, purpose: str, token: str) -> list[str]:
        """The values of a token; 403 for another user's or purpose's token, an old or a changed one."""
        try:
            user_id, *values = map(str, self._serializer(purpose).loads(token, max_age=_FORM_LIFE_S))
        except (BadSignature, ValueError):
            raise HTTPException(403, FORM_REFUSED) from None
        if user_id != str(actor.user_id):
            raise HTTPException(403, FORM_REFUSED)
        return values

    def _serializer(self, purpose: str) -> URLSafeTimedSerializer:
        return URLSafeTimedSerializer(self.secret, salt=f"plumbline.{purpose}")


def reason_error(why: str) -> str:
    """Why a reason is not accepted; empty if it is."""
    if not why.strip():
        return "The reason is missing: the audit log keeps it with your name."
    return f"The reason has {len(why)} characters; expected at most {REASON_LIMIT}." if len(why) > REASON_LIMIT else ""


def actor_of(request: Request, dag_id: str = ACTION_DAG) -> Actor | None:
    """The user of this request if they may start runs of the DAG: by default, act on findings."""
    actor: Actor | None = getattr(request.state, "actor", None)
    return actor if actor is not None and actor.may_start(dag_id) else None
