"""The `plumbline` command: a table of commands, each imported when it is called, so that every command starts at once."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from plumbline.cli.exit_status import EXIT_CODES

COMMANDS = {
    "check": ("check:check", "Check every declaration and show what a month measures and costs on each provider; nothing starts."),
    "doctor": (
        "cluster:doctor_installation",
        "Check this installation: Airflow, both databases, the result store, pools, DAGs, connections, disk, clock and versions.",
    ),
    "run": ("campaign:run", "Measure a campaign on this machine through Airflow, compare it, and end at the scorecards and the report."),
    "up": ("campaign:up", "Keep Airflow running on this machine until Ctrl-C; prints its address and the login."),
    "trigger": (
        "trigger:trigger",
        "Start benchmarks of these providers, as one campaign, in the Airflow that runs here or on the team's server; waits for none.",
    ),
    "budget": ("trigger:budget", "What was used of the providers' budgets this month, and what is left."),
    "watch": (
        "environment:watch",
        "Look at providers' machines and prices now, keep what changed as findings, and say what waits for a rerun.",
    ),
    "demo-drift": (
        "demo:demo_drift",
        "Measure local-2core, take one of its cores away without telling anybody, measure again, and see what the review makes of it.",
    ),
    "demo-watch": (
        "demo:demo_watch",
        "Change a simulated provider's driver and see the watch find it, its benchmark start by itself, and the slowdown explained by it.",
    ),
    "demo-own-model": (
        "demo:demo_own_model",
        "Train a small model, serve it with vLLM in bf16 and in int8 on both local providers, and compare speed, cost and right answers.",
    ),
    "rehearse": ("demo:rehearse", "Simulate campaigns of simulated providers, then check, record and review them as if they had run."),
    "selfcheck": (
        "trial:selfcheck",
        "Check timers, energy, counted FLOPs, the load client and clocks against what is known; exit code 1 if a line fails.",
    ),
    "trial": ("trial:trial", "Run one trial of WORKLOAD on a provider, now and without Airflow, and record it."),
    "replay": (
        "trial:replay",
        "Run an archived trial again from its own record: same specification, criteria, seeds and arrival schedule.",
    ),
    "serve": ("trial:serve", "Serve WORKLOAD's model by Triton on this machine until Ctrl-C, and say how to declare it as an endpoint."),
    "campaigns": ("archive:campaigns", "List the archive's campaigns, oldest first."),
    "scorecard": (
        "scorecard:scorecard",
        "Show a campaign's scorecards, training and inference apart, with its criteria and the teams' decisions.",
    ),
    "report": ("scorecard:report", "Write a campaign's report again, as HTML and Markdown, and say where it is."),
    "compare": (
        "compare:compare",
        "Compare two campaigns, two providers or two trials: effect, interval and verdict by metric, and what changed around them.",
    ),
    "decide": (
        "decide:decide",
        "Rank providers for a team from the archive: each series' newest campaign, at the accepted prices of today. Nothing is measured.",
    ),
    "cost": ("cost_forecast:cost", "What trials, campaigns and plans cost, line by line."),
    "findings": ("findings:findings", "What drifted, and what was decided about it."),
    "alerts": ("alerts:alerts", "What Slack would show, with no Slack at all."),
    "archive": ("archive:archive", "Check the archive, carry it elsewhere, set a measurement right."),
    "evidence": ("findings:evidence", "Hand over what a finding or a campaign rests on."),
    "airflow": ("campaign:airflow", "Airflow's own commands, such as `connections import`, on the Airflow that this installation uses."),
    "drift": ("compare:drift", "Change points of series that come from elsewhere."),
    "prices": ("prices:prices", "What the sources of prices say."),
    "workload": ("workload:workload", "Your own traffic and prompts as workloads."),
    "model": ("model:model", "Checkpoints that workloads serve."),
    "cluster": ("cluster:cluster", "Connect a provider's Kubernetes cluster, and check it."),
}
"""Name to the function or group in this package, and its line in `plumbline --help`: the first paragraph of its own help."""
_ANY_WORDS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


class _Commands(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        lines = {name: TyperCommand(name, help=text) for name, (_, text) in COMMANDS.items()}
        super().__init__(**attributes | {"commands": lines})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, line, rest = super().resolve_command(ctx, args)
        return name, line and load_command(str(line.name)), rest


def load_command(name: str) -> Any:
    """The command or group of that name, with its options."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    found = getattr(import_module(f"plumbline.cli.{module}"), attribute)
    if isinstance(found, typer.Typer):
        group = get_group(found)
        group.name = name
        return group
    alone = typer.Typer(add_completion=False)
    alone.command(name, context_settings=_ANY_WORDS if name == "airflow" else None)(found)
    return get_command(alone)


app = typer.Typer(
    name="plumbline",
    cls=_Commands,
    help="Benchmarks AI cloud providers, training and inference apart, and says with evidence when one has drifted.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # locals may hold passwords
)


@app.callback()
def _group() -> None: ...
