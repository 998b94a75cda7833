"""The team server's first user and its two roles, in the database of Airflow's FAB auth manager.

| role | may |
|---|---|
| `Plumbline reader` | read Plumbline's pages and API, and see DAGs and their runs; no connections, variables, logs or XComs, and no trigger |
| `Plumbline money` | see contract prices, invoices and every cost; given beside another role |

Airflow's simple auth manager has no roles of one's own: there a viewer is a reader, and who may read connections may see money.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

READER, MONEY = "Plumbline reader", "Plumbline money"
MONEY_PERMISSION = ("can_read", "Plumbline Money")
"""FAB's name for seeing money: (action, resource)."""
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
    # Who may read a cluster's credentials may read its prices.
    "Op": (MONEY_PERMISSION,),
    "Admin": (MONEY_PERMISSION,),
}


def make_roles() -> None:
    """Both roles with their permissions, which are added where a role lacks them; what a person added to a role stays."""
    with _security() as security:
        security.bulk_sync_roles([{"role": name, "perms": list(permissions)} for name, permissions in _ROLES.items()])


def make_first_user(user: str, password: str) -> bool:
    """An administrator of that name; False if one is there already, who keeps the password that they have. RuntimeError if FAB refuses.

    Here and not by Airflow's command line: any process of the machine can read the arguments of another.
    """
    with _security() as security:
        if security.find_user(user):
            return False
        if not security.add_user(user, "First", "User", f"{user}@localhost", security.find_role("Admin"), password):
            raise RuntimeError(f'Airflow did not make the user "{user}"; its log above says why')
        return True


@contextmanager
def _security() -> Iterator[Any]:
    from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder
    from airflow.providers_manager import ProvidersManager

    ProvidersManager().initialize_providers_configuration()
    with get_application_builder() as builder:
        yield builder.sm
