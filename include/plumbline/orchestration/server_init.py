"""What the team server needs before it starts: both databases at this version, its first user, a pool for each provider.

Run by docker-compose.yaml's `init` and by the Helm chart's job, in the server's own environment. Every step may be repeated: after an
upgrade it migrates, after a new provider it makes that provider's pool.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from plumbline.archive import SchemaMismatch, open_archive
from plumbline.declarations import DeclarationError, load
from plumbline.orchestration.pools import DESCRIPTION, slots_of

OK, FAILED = 0, 1


class StepFailed(RuntimeError):
    """A command of Airflow's ended with an error, which it has told on its own output."""


def main() -> int:
    """Every step in order; the first one that fails ends it. OK or FAILED."""
    steps: dict[str, Callable[[], None]] = {
        "Airflow's database": lambda: _airflow("db", "migrate"),
        "the archive": lambda: open_archive(migrate=True).close(),
        "the first user": _first_user,
        "the providers' pools": _pools,
    }
    for name, step in steps.items():
        sys.stdout.write(f"init: {name}\n")
        sys.stdout.flush()
        try:
            step()
        except (StepFailed, DeclarationError, SchemaMismatch) as error:
            sys.stderr.write(f"init: {name}: {error}\n")
            return FAILED
    return OK


def _first_user() -> None:
    """Of the environment's name and password; one who is there already keeps the password that they have."""
    names = ("PLUMBLINE_ADMIN_USER", "PLUMBLINE_ADMIN_PASSWORD")
    missing = [name for name in names if not os.environ.get(name)]
    if missing:
        raise StepFailed(f"{' and '.join(missing)} not set; `make server-env` writes them into .env")
    user, password = (os.environ[name] for name in names)
    who = (f"--username={user}", "--firstname=First", "--lastname=User", f"--email={user}@localhost")
    # In one word with its option: one of 64 passwords that `make server-env` makes begins with a dash.
    _airflow("users", "create", "--role=Admin", *who, f"--password={password}")


def _pools() -> None:
    slots = slots_of(load().enabled_providers())
    rows = {name: {"slots": number, "description": DESCRIPTION, "include_deferred": True} for name, number in slots.items()}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pools.json"
        file.write_text(json.dumps(rows))
        _airflow("pools", "import", str(file))


def _airflow(*arguments: str) -> None:
    code = subprocess.run([sys.executable, "-m", "airflow", *arguments], stdin=subprocess.DEVNULL, check=False).returncode
    if code != 0:
        raise StepFailed(f"`airflow {' '.join(arguments[:2])}` ended with status {code}; its own words stand above")


if __name__ == "__main__":
    sys.exit(main())
