"""The `plumbline` command: a table of commands, each imported when it is called, so that every command starts at once."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from plumbline.cli.examples import with_examples
from plumbline.cli.exit_status import EXIT_CODES
from plumbline.cli.extras import leave, missing, needing, reason
from plumbline.cli.guard import guarded

_BY_GROUP = {
    "Measure": {
        "run": (
            "campaign:run",
            "Measure a campaign on this machine through Airflow, compare it with the baseline, and write scorecards and the report.",
        ),
        "trigger": (
            "trigger:trigger",
            "Start benchmarks of these providers as one campaign, in the Airflow of this machine or of the team's server. Does not wait.",
        ),
        "trial": ("trial:trial", "Run one trial of WORKLOAD on a provider without Airflow, and record it."),
        "load": ("load:load", "Load a server that is already there at one rate, and show its latencies; nothing is declared or archived."),
        "replay": (
            "trial:replay",
            "Repeat an archived trial from its own record: same specification, criteria, seeds and arrival schedule.",
        ),
        "watch": (
            "environment:watch",
            "Check environment, prices, and declared uptime and capacity of providers now; store changes as findings.",
        ),
        "accept": ("accept:accept", "Measure every node of PROVIDER, and write a signed sheet that says which ones to send back."),
        "serve": (
            "trial:serve",
            "Serve WORKLOAD's model with Triton on this machine until Ctrl-C, and print how to declare it as an endpoint.",
        ),
        "rehearse": ("rehearse:rehearse", "Simulate campaigns of simulated providers; check, record and review them like measured ones."),
        "workload": ("workload:workload", "Make workloads from your own traffic, prompts and training scripts."),
        "model": ("model:model", "Inspect checkpoints and declare workloads that serve them."),
    },
    "Read": {
        "status": ("status:status", "Show what is open, lost, cheapest and newest, as the overview does; with --since what happened."),
        "scorecard": (
            "scorecard:scorecard",
            "Show a campaign's verdict: winners, drift and costs. With -v every metric, criterion and decision.",
        ),
        "availability": (
            "environment:show_availability",
            "Show a month's availability and outages of a provider, from the checks of `availability_watch` and `plumbline watch`.",
        ),
        "promises": ("promises:promises", "Show what providers promise, and whether it is kept, broken or not shown."),
        "scaling": ("scaling:scaling", "Show how long services with a rising load miss their SLO, the quickest provider first."),
        "places": ("places:places", "Show one offer in each of its regions and zones, and what distance does to a client and to data."),
        "report": ("report:report", "Write a campaign's report as HTML and Markdown, and print its path."),
        "campaigns": ("archive:campaigns", "List the campaigns, newest first."),
        "compare": (
            "compare:compare",
            "Compare two campaigns, providers or trials: effect, interval and verdict by metric, and what changed around them.",
        ),
        "drift": ("compare:drift", "Find change points in series from other sources."),
    },
    "Decide": {
        "decide": ("decide:decide", "Rank providers for a team at today's accepted prices, from the newest campaign of each series."),
        "cost": ("cost_forecast:cost", "Show what trials, campaigns and months cost, line by line."),
        "prices": ("prices:prices", "Read, check and accept prices."),
        "budget": ("trigger:budget", "Show the budgets of providers: used this month, and left."),
    },
    "Act": {
        "findings": ("findings:findings", "List, show and answer findings: what drifted, and what was decided about it."),
        "log": (
            "operations_log:log",
            "Note incidents, tickets, quota requests and maintenance of a provider, which its promises are judged by.",
        ),
        "alerts": ("alerts:alerts", "Preview Slack messages and the monthly digest, without Slack."),
        "evidence": ("evidence:evidence", "Export the evidence of a finding or a campaign, signed."),
    },
    "Operate": {
        "check": ("check:check", "Check every declaration; show what a month measures and costs at each provider. Starts nothing."),
        "doctor": (
            "cluster:doctor_installation",
            "Check this installation: Airflow, both databases, the result store, pools, DAGs, connections, disk, clock and versions.",
        ),
        "selfcheck": (
            "trial:selfcheck",
            "Check timers, energy, counted FLOPs, the load client and clocks against known values. Exit code 1 if a line fails.",
        ),
        "up": ("campaign:up", "Keep Airflow running on this machine until Ctrl-C; print its address and the login."),
        "archive": ("archive:archive", "Verify, back up, move and correct the archive."),
        "cluster": ("cluster:cluster", "Connect a provider's Kubernetes cluster, and check it."),
        "airflow": (
            "campaign:airflow",
            "Run Airflow's own commands, such as `connections import`, on the Airflow of this installation; `init FOLDER` writes DAG files for yours.",
        ),
    },
}
COMMANDS = {name: (*row, group) for group, rows in _BY_GROUP.items() for name, row in rows.items()}
"""Name to the function or group in this package, its line in `plumbline --help`, and its group there.

