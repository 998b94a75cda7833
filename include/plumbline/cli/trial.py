"""`plumbline trial`, `replay`, `selfcheck` and `serve`: work on this machine without Airflow."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from plumbline.cli.exit_status import FAILED, OK
from plumbline.cli.output import Json, announce_new_archive, clear_errors, emit, err, fail, out, planning_archive, read_archive, table
from plumbline.cli.trial_result import CHECK_STYLE, show
from plumbline.declarations import DeclarationError, Declarations, InferenceWorkload, Trial, installation_paths, load
from plumbline.declarations.workloads.checkpoints import Checkpoint
from plumbline.embedded.connections import provide_connections
from plumbline.harness import selfcheck as instrument
from plumbline.harness.inference.checkpoint import fetch_for_trial
from plumbline.harness.inference.server import backends, tritonserver
from plumbline.harness.inference.server.tritonserver import Triton
from plumbline.harness.launcher_protocol import ProgressLine
from plumbline.harness.measurement import TrialFailed
from plumbline.launch.failures import Interrupted
from plumbline.launch.plan import PlanError
from plumbline.results import CheckLine
from plumbline.workflows import budget
from plumbline.workflows.benchmark import plan_replay, plan_single_trial, run_directly, stopped_by_sigterm


class Device(str, Enum):
    cpu = "cpu"
    cuda = "cuda"


def selfcheck(
    device: Annotated[Device, typer.Option(help="cuda: also the GPU's event timer and counter of energy (AMD's too)")] = Device.cpu,
    as_json: Json = False,
) -> None:
    """Check timers, energy, counted FLOPs, the load client and clocks against known values. Exit code 1 if a line fails."""
    lines = instrument.run(device.value)
    emit(as_json, {"lines": lines}, lambda: _show(lines))
    raise typer.Exit(FAILED if any(line.status == "fail" for line in lines) else OK)


def _show(lines: Sequence[CheckLine]) -> None:
    shown = table("", "check", "", "measured", "expected", "tolerance", "reason", right=("measured", "expected", "tolerance"))
    for line in lines:
        values = (_number(line.measured, line.unit), _number(line.expected, line.unit), _number(line.tolerance, line.unit))
        shown.add_row(line.name, Text(line.status, style=CHECK_STYLE[line.status]), *values, Text(line.reason or "", style="dim"))
    out.print(shown)


def _number(value: float | None, unit: str) -> str:
    return "–" if value is None else f"{value:.6g} {unit}"


_READY_S, _LOOK_S = 300.0, 0.5


def serve(workload: Annotated[str, typer.Argument(help="name of a declared inference workload, such as chat-tiny-cpu")]) -> None:
    """Serve WORKLOAD's model with Triton on this machine until Ctrl-C, and print how to declare it as an endpoint."""
    with clear_errors(DeclarationError):
        found = load().workloads.get(workload.removeprefix("inference/"))
    if not isinstance(found, InferenceWorkload):
        fail(f'no inference workload is called "{workload}"; `plumbline check` lists what is declared')
    try:
        with stopped_by_sigterm(), tempfile.TemporaryDirectory(prefix="plumbline-serve-") as folder:
            checkpoint = None
            if isinstance(found.model, Checkpoint):
                token = os.environ.get("HF_TOKEN") or None
                cache = installation_paths().cache / "models"
                fetched, found = fetch_for_trial(found, None, cache, None, (token, None), lambda text: err.print(text, style="dim"))
                checkpoint = fetched.folder
            repository = backends.write(found, Path(folder) / "models", threads=len(os.sched_getaffinity(0)), checkpoint=checkpoint)
            err.print(f"starting Triton with the model of {found.name}…", style="dim")
            with Triton(
                tritonserver.find_installation(), repository.folder, repository.model, Path(folder), ready_within_s=_READY_S, http=True
            ) as triton:
                for protocol, url in (("kserve_grpc", f"grpc://{triton.address}"), ("kserve_http", f"http://{triton.http_address}")):
                    out.print(
                        f"launcher: {{kind: endpoint, url: {url}, protocol: {protocol}, model: {repository.model}, server_process: same_machine}}"
                    )
                while triton.running():
                    time.sleep(_LOOK_S)
                fail(triton.state(), FAILED)
    except (KeyboardInterrupt, Interrupted):
        err.print("stopped", style="dim")
    except TrialFailed as failure:
        fail(f"{failure.failure_class}: {failure.detail}", FAILED)


