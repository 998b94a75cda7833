"""A served model on several nodes: what a declaration may say, and where it can run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError
from tests.data.manifests.rewrite import REQUESTED_AT
from tests.data.repositories.golden import GPU, LLAMA, workload
from tests.fakes.trials import H100, a_trial, cluster_provider, local_provider

from plumbline.declarations import InferenceWorkload, spec_hash
from plumbline.declarations.compatibility import incompatibility, model_fit
from plumbline.launch.cluster.manifests.gang import gang_manifests

RANKS = ["--nodes={nodes}", "--rank={node_rank}", "--at={leader_address}:{leader_port}"]
COMMAND = ["serve", *RANKS, "--tp={tensor}", "--pp={pipeline}", "{port}"]
TWO: dict[str, Any] = {"backend": "openai", "nodes": 2, "parallel": {"tensor": 8, "pipeline": 2}, "command": COMMAND}
CPU = {"accelerator": "cpu", "count": 1}


def declared(needs: dict[str, Any] = GPU | {"count": 8}, **server: Any) -> InferenceWorkload:
    return workload(model=LLAMA, server=TWO | server, needs=needs)


def test_one_node_is_the_default_and_changes_no_hash() -> None:
    one = {"backend": "openai", "command": ["serve", "{port}"]}
    plain, same = (workload(model=LLAMA, server=server, needs=GPU) for server in (one, one | {"nodes": 1, "worker_command": None}))
    assert (plain.nodes, spec_hash(plain)) == (1, spec_hash(same))
    assert spec_hash(declared()) != spec_hash(declared(worker_command=["serve", *COMMAND[1:]]))


def test_a_model_is_divided_over_the_accelerators_of_all_nodes() -> None:
    found = declared()
    assert (found.nodes, found.gpus, found.accelerators) == (2, 8, 16)
    assert declared(CPU, parallel={"pipeline": 2}).accelerators == 2


@pytest.mark.parametrize(
    ("server", "field"),
    [
        ({"parallel": {"tensor": 8}}, "expected a product of 16"),
        ({"parallel": None}, "server.nodes 2 without server.parallel"),
        ({"parallel": {"tensor": 8, "data": 2}}, "server.command does not name {data}"),
        ({"command": ["serve", "--tp={tensor}", "--pp={pipeline}", "{node_rank}", "{port}"]}, "{leader_address}"),
        ({"worker_command": ["serve", "{tensor}{pipeline}{leader_address}"]}, "server.worker_command does not name {node_rank}"),
        ({"worker_command": ["serve", "{rank}"]}, "server.worker_command names {rank}"),
        ({"nodes": 1, "parallel": {"tensor": 8}}, "{nodes}"),
        (
            {"nodes": 1, "parallel": None, "command": ["serve", "{port}"], "worker_command": ["serve"]},
            "server.worker_command with server.nodes 1",
        ),
        ({"backend": "vllm", "command": None}, "server.nodes 2 on server.backend vllm"),
        ({"backend": "tensorrtllm", "command": None}, "server.nodes 2 on server.backend tensorrtllm"),
    ],
)
def test_a_contradiction_is_refused(server: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        declared(**server)
    assert field in str(caught.value)


def test_cores_are_divided_evenly_over_the_nodes() -> None:
    with pytest.raises(ValidationError, match=r"\b4\b.*multiple of 2"):
        declared(CPU | {"count": 2}, parallel={"pipeline": 3}, command=COMMAND)


def test_replicas_and_nodes_exclude_each_other() -> None:
    data = json.loads(declared().model_dump_json()) | {"replicas": "fill"}
    with pytest.raises(ValidationError, match=r"replicas fill.*server\.nodes 2"):
        InferenceWorkload.model_validate_json(json.dumps(data))


@pytest.mark.parametrize(
    ("cpus", "nodes", "why"),
    [([0, 1], 2, None), ([0, 1], 1, "needs 2 nodes, but a local provider has one"), ([0], 2, "launcher.cpus has 1")],
)
def test_a_machine_takes_as_many_nodes_as_it_declares(cpus: list[int], nodes: int, why: str | None) -> None:
    found = incompatibility(declared(CPU, parallel={"pipeline": 2}), local_provider(cpus=cpus, nodes=nodes))
    assert found is None if why is None else why in str(found)


def test_a_checkpoint_fits_the_memory_of_all_nodes_and_each_copy_holds_it() -> None:
    model = {"source": "folder", "path": "/models/a", "context": 128, "weights_bytes": 900 * 2**30}
    provider = cluster_provider(accelerator=H100)

    def fits(parallel: dict[str, int], command: list[str]) -> bool:
        found = model_fit(
            workload(model=model, server=TWO | {"parallel": parallel, "command": command}, needs=GPU | {"count": 8}), provider
        )
        assert found is not None
        return found.fits

    assert fits({"tensor": 8, "pipeline": 2}, COMMAND)
    assert not fits({"tensor": 8, "data": 2}, [*COMMAND, "{data}"])


def test_a_cluster_runs_a_pod_for_each_node_as_it_does_for_training() -> None:
    found = declared()
    changes = {"workload": found, "provider": cluster_provider(accelerator=H100), "spec_hash": spec_hash(found)}
    trial = a_trial("inference").model_copy(update=changes)
    made = gang_manifests(trial, requested_at=REQUESTED_AT)
    assert (made.owner["kind"], len(made.pods)) == ("Service", 2)
    ranks = [{item["name"]: item.get("value") for item in pod["spec"]["containers"][0]["env"]}["PLUMBLINE_NODE_RANK"] for pod in made.pods]
    assert ranks == ["0", "1"]
    assert [pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] for pod in made.pods] == ["8", "8"]