The line is also the help of a function without a docstring."""
_ANY_WORDS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


class _Commands(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        lines = {name: TyperCommand(name, help=text, rich_help_panel=panel) for name, (_, text, panel) in COMMANDS.items()}
        super().__init__(**attributes | {"commands": lines})
        self._called = ""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # `help COMMAND` and `version`, as other tools have them.
        first, *rest = args or [""]
        rewritten = {"help": [*rest, "--help"], "version": ["--version", *rest]}.get(first, args)
        parsed: list[str] = super().parse_args(ctx, rewritten)
        return parsed

    def main(self, *args: Any, **options: Any) -> Any:
        with guarded():
            try:
                return super().main(*args, **options)
            except ImportError as error:
                if (sentence := reason(self._called, error)) is None:
                    raise
                leave(sentence)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, line, rest = super().resolve_command(ctx, args)
        self._called = str(name)
        if (name, *rest[:1]) == ("airflow", "init"):  # every other word is Airflow's
            return f"{name} init", airflow_init(), rest[1:]
        return name, line and load_command(str(line.name)), rest


def airflow_init() -> Any:
    """The command `plumbline airflow init`; every other word after `airflow` is Airflow's."""
    return _alone("airflow init", import_module("plumbline.cli.airflow_init").init, "")


def load_command(name: str) -> Any:
    """The command or group of that name, with its options."""
    target, line, _ = COMMANDS[name]
    module, _, attribute = target.partition(":")
    command = getattr(import_module(f"plumbline.cli.{module}"), attribute)
    if isinstance(command, typer.Typer):
        group = get_group(command)
        group.name = name
        return with_examples(group, name)
    return _alone(name, command, line)


def _alone(name: str, command: Any, line: str) -> Any:
    alone = typer.Typer(add_completion=False)
    passed_on = name == "airflow" and not missing(name)  # Airflow shows its own help, where it is installed
    alone.command(name, context_settings=_ANY_WORDS if passed_on else None, help=command.__doc__ or line)(command)
    shown = get_command(alone)
    if shown.callback is not None:
        shown.callback = needing(name, shown.callback)
    return with_examples(shown, name)


app = typer.Typer(
    name="plumbline",
    cls=_Commands,
    help="Benchmark AI cloud providers for training and inference, and prove with evidence when one has drifted.",
    epilog=EXIT_CODES,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},  # every command's too
    add_completion=False,
    pretty_exceptions_show_locals=False,  # locals may hold passwords
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"plumbline {version('plumbline')}")
        raise typer.Exit


_BEGIN = (
    "Plumbline benchmarks AI cloud providers and proves with evidence when one has drifted.",
    "plumbline run measures on this machine · plumbline status says what is known · plumbline decide ranks the providers",
    "plumbline help lists all commands; plumbline help COMMAND explains one",
)


@app.callback()
def _group(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="print the version", is_eager=True, callback=_print_version)] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo("\n".join(_BEGIN))
