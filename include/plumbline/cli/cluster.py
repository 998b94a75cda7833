"""`plumbline doctor` and `plumbline cluster`: check the installation; create and check the access to a cluster."""

from __future__ import annotations

import json
import os
import sys
from contextlib import redirect_stdout
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.text import Text

from plumbline.cli.declared import declared_providers, load_declared
from plumbline.cli.exit_status import FAILED, NOT_SHOWN, OK
from plumbline.cli.output import TONES, Json, clear_errors, emit, err, fail, out
from plumbline.declarations import Declarations, KubernetesLauncher, Provider
from plumbline.embedded.connections import provide_connections, variable
from plumbline.embedded.doctor.examination import examine
from plumbline.launch.cluster.launcher_account import MIN_LIFETIME_S, AccessError, admin_client, grant_access
from plumbline.launch.cluster.names import cluster_declaration
from plumbline.launch.doctor_check import DoctorCheck, judge_checks
from plumbline.launch.failures import ApiRefused, BadDeclaration, Unreachable
from plumbline.launch.registry import launcher_for
from plumbline.metrics.units import SECONDS, parse

_MARK = {"ok": ("✓", "green"), "failed": ("✗", "red"), "unknown": ("?", "yellow"), "skipped": ("–", "dim")}
_EXIT = {"met": OK, "broken": FAILED, "not_shown": NOT_SHOWN}


def doctor_installation(as_json: Json = False) -> None:
    lines = []
    for line in examine():
        lines.append(line)
        if not as_json:
            show(line)
    conclude({}, lines, as_json)


def show(line: DoctorCheck) -> None:
    """One line, with its remedy below it."""
    out.print(Text.assemble(_MARK[line.status], f" {line.check:<28} "), end="")
    out.print(line.found)
    if line.remedy:
        out.print(f"  {'':<28} → {line.remedy}", style="yellow")


def conclude(about: dict[str, str], lines: list[DoctorCheck], as_json: bool) -> None:
    """The verdict, or all lines as JSON; exit code 1 if a check failed, 6 if none did and one could not be made."""
    judged = judge_checks(lines).judgement
    about_all = {**about, "ok": judged.verdict == "met", "judgement": judged, "checks": lines}
    emit(as_json, about_all, lambda: out.print(judged.text, style=TONES[judged.tone]))
    raise typer.Exit(_EXIT[judged.verdict])


cluster = typer.Typer(help="Connect a provider's Kubernetes cluster, and check it.", no_args_is_help=True)

Which = Annotated[str, typer.Argument(metavar="PROVIDER", help="name of a declared provider on a Kubernetes cluster; it may be disabled")]
Reached = Annotated[
    str, typer.Argument(metavar="PROVIDER", help="name of a declared provider on Kubernetes, Slurm or machines by SSH; it may be disabled")
]
_PRIVATE = 0o600


@cluster.command()
def kubeconfig(
    provider: Which,
    admin_kubeconfig: Annotated[
        Path | None, typer.Option(help="an administrator's kubeconfig; KUBECONFIG or ~/.kube/config if left out")
    ] = None,
    context: Annotated[str | None, typer.Option(help="its context; the current one if left out")] = None,
    lifetime: Annotated[str, typer.Option(help="how long the token is to live; clusters may grant less")] = "90d",
    long_lived: Annotated[
        bool, typer.Option("--long-lived", help="a token without an end, in a Secret that you delete to revoke it")
    ] = False,
    server: Annotated[str | None, typer.Option(help="the API's address as Airflow reaches it, if it differs from yours")] = None,
    form: Annotated[
        Literal["kubeconfig", "connection"], typer.Option("--as", help="the bare kubeconfig, or a file for `airflow connections import`")
    ] = "kubeconfig",
    target: Annotated[
        Path | None, typer.Option("--out", help="write a new file that only you can read; standard output if left out")
    ] = None,
) -> None:
    """Make the kubeconfig with which Airflow launches trials there: its own account, one namespace."""
    _, launcher, _ = _chosen(provider)
    with clear_errors(ValueError):
        lifetime_s = parse(lifetime, SECONDS, "a duration", "90d")
    if lifetime_s < MIN_LIFETIME_S:
        fail(
            f"--lifetime {lifetime} is too short: clusters make no tokens that live less than {MIN_LIFETIME_S:g} s; expected one such as 90d"
        )
    with clear_errors(AccessError):
        access = grant_access(
            admin_client(admin_kubeconfig, context), launcher.namespace, lifetime_s=None if long_lived else lifetime_s, server=server
        )
    data = access.kubeconfig if form == "kubeconfig" else {launcher.connection: access.as_connection()}
    _write(json.dumps(data, indent=1) + "\n", target)
    ends = f"until {access.expires:%Y-%m-%d %H:%M} UTC" if access.expires else "until you delete the Secret that holds its token"
    err.print(f"access to {launcher.namespace} at {access.kubeconfig['clusters'][0]['cluster']['server']}, {ends}")
    if access.shortened:
        err.print(f"the cluster granted less than {lifetime}; --long-lived makes a token without an end", style="yellow")
    if form == "connection" and target is not None:
        err.print(f"next: plumbline airflow connections import {target} && rm {target}")


