"""What a button of the pages asks for, signed by the page and verified by the run's task: who, what, until when, for one run.

The type of a run proves nothing: each DAG can start a run of another one with a form of its own, in the name of the user who started itself. So the
page signs the form with the run's id, and the task believes that signature alone, whatever the run's type. Airflow stores one run of an id, so that
a copied request fits no second run; a task that is tried again verifies the same request again.

The key is derived from Airflow's `[core] fernet_key`: the API server and the workers have it in each deployment, and two keys with a comma between
rotate it: the first one signs, each verifies. Code that runs in a worker can read it, as it can read connections and the archive's address.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from itsdangerous import BadSignature, URLSafeSerializer

from plumbline.airflow.versions import AirflowFailException, conf
from plumbline.declarations.installation import REQUEST_KEY

FIELD = "signed_request"
"""The field of a run's form that carries the request."""
LIFE = timedelta(hours=12)
"""As a page's form: a run waits longer only where no scheduler runs, and then its user has to look again."""
REFUSED = "request_refused"
"""The entry of the audit log."""


class RequestRefused(ValueError):
    """The run acts for no person. The message says why, and what would be accepted."""


class NoSigningKey(RuntimeError):
    """Airflow has no key that requests could be signed with."""


@dataclass(frozen=True)
class Starter:
    """The person whom a run acts for. `from_page`: a page of this installation checked what the person may do and see."""

    name: str
    from_page: bool


def sign(by: str, dag_id: str, run_id: str, form: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The form of a run with the request of `by` in it. NoSigningKey without one."""
    content = {"by": by, "dag": dag_id, "run": run_id, "form": dict(form), "until": (now + LIFE).isoformat()}
    return {**form, FIELD: _serializer().dumps(content)}


def starter_of(run: Any, now: datetime | None = None) -> Starter:
    """The person whom a DAG run acts for: of its signed request; without one, who filled in Airflow's form, its REST API or CLI.

    RequestRefused if another DAG started the run without a request, and for a request that is not this run's: of another key, run, form or user, or
    expired. Airflow names a user and the type `manual` for a person alone: another DAG's run has another type (3.3), or no user (3.1 and 3.2).
    """
    form = dict(run.conf or {})
    signed, user = form.pop(FIELD, None), run.triggering_user_name
    if signed is None:
        if for_a_person(run):
            return Starter(str(user), from_page=False)
        raise RequestRefused(
            "another DAG, or no person, started this run; expected a button of Plumbline's pages, or a person in Airflow's form"
        )
    content = _read(signed)
    if (content["dag"], content["run"]) != (run.dag_id, run.run_id):
        raise RequestRefused(
            f"the signed request is for the run {content['run']} of {content['dag']}, not for this one; each is for one run: press the button again"
        )
    if user and user != content["by"]:
        raise RequestRefused(f"the signed request is {content['by']}'s, but {user} started the run; expected a button that {user} pressed")
    if other := sorted(name for name in {*form, *content["form"]} if form.get(name) != content["form"].get(name)):
        raise RequestRefused(
            f"the signed request says another {', '.join(other)} than the run's form; expected the form as the page filled it in"
        )
    until = datetime.fromisoformat(content["until"])
    if until <= (now or datetime.now(timezone.utc)):
        raise RequestRefused(f"the signed request expired at {until:%Y-%m-%d %H:%M} UTC; press the button again")
    return Starter(str(content["by"]), from_page=True)


def for_a_person(run: Any) -> bool:
    """Whether a run says that it acts for a person: by a signed request, valid or not, or because Airflow names the user of its form."""
    manual = str(getattr(run.run_type, "value", run.run_type)) == "manual"
    return FIELD in (run.conf or {}) or bool(run.triggering_user_name and manual)


def require_starter(run: Any, subject: str) -> Starter:
    """The person whom a run acts for; a refusal fails the task without a retry, and is in the audit log under `subject`, once for each run."""
    try:
        return starter_of(run)
    except RequestRefused as refused:
        from plumbline.archive import open_archive

        detail = {"dag_id": run.dag_id, "run_id": run.run_id}
        with open_archive() as archive:
            archive.add_audit(
                who=run.triggering_user_name or "Airflow",
                what=REFUSED,
                subject=subject,
                why=str(refused),
                detail=detail,
                once=f"{REFUSED}/{run.dag_id}/{run.run_id}",
            )
        raise AirflowFailException(str(refused)) from None


def _read(signed: object) -> dict[str, Any]:
    try:
        content: dict[str, Any] = _serializer().loads(signed if isinstance(signed, str) else "")
        return content
    except NoSigningKey as missing:
        raise RequestRefused(str(missing)) from None
    except (BadSignature, RecursionError):
        raise RequestRefused(
            f"the signed request is changed, or signed by another key; expected one of this installation's pages, with the same {REQUEST_KEY}"
        ) from None


def _serializer() -> URLSafeSerializer:
    if not (keys := _keys()):
        raise NoSigningKey(f"Airflow has no key to sign requests with; expected {REQUEST_KEY}, the same for the API server and the workers")
    # Airflow's first key is the newest, this library's the oldest.
    signer = {"key_derivation": "hmac", "digest_method": hashlib.sha256}
    return URLSafeSerializer(keys[::-1], salt="plumbline.run-request", signer_kwargs=signer)


def _keys() -> list[str]:
    return [key.strip() for key in (conf.get("core", "fernet_key", fallback="") or "").split(",") if key.strip()]