LOCAL = "local"
Everything = Annotated[bool, typer.Option("--all", help="every phase, metric, statistic and file")]


def trial(
    workload: Annotated[str, typer.Argument(help="name of a declared workload, such as gpt-tiny-cpu or training/gpt-tiny-cpu")],
    provider: Annotated[str, typer.Option(help="name of a declared provider; `local`: the largest that this machine is declared as")],
    everything: Everything = False,
    as_json: Json = False,
) -> None:
    """Run one trial of WORKLOAD on a provider without Airflow, and record it."""
    with clear_errors(DeclarationError, PlanError):
        declared = load()
        kind, _, name = workload.rpartition("/")
        found = declared.workloads.get(name)
        if kind and found is not None and found.kind != kind:
            fail(f'"{name}" is a workload of kind {found.kind}; expected {found.kind}/{name}')
        planned = plan_single_trial(declared, name, _local(declared, name) if provider == LOCAL else provider)
    _run(planned, everything, as_json)


def _local(declared: Declarations, workload: str) -> str:
    """The declared part of this machine that has the most of the cores (or GPUs) that are usable now, of those that fit the workload if any."""
    parts = [p for p in declared.enabled_providers() if p.launcher.cpus_here]
    here = [p for p in parts if workload in {w.name for w in declared.workloads_for(p)}] or parts
    usable = os.sched_getaffinity(0)
    fitting = [p for p in here if usable.issuperset(p.launcher.cpus_here)] or here
    if not fitting:
        fail(f"no enabled provider has a launcher of kind local; declared: {', '.join(sorted(declared.providers))}")
    return max(fitting, key=lambda p: (p.accelerator.count, p.name)).name


def replay(
    trial_id: Annotated[str, typer.Argument(help="id of an archived trial")],
    everything: Everything = False,
    as_json: Json = False,
) -> None:
    """Repeat an archived trial from its own record: same specification, criteria, seeds and arrival schedule."""
    with read_archive() as archive:
        document = archive.document(trial_id)
        imported = archive.imported(trial_id)
    if imported is not None:
        fail(f"{trial_id} is imported from {imported.publisher}: its program is not here; see {imported.address}")
    if document is None:
        fail(f'no trial "{trial_id}" in the archive; `plumbline campaigns` lists what is there')
    _run(plan_replay(document.trial), everything, as_json)


def _within_budget(planned: Trial) -> None:
    """Leaves with a sentence if the month's budget of its provider, as declared now, does not carry one more trial."""
    with clear_errors(DeclarationError):
        provider = load().providers.get(planned.provider.name)
    if provider is None or provider.budget is None:
        return
    with planning_archive() as archive:
        done = budget.apply_budget(archive, provider, [planned], datetime.now(timezone.utc))
    if not done.kept:
        fail(f"{done}. To go on: {budget.budget_remedy(provider)}\nnothing was started")


def _run(planned: Trial, everything: bool, as_json: bool) -> None:
    _within_budget(planned)
    announce_new_archive()
    launcher = planned.provider.launcher
    if launcher.hosted and launcher.connections:
        # What Airflow does not have is told by the launcher, in the trial's record.
        with clear_errors(RuntimeError):
            provide_connections(launcher.connections)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", style="dim", markup=False),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task(planned.trial_id, total=1.0, note="starting")

        def follow(line: ProgressLine) -> None:
            bar.update(task, completed=line.fraction, note=f"{line.phase} {line.note}")

        document = run_directly(planned, follow)
    emit(as_json, document, lambda: show(document, everything))
    raise typer.Exit(FAILED if document.validity.status == "failed" else OK)
