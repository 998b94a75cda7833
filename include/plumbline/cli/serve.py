"""`plumbline serve`: a workload's model on this machine, for whoever wants to drive an endpoint without renting one."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from plumbline.cli.output import FAILED, clear_errors, err, fail, out
from plumbline.declarations import DeclarationError, InferenceWorkload, load
from plumbline.launch.failures import Interrupted
from plumbline.orchestration.interrupt import stopped_by_sigterm

_READY_S, _LOOK_S = 300.0, 0.5


def serve(workload: Annotated[str, typer.Argument(help="name of a declared inference workload, such as chat-tiny-cpu")]) -> None:
    """Serve WORKLOAD's model by Triton on this machine until Ctrl-C, and say how to declare it as an endpoint."""
    from plumbline.harness.inference import installation, repositories
    from plumbline.harness.inference.triton import Triton
    from plumbline.harness.measurement import TrialFailed

    with clear_errors(DeclarationError):
        found = load().workloads.get(workload.removeprefix("inference/"))
    if not isinstance(found, InferenceWorkload):
        fail(f'no inference workload is called "{workload}"; `plumbline check` lists what is declared')
    try:
        with stopped_by_sigterm(), tempfile.TemporaryDirectory(prefix="plumbline-serve-") as folder:
            repository = repositories.write(found, Path(folder) / "models", threads=len(os.sched_getaffinity(0)))
            err.print(f"starting Triton with the model of {found.name}…", style="dim", highlight=False)
            with Triton(
                installation.find(), repository.folder, repository.model, Path(folder), ready_within_s=_READY_S, http=True
            ) as triton:
                for protocol, url in (("kserve_grpc", f"grpc://{triton.address}"), ("kserve_http", f"http://{triton.http_address}")):
                    out.print(f"launcher: {{kind: endpoint, url: {url}, protocol: {protocol}, model: {repository.model}}}", highlight=False)
                while triton.running():
                    time.sleep(_LOOK_S)
                fail(triton.state(), FAILED)
    except (KeyboardInterrupt, Interrupted):
        err.print("stopped", style="dim")
    except TrialFailed as failure:
        fail(f"{failure.failure_class}: {failure.detail}", FAILED)
