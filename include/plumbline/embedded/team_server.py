"""Initialise a team server: migrate both databases, create roles, the first user and the pools of all providers.

Run by docker-compose.yaml's `init` and the Helm chart's job; every step is idempotent. `python -m plumbline.embedded.team_server roles` makes the
roles alone, in an Airflow that a team has already.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from plumbline.archive import SchemaMismatch, open_archive
from plumbline.declarations import DeclarationError, load
from plumbline.workflows.plan import POOL_DESCRIPTION, pool_slots

READER, MONEY = "Plumbline reader", "Plumbline money"
MONEY_PERMISSION = ("can_read", "Plumbline Money")
"""FAB's (action, resource)."""
_READER_PERMISSIONS = (
    ("can_read", "Website"),
    ("can_read", "My Password"),
    ("can_edit", "My Password"),
    ("can_read", "My Profile"),
    ("can_edit", "My Profile"),
    ("can_read", "Plugins"),
    ("can_read", "DAGs"),
    ("can_read", "DAG Runs"),
    ("menu_access", "DAGs"),
)
_ROLES = {
    READER: _READER_PERMISSIONS,
    MONEY: (MONEY_PERMISSION,),
    # A role that may read a cluster's credentials may read its prices.
    "Op": (MONEY_PERMISSION,),
    "Admin": (MONEY_PERMISSION,),
}


def make_roles() -> None:
    """Create both roles and add missing permissions; other permissions of a role stay."""
    with _security() as security:
        security.bulk_sync_roles([{"role": name, "perms": list(permissions)} for name, permissions in _ROLES.items()])


def make_first_user(user: str, password: str) -> bool:
    """Create an administrator; False if the user exists, whose password stays. RuntimeError if FAB refuses.

    Not by Airflow's command line: any process of the machine can read the arguments of another.
    """
    with _security() as security:
        if security.find_user(user):
            return False
        if not security.add_user(user, "First", "User", f"{user}@localhost", security.find_role("Admin"), password):
            raise RuntimeError(f'Airflow did not create the user "{user}"; see its log above')
        return True


@contextmanager
def _security() -> Iterator[Any]:
    from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder
    from airflow.providers_manager import ProvidersManager

    ProvidersManager().initialize_providers_configuration()
    with get_application_builder() as builder:
        yield builder.sm


OK, FAILED = 0, 1
ARCHIVE_READER = "plumbline_reader"
_BY_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")


class StepFailed(RuntimeError):
    """A step failed; a failed command has printed its error."""


def main() -> int:
    """Run the steps up to the first failure: OK or FAILED."""
    steps: dict[str, Callable[[], None]] = {
        "images": _images,
        "Airflow's database": lambda: _airflow("db", "migrate"),
        "the archive": lambda: open_archive(migrate=True).close(),
        "the archive's reader": _archive_reader,
        "roles": make_roles,
        "the first user": _first_user,
        "the providers' pools": _pools,
    }
    for name, step in steps.items():
        sys.stdout.write(f"init: {name}\n")
        sys.stdout.flush()
        try:
            step()
        except (StepFailed, DeclarationError, SchemaMismatch, RuntimeError) as error:
            sys.stderr.write(f"init: {name}: {error}\n")
            return FAILED
    return OK


def _images() -> None:
    """Third-party images of the compose file must be named by digest. The variable is empty elsewhere."""
    loose = [image for image in os.environ.get("PLUMBLINE_SERVER_IMAGES", "").split() if not _BY_DIGEST.search(image)]
    if loose:
        raise StepFailed(f"{' and '.join(loose)} in .env: expected name@sha256:…; `make server-images` looks the digests up")


def _first_user() -> None:
    """With name and password of the environment; an existing user keeps the password."""
    names = ("PLUMBLINE_ADMIN_USER", "PLUMBLINE_ADMIN_PASSWORD")
    missing = [name for name in names if not os.environ.get(name)]
    if missing:
        raise StepFailed(f"{' and '.join(missing)} not set; `make server-env` writes them into .env")
    user, password = (os.environ[name] for name in names)
    created = make_first_user(user, password)
    sys.stdout.write(f'init: user "{user}" {"created" if created else "already exists"}\n')


def _archive_reader() -> None:
    """The role of the pages may select from every present and later table of a PostgreSQL archive."""
    from sqlalchemy import text

    with open_archive() as archive, archive.engine.begin() as connection:
        if connection.dialect.name != "postgresql":
            return
        if not connection.scalar(text("SELECT 1 FROM pg_roles WHERE rolname = :name"), {"name": ARCHIVE_READER}):
            # A team's own PostgreSQL may have only the archive's owner.
            sys.stderr.write(f"init: no role {ARCHIVE_READER} in the database; docs/team-server.md (Upgrade) shows how to create it\n")
            return
        connection.execute(text(f"GRANT USAGE ON SCHEMA public TO {ARCHIVE_READER}"))
        connection.execute(text(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {ARCHIVE_READER}"))
        connection.execute(text(f"ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO {ARCHIVE_READER}"))


def _pools() -> None:
    slots = pool_slots(load().enabled_providers())
    rows = {name: {"slots": number, "description": POOL_DESCRIPTION, "include_deferred": True} for name, number in slots.items()}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pools.json"
        file.write_text(json.dumps(rows))
        _airflow("pools", "import", str(file))


def _airflow(*arguments: str) -> None:
    code = subprocess.run([sys.executable, "-m", "airflow", *arguments], stdin=subprocess.DEVNULL, check=False).returncode
    if code != 0:
        raise StepFailed(f"`airflow {' '.join(arguments[:2])}` ended with status {code}; see its output above")


if __name__ == "__main__":
    if sys.argv[1:] == ["roles"]:  # in an Airflow that has its own databases, users and pools
        make_roles()
    else:
        sys.exit(main())
