"""Planned trials for tests: the shipped declarations, changed where a test needs it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

from tests.fakes.installation import CONFIG

from plumbline.declarations import AnyWorkload, Declarations, InferenceWorkload, Provider, Trial, load
from plumbline.declarations.loader import load_file
from plumbline.harness.delivery import evidence_entries
from plumbline.harness.measurement import EvidenceFile
from plumbline.launch.plan import RunRequest, plan, planned_trials
from plumbline.results import Evidence, ResultStore

PLANNED_AT = datetime(2026, 11, 1, 2, 0, tzinfo=timezone.utc)
WORKLOADS = {"training": "gpt-tiny-cpu", "inference": "chat-tiny-cpu"}


PROVIDERS = ("example-coreweave-h100", "example-eks-p5", "local-1core", "local-2core")


_shipped = cache(load)


@cache
def _quick() -> AnyWorkload:
    """The first run's inference workload with a smaller model."""
    file = Path(__file__).parents[1] / "data" / "chat-tiny-cpu.yaml"
    return load_file(file, InferenceWorkload)


def declared() -> Declarations:
    """The shipped declarations that tests rely on; others may come and go."""
    found = _shipped(CONFIG)
    workloads = dict(found.workloads) | {WORKLOADS["inference"]: _quick()}
    return Declarations(
        {name: found.providers[name] for name in PROVIDERS},
        {name: workloads[name] for name in sorted(WORKLOADS.values())},
        dict(found.teams),
        found.thresholds,
    )


def local_provider(**launcher: Any) -> Provider:
    """The shipped one-core provider with other launcher settings, such as `timeout="2s"`; `cpus` sets the accelerator count too."""
    data = json.loads(declared().providers["local-1core"].model_dump_json())
    data["launcher"] |= launcher
    data["accelerator"]["count"] = len(data["launcher"]["cpus"])
    return Provider.model_validate_json(json.dumps(data))


H100 = {"kind": "nvidia", "product": "NVIDIA-H100-80GB-HBM3", "count": 8}
CPU = {"kind": "cpu", "count": 1}


EXTERNAL = {"server": {"backend": "external", "client_placement": "other_node"}}
"""Of a workload whose servers exist already, or are a Deployment of the trial."""


def serving(**fields: Any) -> dict[str, Any]:
    """`launcher.serving` of a small server, which a scaler of the test's multiplies."""
    scaling = {"by": "none", "minimum": 1, "maximum": 4}
    return {"command": ["python", "-m", "a_server"], "ready": "/health", "model": "m", "scaling": scaling, **fields}


def cluster_provider(name: str = "cluster-a", accelerator: dict[str, Any] = CPU, **launcher: Any) -> Provider:
    """A provider on a Kubernetes cluster, with other launcher settings where a test needs them."""
    settings = {
        "kind": "kubernetes",
        "connection": "k8s_a",
        "namespace": "plumbline",
        "images": {"training": "localhost/plumbline/cpu:test", "inference": "localhost/plumbline/cpu:test"},
        "resources": {"cpu": 1, "memory": "2GiB", "shared_memory": "256MiB"},
        "results_url": "s3://plumbline-results/a",
    }
    return Provider.model_validate_json(
        json.dumps(
            {
                "name": name,
                "cloud": "test-cloud",
                "region": "region-1",
                "instance_type": "test-1",
                "accelerator": accelerator,
                "launcher": settings | launcher,
            }
        )
    )


def a_trial(kind: str = "training", provider: Provider | None = None, declare: Mapping[str, Any] | None = None, **request: Any) -> Trial:
    """The first planned trial of a kind on a provider; `declare` changes the workload's declaration."""
    shipped = declared()
    where = provider or shipped.providers["local-1core"]
    workload = shipped.workloads[WORKLOADS[kind]]
    if declare:
        workload = type(workload).model_validate_json(json.dumps(json.loads(workload.model_dump_json()) | dict(declare)))
    world = Declarations({where.name: where}, {workload.name: workload}, shipped.teams, shipped.thresholds)
    asked = {"campaign_id": "2026-11", "reason": "a test", "workloads": (workload.name,), **request}
    # The selfcheck takes seconds that a test of something else need not pay for.
    return plan(world, where, RunRequest(**asked), PLANNED_AT)[0].model_copy(update={"selfcheck": False})


def planned(declared: Declarations, request: RunRequest, *providers: str, at: datetime = PLANNED_AT) -> list[Trial]:
    """The trials of these providers, or of all enabled ones, in one list."""
    return [trial for trials in planned_trials(declared, request, providers, planned_at=at).values() for trial in trials]


def put_evidence(store: ResultStore, trial: Trial, kind: str, file: Path, rows: int | None = None) -> Evidence:
    """Store a raw file of the trial's attempt; its entry for the document."""
    ((entry, _),) = evidence_entries([EvidenceFile(kind, file, rows)])
    store.put(f"{store.folder(trial)}/{entry.uri}", file.read_bytes())
    return entry
