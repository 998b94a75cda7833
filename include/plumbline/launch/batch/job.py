"""What runs a trial on a machine: its folder, its files, and the shell that starts the harness."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from plumbline.declarations import Trial
from plumbline.declarations.providers.batch import BatchLauncher
from plumbline.harness.gang.topology import NODE_RANK_VARIABLE, RENDEZVOUS_VARIABLE
from plumbline.launch.batch.harness_copy import HarnessCopy
from plumbline.results import signing

TRIAL, START, LOG, STORE, KEY = "trial.json", "start.sh", "log", "store", "key"
"""Files of a launch; the harness writes its document below STORE."""


@dataclass(frozen=True)
class BatchJob:
    """One attempt of a trial as commands there. `name`: of the launch."""

    trial: Trial
    name: str
    copy: HarnessCopy

    @property
    def launcher(self) -> BatchLauncher:
        launcher = self.trial.provider.launcher
        assert isinstance(launcher, BatchLauncher)
        return launcher

    @property
    def folder(self) -> str:
        return launch_folder(self.launcher, self.name)

    def start_script(self, python: str | None = None, rank: str = "0") -> str:
        """Starts the harness of one node. `rank`: a word of shell with the node's number; the first one's end is written to `end`."""
        environment = {
            "PYTHONPATH": self.copy.folder(self.launcher.folder),
            "PYTHONUNBUFFERED": "1",
            "PLUMBLINE_LAUNCH": self.name,
            **self.launcher.env,
        }
        folder = shlex.quote(self.folder)
        lines = [
            "#!/bin/sh",
            "trap : TERM  # the harness ends by itself, and its end is written",
            f"cd {folder} || exit 1",
            f"rank={rank}",
            f'[ "$rank" = 0 ] || exec > {LOG}."$rank" 2>&1',
            *self.launcher.setup,
            *(f"export {name}={shlex.quote(value)}" for name, value in environment.items()),
            f'export {NODE_RANK_VARIABLE}="$rank"',
            f"{self.copy.check_script(self.launcher.folder)} || {{ echo 'the harness there is not what was sent' >&2; exit 2; }}",
            f'[ "$rank" = 0 ] && [ -f {KEY} ] && {signing.KEY_VARIABLE}=$(cat {KEY}) && export {signing.KEY_VARIABLE} && rm -f {KEY}',
            f"{shlex.quote(python or self.launcher.python)} -m plumbline.harness run --trial {TRIAL} --out {shlex.quote(f'file://{self.folder}/{STORE}')} &",
            "harness=$!",
            'while :; do wait "$harness"; code=$?; kill -0 "$harness" 2>/dev/null || break; done',
            '[ "$rank" = 0 ] && printf \'exit %s\' "$code" > end.part && mv -f end.part end',
            'exit "$code"',
        ]
        return "\n".join(lines) + "\n"

    def rendezvous(self, host: str) -> str:
        """The line of shell that says where the nodes meet."""
        return f"export {RENDEZVOUS_VARIABLE}={host}:{self.launcher.rendezvous_port}"


def launch_folder(launcher: BatchLauncher, name: str) -> str:
    return f"{launcher.folder.rstrip('/')}/launches/{name}"