@cluster.command()
def doctor(
    provider: Reached,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="check with this kubeconfig instead of the Airflow connection that the provider declares")
    ] = None,
    no_pod: Annotated[bool, typer.Option("--no-pod", help="start no pod: says nothing about images and the store as pods see it")] = False,
    no_gpu: Annotated[
        bool, typer.Option("--no-gpu", help="start pods without accelerators: says nothing about drivers and devices")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check a provider's cluster or machines from Airflow's side, each line with its remedy. Leaves nothing behind."""
    chosen, declared, _ = _reached(provider, kubeconfig)
    lines, now = [], datetime.now(timezone.utc)
    for line in launcher_for(chosen).doctor(declared, chosen, now, start=not no_pod, accelerators=not no_gpu):
        lines.append(line)
        if not as_json:
            show(line)
    conclude({"provider": provider}, lines, as_json)


@cluster.command()
def sweep(
    provider: Reached,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="sweep with this kubeconfig instead of the Airflow connection that the provider declares")
    ] = None,
    campaign: Annotated[
        str | None, typer.Option(metavar="ID", help="delete all that this installation launched for the campaign, also what still runs")
    ] = None,
    as_json: Json = False,
) -> None:
    """Delete now what the hourly upkeep would: pods, Services and jobs of ours that outlived their launch. Exit code 1 if it is refused."""
    chosen, _, where = _reached(provider, kubeconfig)
    try:
        with clear_errors(BadDeclaration, LookupError):
            gone = launcher_for(chosen).sweep(chosen, campaign)
            left = launcher_for(chosen).leftovers(chosen)
    except (ApiRefused, Unreachable, OSError) as error:
        fail(str(error), FAILED)

    def show() -> None:
        for one in gone:
            out.print(f"deleted {one}")
        if not gone:
            what = "outlived its launch" if campaign is None else f"is of {campaign}"
            out.print(f"nothing in {where} {what}")
        out.print(f"left in {where}: {left}")

    emit(as_json, {"provider": provider, "deleted": gone, "left": None if left is None else left.row()}, show)


def _reached(name: str, kubeconfig: Path | None) -> tuple[Provider, Declarations, str]:
    """The provider with its connections at hand, and where its launches are, in words."""
    declared = load_declared()
    (provider,) = declared_providers(declared, [name])
    if provider.launcher.runs_pods:
        launcher = cluster_declaration(provider)
        _provide_connections(launcher, kubeconfig)
        return provider, declared, launcher.namespace
    if not provider.launcher.outlasts_task:
        fail(f'"{name}" is reached by the launcher "{provider.launcher.kind}"; expected a provider of kubernetes, slurm or ssh')
    if kubeconfig is not None:
        fail(f'--kubeconfig is for a cluster; "{name}" is reached by the launcher "{provider.launcher.kind}"')
    with clear_errors(RuntimeError):
        provide_connections(provider.launcher.connections)
    return provider, declared, provider.name


def _chosen(name: str) -> tuple[Provider, KubernetesLauncher, Declarations]:
    declared = load_declared()
    (provider,) = declared_providers(declared, [name])
    if not provider.launcher.runs_pods:
        fail(f'"{name}" is reached by the launcher "{provider.launcher.kind}"; expected a provider of the launcher kubernetes')
    return provider, cluster_declaration(provider), declared


def _provide_connections(launcher: KubernetesLauncher, kubeconfig: Path | None) -> None:
    """Whatever is missing is told by the check that needs it."""
    # Airflow sets up its log when it is first imported, on what is then standard output; that is for the findings alone.
    with redirect_stdout(sys.stderr):
        import airflow.providers.cncf.kubernetes.hooks.kubernetes  # noqa: F401
    if kubeconfig is not None:
        if not kubeconfig.is_file():
            fail(f"{kubeconfig} is not a file; expected a kubeconfig")
        extra = {"kube_config_path": str(kubeconfig.resolve()), "namespace": launcher.namespace}
        os.environ[variable(launcher.connection)] = json.dumps({"conn_type": "kubernetes", "extra": extra})
    with clear_errors(RuntimeError):
        provide_connections(c for c in (launcher.connection, launcher.results_connection) if c is not None)


def _write(text: str, target: Path | None) -> None:
    if target is None:
        typer.echo(text, nl=False)
        return
    try:
        # Nobody else may read it, from its first byte on; and a file that is there is somebody's.
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
    except FileExistsError:
        fail(f"{target} exists; expected the name of a new file")
    except OSError as error:
        fail(f"{target} cannot be written: {error.strerror}")
    with os.fdopen(handle, "w") as file:
        file.write(text)
