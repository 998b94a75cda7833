"""What a team's command gets of the environment: never what the harness itself needs, such as the result store's keys."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from plumbline.declarations.workloads.script import OF_HARNESS
from plumbline.harness import engine_python
from plumbline.harness.gang.channel import free_port
from plumbline.harness.training.worker_protocol import ProcessGroupSpec

REPORTER = str(Path(__file__).resolve().parents[3] / "reporter")
_PACKAGE_ROOT = str(Path(__file__).resolve().parents[4])

MARKS = ("PLUMBLINE_TRIAL_TOKEN", "PLUMBLINE_SERVER")
"""By which a launcher finds every process of a trial; they open nothing."""
_OF_TRIAL = re.compile(
    r"PLUMBLINE_.*|AIRFLOW_.*|(AWS|AZURE|FSSPEC|GOOGLE|GCLOUD|CLOUDSDK|BOTO|S3)_.*|STORAGE_EMULATOR_HOST|(SCRIPTS|PROMPTS)_FOLDER"
    r"|SSH_AUTH_SOCK|KUBECONFIG"
)
"""Variables of the harness, the installation and the clients of stores: results, the archive and evidence are written with them."""
_ALLOWED_HERE = re.compile(
    r"PATH|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_.+|TZ|TMPDIR|PYTHONPATH|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|LD_LIBRARY_PATH|VIRTUAL_ENV"
    r"|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|(HTTPS?|NO)_PROXY|(https?|no)_proxy|CUDA_HOME"
    r"|(CUDA|HIP|ROCR)_VISIBLE_DEVICES|(NCCL|GLOO|OMP|MKL|NVIDIA|TORCH|PYTORCH|UCX)_.+|HSA_.+"
)
"""On this machine, where the environment is a person's or a server's. In a pod it is the image's and the provider's."""


def inherited(variables: Mapping[str, str], given: Collection[str], home: str) -> dict[str, str]:
    """What a command gets of `variables`. `given`: names that the provider declares for it, whatever they are. `home`: its own, on this machine;
    empty in a pod, which has one."""
    kept = {
        name: value
        for name, value in variables.items()
        if name in given or name in MARKS or not (_OF_TRIAL.fullmatch(name) or (home and not _ALLOWED_HERE.fullmatch(name)))
    }
    if home:
        packages = Path(variables.get("HOME") or "/nowhere", ".local")
        kept |= {"HOME": home} | ({"PYTHONUSERBASE": str(packages)} if packages.is_dir() else {})
    return kept


def command_environment(
    report: str, group: ProcessGroupSpec | None, *, launches_ranks: bool, threads: int, given: Collection[str] = (), home: str = ""
) -> dict[str, str]:
    """Variables of the command: of this process's what it may have (see `inherited`), and torchrun's where several processes train together, or
    its launcher's own."""
    kept = {name: value for name, value in inherited(os.environ, given, home).items() if name not in OF_HARNESS}
    kept["PATH"] = engine_python.command_path(kept.get("PATH"))
    paths = [path for path in kept.get("PYTHONPATH", "").split(os.pathsep) if path not in ("", _PACKAGE_ROOT)]
    kept |= {"PYTHONPATH": os.pathsep.join([*paths, REPORTER]), "PYTHONUNBUFFERED": "1", "PLUMBLINE_REPORT": report}
    if launches_ranks:
        node, nodes, host, port = (group.rank, group.nodes, group.host, group.port) if group else (0, 1, "127.0.0.1", free_port())
        kept |= {"NNODES": str(nodes), "NODE_RANK": str(node), "GROUP_RANK": str(node), "MASTER_ADDR": host, "MASTER_PORT": str(port)}
    elif group is not None:
        local_world = group.world // group.nodes
        numbers = (group.rank, group.world, group.local, local_world, group.rank // local_world, group.rank // local_world, group.nodes)
        kept |= dict(zip(OF_HARNESS, map(str, numbers), strict=False)) | {"MASTER_ADDR": group.host, "MASTER_PORT": str(group.port)}
        if local_world > 1:
            kept.setdefault("OMP_NUM_THREADS", str(threads))
    return kept
