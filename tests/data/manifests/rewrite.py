"""What the golden manifests beside this file are made from.

After a change of the templates or of the functions that fill them in: `PYTHONPATH=include:. python -m tests.data.manifests.rewrite`,
then read the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import yaml
from tests.fakes.trials import CPU, EXTERNAL, H100, a_trial, cluster_provider, serving

from plumbline.declarations import Provider, Trial
from plumbline.launch.cluster.manifests.gang import gang_manifests
from plumbline.launch.cluster.manifests.guard import guard_job
from plumbline.launch.cluster.manifests.network import network_policies
from plumbline.launch.cluster.manifests.serving import serving_parts
from plumbline.launch.cluster.manifests.trial_pod import pod_manifest
from plumbline.launch.cluster.names import serving_of

FOLDER = Path(__file__).parent
REQUESTED_AT = datetime(2026, 11, 1, 2, 0, 30, tzinfo=timezone.utc)
IMAGE = "registry.example.com/plumbline-{}@sha256:" + 64 * "5"
EIGHT_GPUS = {"needs": {"accelerator": "nvidia", "count": 8}}


def h100(**launcher: Any) -> Provider:
    """Nodes of eight H100, as a declaration for a real cluster would have them."""
    settings = {
        "namespace": "benchmarks",
        "images": {kind: IMAGE.format(kind) for kind in ("training", "inference")},
        "resources": {"cpu": 96, "memory": "900GiB", "ephemeral_storage": "500GiB", "shared_memory": "64GiB", "extended": {"rdma/ib": 8}},
        "tolerations": [{"key": "reserved-for", "operator": "Equal", "value": "benchmarks"}],
        "results_secret": "plumbline-results",
    }
    return cluster_provider("h100", H100, **{**settings, **launcher})


def gang_trial(nodes: int, **launcher: Any) -> Trial:
    """Training over several nodes of eight GPUs."""
    return a_trial(provider=h100(**launcher), declare={**EIGHT_GPUS, "parallelism": {"nodes": nodes, "processes": 8}})


def _pod(trial: Trial) -> list[Any]:
    return [pod_manifest(trial, requested_at=REQUESTED_AT)]


def _gang(trial: Trial) -> list[Any]:
    made = gang_manifests(trial, requested_at=REQUESTED_AT)
    return [made.owner, *network_policies(trial, REQUESTED_AT), *made.pods]


def _served(trial: Trial) -> list[Any]:
    served = serving_of(trial)
    assert served is not None
    parts = (*network_policies(trial, REQUESTED_AT), *serving_parts(trial, served, REQUESTED_AT))
    return [guard_job(trial, REQUESTED_AT), *parts, *_pod(trial)]


def _fresh(trial: Trial) -> Trial:
    return trial.model_copy(update={"placement": "fresh_node", "avoid_nodes": ("gpu-3", "gpu-17")})


CASES: dict[str, Callable[[], list[Any]]] = {
    "cpu-training": lambda: _pod(a_trial(provider=cluster_provider("cpu", CPU))),
    "cpu-inference": lambda: _pod(a_trial("inference", cluster_provider("cpu", CPU, results_url="az://results/plumbline"))),
    "gpus-8": lambda: _pod(
        a_trial(
            provider=h100(
                image_pull_secrets=["registry"], priority_class="benchmarks", runtime_class="nvidia", queue="gpus", host_ipc=True
            ),
            declare=EIGHT_GPUS,
        )
    ),
    "gpus-8-inference": lambda: _pod(a_trial("inference", h100(results_url="gs://results/plumbline"), declare=EIGHT_GPUS)),
    "fresh-node": lambda: _pod(_fresh(a_trial(provider=h100(), declare=EIGHT_GPUS))),
    "gang-of-2": lambda: _gang(gang_trial(2)),
    "gang-of-4-queue-topology": lambda: _gang(gang_trial(4, queue="gpus", topology="topology.kubernetes.io/zone", results_secret=None)),
    "served-by-hpa": lambda: _served(
        a_trial(
            "inference",
            h100(serving=serving(scaling={"by": "hpa", "minimum": 2, "maximum": 8, "cpu": "70%"}), queue="gpus"),
            declare={**EIGHT_GPUS, **EXTERNAL},
        )
    ),
    "jobset": lambda: _gang(gang_trial(2, gang="jobset", queue="gpus")),
}


def text(case: str) -> str:
    """The case's objects as YAML documents, in the order in which they are created."""
    return yaml.dump_all(CASES[case](), Dumper=_Plain, sort_keys=False, width=140)


class _Plain(yaml.SafeDumper):
    """Writes what occurs twice twice: a manifest has no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


if __name__ == "__main__":
    for name in CASES:
        (FOLDER / f"{name}.yaml").write_text(text(name), encoding="utf-8")
