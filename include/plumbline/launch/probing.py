"""A short probe of a provider: its environment, its arithmetic and its memory, measured there without a trial.

It gives way: on a machine of ours to whatever runs there, on a cluster it asks for one GPU and two minutes of it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from plumbline.declarations import Declarations, EndpointLauncher, KubernetesLauncher, LocalLauncher, Provider, SimulatedLauncher, places
from plumbline.launch import orphans
from plumbline.launch.environment import trial_environment
from plumbline.launch.failures import HarnessError, OutOfMemory, TrialTimeout, WrongHardware
from plumbline.launch.machine_lock import MachineBusy, machine_lock
from plumbline.launch.process import Limits, Output, supervised
from plumbline.launch.this_machine import GRACE_S, HARNESS
from plumbline.results.probe import LIMIT_S, BadProbe, ProbeDocument

STARTING_S = 60.0
"""Beyond its own limit: for Python, the facts, and the disk that the document goes to."""


@dataclass(frozen=True)
class PutOff:
    """No probe was made now; `why` in words that a person reads."""

    why: str


def probe(
    declared: Declarations, provider: Provider, now: datetime, *, limit_s: float = LIMIT_S, command: Sequence[str] = HARNESS
) -> ProbeDocument | PutOff:
    """Probe the provider now. `now`: a simulated one shows what it is then. `limit_s`: what does not fit into it is left out.

    A TrialFailure as a launch there would raise it, Refused if its cluster refuses; OSError if its result store does not answer.
    """
    launcher = provider.launcher
    if isinstance(launcher, LocalLauncher):
        return _here(provider, launcher, limit_s, command)
    if isinstance(launcher, SimulatedLauncher):
        from plumbline.launch.simulated.probing import probed

        return probed(provider, now)
    if isinstance(launcher, KubernetesLauncher):
        from plumbline.launch.cluster import probing

        return probing.probe(declared, provider, launcher, now, limit_s)
    assert isinstance(launcher, EndpointLauncher)
    return PutOff(f"{provider.name} is hosted behind an URL: there is no machine to probe")


def _here(provider: Provider, launcher: LocalLauncher, limit_s: float, command: Sequence[str]) -> ProbeDocument | PutOff:
    work = places().work
    work.mkdir(parents=True, exist_ok=True)
    orphans.sweep(work)
    name = f"probe-{provider.name}-{secrets.token_hex(4)}"
    cpus = [cpu for cpu in launcher.cpus if cpu in os.sched_getaffinity(0)]
    if not cpus:
        raise WrongHardware(f"none of the declared cores of {provider.name} may be used here (launcher.cpus)")
    try:
        with machine_lock(launcher.machine, name, work, 0.0, lambda _: None) as hold:
            return _run(name, launcher, cpus, hold, work, limit_s, command)
    except MachineBusy as busy:
        return PutOff(f"put off: {busy}; what is measured there goes first")


def _run(
    name: str, launcher: LocalLauncher, cpus: list[int], hold: int, work: Path, limit_s: float, command: Sequence[str]
) -> ProbeDocument:
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=work))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        out, token = folder / "probe.json", secrets.token_hex(16)
        output = Output(stack.enter_context((folder / "probe.log").open("wb")), lambda _: False)
        process = stack.enter_context(
            supervised(
                [*command, "probe", "--out", str(out), "--limit", f"{limit_s:g}"],
                cpus=cpus,
                environment=trial_environment(os.environ, "file:", token, folder),
                token=token,
                folder=folder,
                hold=hold,
                limits=Limits(limit_s + STARTING_S, launcher.memory, GRACE_S),
                output=output,
            )
        )
        own, start = orphans.me()
        running = orphans.Running(name, token, own, start, process.pid, process.start, (str(folder),))
        with orphans.recorded(work / f"{name}.pid", running):
            ended = process.wait()
        if ended.stopped is not None:
            raise (OutOfMemory if ended.stopped == "memory" else TrialTimeout)(f"the probe was ended: {ended.detail}")
        if ended.code != 0:
            raise HarnessError(f"the probe ended with {ended.code}: {output.tail}")
        return read(out.read_bytes(), str(out))


def read(text: bytes, where: str) -> ProbeDocument:
    """The probe's document; HarnessError if the harness there wrote something else."""
    try:
        return ProbeDocument.read(text, where)
    except BadProbe as bad:
        raise HarnessError(f"{bad}; is its image of another version?") from bad
