"""The servers of a trial are pods like its own, with their own resources and without its keys."""

from __future__ import annotations

from typing import Any

from tests.data.manifests.rewrite import EIGHT_GPUS, REQUESTED_AT, h100
from tests.fakes.trials import EXTERNAL, a_trial, serving

from plumbline.launch.cluster.manifests.serving import serving_parts
from plumbline.launch.cluster.manifests.trial_pod import pod_manifest
from plumbline.launch.cluster.names import LAUNCH, serving_of


def server(**launcher: Any) -> dict[str, Any]:
    """The pod template of the Deployment."""
    trial = a_trial("inference", h100(**launcher), {**EIGHT_GPUS, **EXTERNAL})
    declared = serving_of(trial)
    assert declared is not None
    template: dict[str, Any] = serving_parts(trial, declared, REQUESTED_AT)[1]["spec"]["template"]
    return template


def test_a_server_has_its_own_resources_and_the_accelerators() -> None:
    own = {"cpu": 8, "memory": "64GiB", "ephemeral_storage": "20GiB", "shared_memory": "2GiB"}
    spec = server(serving=serving(resources=own))["spec"]
    assert spec["containers"][0]["resources"]["limits"] == {
        "cpu": "8",
        "memory": "64Gi",
        "ephemeral-storage": "20Gi",
        "nvidia.com/gpu": "8",
    }
    assert {v["emptyDir"]["sizeLimit"] for v in spec["volumes"]} == {"20Gi", "2Gi"}
    client = pod_manifest(a_trial("inference", h100(serving=serving()), {**EIGHT_GPUS, **EXTERNAL}), requested_at=REQUESTED_AT)
    assert "nvidia.com/gpu" not in client["spec"]["containers"][0]["resources"]["limits"]


def test_a_server_has_no_secret_of_the_trial_and_is_not_counted_as_its_pod() -> None:
    template = server(serving=serving(env={"VLLM_LOGGING_LEVEL": "ERROR"}), models_secret="hub", queue="gpus")
    entries = template["spec"]["containers"][0]["env"]
    assert {e["valueFrom"]["secretKeyRef"]["name"] for e in entries if "secretKeyRef" in e.get("valueFrom", {})} <= {"hub"}
    assert not [e for e in entries if e["name"].startswith(("PLUMBLINE_", "AWS_"))]
    assert {"name": "VLLM_LOGGING_LEVEL", "value": "ERROR"} in entries
    assert LAUNCH not in template["metadata"]["labels"] and "kueue.x-k8s.io/queue-name" not in template["metadata"]["labels"]
    assert "activeDeadlineSeconds" not in template["spec"]


def test_libraries_keep_the_images_own_folders() -> None:
    command = server(serving=serving(), env={"LD_LIBRARY_PATH": "/opt/lib"})["spec"]["containers"][0]["command"]
    assert command[:2] == ["sh", "-c"] and command[3:] == ["/opt/lib", "python", "-m", "a_server"]


def test_its_image_is_its_own_or_the_trials() -> None:
    image = "registry.example.com/vllm@sha256:" + 64 * "6"
    assert server(serving=serving(image=image))["spec"]["containers"][0]["image"] == image
    assert "plumbline-inference" in server(serving=serving())["spec"]["containers"][0]["image"]
