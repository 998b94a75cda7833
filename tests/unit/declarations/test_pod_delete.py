"""Where the fault pod_delete can be declared, and on which providers such a workload fits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError
from tests.fakes.trials import cluster_provider, declared, local_provider

from plumbline.declarations import Provider, TrainingWorkload, incompatibility


def workload(**changed: Any) -> TrainingWorkload:
    shipped = json.loads(declared().workloads["gpt-tiny-cpu"].model_dump_json())
    return TrainingWorkload.model_validate_json(json.dumps({**shipped, "fault": {"inject": "pod_delete", "at_step": 50}, **changed}))


def test_it_is_counted_and_no_other_fault_is() -> None:
    assert workload(fault={"inject": "pod_delete", "at_step": 50, "times": 3}).pod_deletions == 3
    assert workload(fault={"inject": "rank_kill", "at_step": 50}).pod_deletions == workload(fault=None).pod_deletions == 0


def test_several_nodes_are_refused() -> None:
    with pytest.raises(ValidationError, match=r"fault\.inject .*parallelism\.nodes 2"):
        workload(parallelism={"nodes": 2})
    assert workload(parallelism={"nodes": 2}, fault={"inject": "rank_kill", "at_step": 50}).nodes == 2


@pytest.mark.parametrize(
    ("provider", "why"),
    [
        (cluster_provider(volume_claim="checkpoints"), None),
        (cluster_provider(), "launcher.volume_claim"),
        (local_provider(), "launcher.kind is local"),
    ],
)
def test_it_fits_a_cluster_with_a_volume_only(provider: Provider, why: str | None) -> None:
    reason = incompatibility(workload(), provider)
    assert reason is None if why is None else why in str(reason)
    assert incompatibility(workload(fault={"inject": "rank_kill", "at_step": 50}), provider) is None
