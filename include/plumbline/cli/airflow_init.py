"""`plumbline airflow init`: DAG files and first declarations for an Airflow that a team has already."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer
import yaml
from pydantic import ValidationError

from plumbline.airflow.dags import NAMES, installed_version
from plumbline.cli.airflow_layouts import LAYOUTS, Layout
from plumbline.cli.exit_status import FAILED
from plumbline.cli.output import Json, emit, fail, out
from plumbline.declarations import Declarations, load
from plumbline.declarations.archive_address import CONNECTION
from plumbline.declarations.dag_ids import FILE, AirflowNames
from plumbline.declarations.installation import example_declarations
from plumbline.embedded.doctor.airflow import SLACK
from plumbline.embedded.team_server import MONEY, MONEY_PERMISSION, READER
from plumbline.results.installation_keys import VARIABLE as KEY_VARIABLE
from plumbline.workflows.plan import POOL_DESCRIPTION, pool_slots

_DAG_FILE = '''"""Plumbline: {title}. Triage is on the DAG's page."""

from plumbline.airflow.dags import build

DAGS = build("{name}"{written_for})
'''
_NOT_OURS = (
    "the plumbline of the public package index is another project's: name the wheel of `make dist`, from a folder or an index of yours"
)
_NAMES_FILE = """# Names in an Airflow that others use too. The DAG files, the pages and every command read the prefix here and nowhere else: after a change of it
# the earlier DAGs are other DAGs, whose runs stay in Airflow's history.
dag_prefix: {prefix}
"""


@dataclass(frozen=True)
class Remaining:
    """What people still do by hand. `variables`: name → value or what to put there. `pools`: commands. `notes`: of the layout."""

    package: str
    variables_in: str
    variables: dict[str, str]
    connections: list[str]
    pools: list[str]
    roles: list[str]
    notes: list[str]
    untried: bool


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="the folder of your Airflow project, or a new one to copy from")],
    prefix: Annotated[
        str, typer.Option("--prefix", metavar="PREFIX", help="start of every DAG id; a letter, letters, digits or _, and _ at the end")
    ] = "plumbline_",
    layout: Annotated[
        Literal["official", "helm", "astronomer", "mwaa", "composer"], typer.Option("--for", help="whose folders and rules to follow")
    ] = "official",
    as_json: Json = False,
) -> None:
    """Write Plumbline's DAG files and first declarations for an Airflow that you have, and print what remains to do there.

    Existing files are never replaced: with one in the way, nothing is written and the exit code is 1.
    """
    try:
        AirflowNames(dag_prefix=prefix)
    except ValidationError:
        fail(f'--prefix: "{prefix}" is no start of a DAG id; expected a letter, letters, digits or _, and _ at the end, such as plumbline_')
    chosen = LAYOUTS[layout]
    dags, config = folder / chosen.dags, folder / chosen.config
    made = {dags / f"plumbline_{name}.py": _dag_file(name) for name in NAMES}
    if taken := [path for path in (*made, config) if path.exists()]:
        more = f" and {len(taken) - 1} more" if len(taken) > 1 else ""
        fail(f"{taken[0]}{more} exists already, and nothing was written; expected none of the DAG files and no {config}", FAILED)
    try:
        _write(made, config, prefix)
    except OSError as error:
        fail(f"{error.filename or folder} cannot be written: {error.strerror or error}; expected a folder for the DAG files", FAILED)
    remaining = _remaining(chosen, load(config), prefix)
    written = [str(path) for path in (*made, config)]
    emit(as_json, {"written": written, "layout": layout, "remaining": remaining}, lambda: _show(dags, config, len(made), chosen, remaining))


def _dag_file(name: str) -> str:
    version = installed_version()
    return _DAG_FILE.format(title=name.replace("_", " "), name=name, written_for=f', written_for="{version}"' if version else "")


def _write(made: dict[Path, str], config: Path, prefix: str) -> None:
    """The declarations first: a DAG processor that reads the folder meanwhile finds them."""
    config.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(example_declarations(), config)
    (config / FILE).write_text(_NAMES_FILE.format(prefix=yaml.safe_dump(prefix).splitlines()[0]), encoding="utf-8")
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _remaining(layout: Layout, declared: Declarations, prefix: str) -> Remaining:
    enabled = declared.enabled_providers()
    needed = sorted({name for provider in enabled for name in provider.launcher.connections})
    return Remaining(
        package=layout.package.format(version=installed_version() or "VERSION"),
        variables_in=layout.variables,
        variables={
            "PLUMBLINE_CONFIG": layout.config_there,
            "PLUMBLINE_HOME": "a folder that the service may write: scratch space, and reports where one disk is shared",
            "PLUMBLINE_ARCHIVE_URL": "postgresql+psycopg://USER:PASSWORD@HOST/DATABASE, a database of its own",
            "PLUMBLINE_RESULTS_URL": "s3://BUCKET/results, gs://… or az://…, or file:///… on a disk that all workers share",
            "PLUMBLINE_TEAM_SERVER": "true, so that upkeep and the daily checks start unpaused",
            KEY_VARIABLE: "a secret, where workers share no folder: the content of one evidence-key, so that all sign packs and sheets with it",
        },
        connections=[
            *needed,
            f"{CONNECTION} (of type postgres, in place of PLUMBLINE_ARCHIVE_URL)",
            f"{SLACK} (optional: alerts to Slack)",
        ],
        pools=[f'airflow pools set {pool} {slots} "{POOL_DESCRIPTION}" --include-deferred' for pool, slots in pool_slots(enabled).items()],
        roles=[
            f"with FAB, `python -m plumbline.embedded.team_server roles` makes {READER} (reads DAGs and pages) and {MONEY} "
            f"({' on '.join(MONEY_PERMISSION)}: prices and costs)",
            f"who may start runs of the DAGs {prefix}finding_action and {prefix}rerun may act on findings",
        ],
        notes=[_NOT_OURS, *layout.notes],
        untried=layout.untried,
    )


def _show(dags: Path, config: Path, count: int, layout: Layout, remaining: Remaining) -> None:
    def line(text: str) -> None:
        out.print(text, markup=False, highlight=False, soft_wrap=True)

    line(f"{count} DAG files in {dags}")
    line(f"declarations in {config}; `PLUMBLINE_CONFIG={config} plumbline check` shows what they measure")
    line(f"\nWhat remains, for {layout.title}" + (" (from its documentation; not tried):" if remaining.untried else ":"))
    line(f"package      {remaining.package}")
    line(f"variables    in {remaining.variables_in}:")
    for name, value in remaining.variables.items():
        line(f"               {name}={value}")
    line(f"connections  {', '.join(remaining.connections)}")
    line("pools        the scheduler makes a missing one when its benchmark begins, but not on SQLite; by hand:")
    for command in remaining.pools:
        line(f"               {command}")
    for at, text in enumerate(remaining.roles):
        line(f"{'roles' if at == 0 else '':<13}{text}")
    for at, text in enumerate(remaining.notes):
        line(f"{'also' if at == 0 else '':<13}{text}")
    line("then         plumbline doctor, in a worker of that Airflow: what is missing, with a remedy a line (docs/your-airflow.md)")
