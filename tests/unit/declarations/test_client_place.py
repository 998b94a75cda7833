"""An endpoint whose client runs at another provider: both launchers in one, or one sentence why that cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.fakes.trials import a_trial, cluster_provider

from plumbline.declarations import DeclarationError, EndpointLauncher, KubernetesLauncher, Provider, Trial, load, series_key
from plumbline.declarations.providers.launchers import ClientPodLauncher
from plumbline.declarations.trials import requested_specification
from plumbline.launch.client_pod import ClientPods
from plumbline.launch.cluster.manifests.trial_pod import pod_manifest
from plumbline.launch.registry import launcher_for

ENDPOINT = {"kind": "endpoint", "url": "https://api.example.com/v1", "protocol": "openai", "model": "m", "timeout": "5min"}
GPUS = {"kind": "nvidia", "product": "NVIDIA-H100-80GB-HBM3", "count": 8}
SECRET = {"provider": "cluster-a", "secret": "api-key"}


def declare(config: Path, client: dict[str, Any], **launcher: Any) -> Provider:
    """The endpoint `far` beside the providers `here` (local), `cluster-a` and `made-up` (simulated)."""
    cluster = json.loads(cluster_provider(resources={"cpu": 2, "memory": "4GiB"}).model_dump_json(exclude_defaults=True))
    place = {"cloud": "host", "instance_type": "api", "accelerator": GPUS}
    far = {"name": "far", "region": "us", **place, "launcher": {**ENDPOINT, "client": client, **launcher}}
    made_up = {"name": "made-up", "region": "us", **place, "launcher": {"kind": "simulated", "seed": 1}}
    other = {"name": "other", "region": "us", **place, "launcher": {**ENDPOINT, "client": {"provider": "far"}}}
    for declared in (cluster, far, made_up, *([other] if client.get("provider") == "other" else [])):
        (config / "providers" / f"{declared['name']}.yaml").write_text(yaml.safe_dump(declared))
    return load(config).providers["far"]


def trial_at(provider: Provider) -> Trial:
    needs = {"accelerator": "nvidia", "count": 1}
    return a_trial("inference", provider, {"needs": needs, "server": {"backend": "external", "client_placement": "other_region"}})


def test_the_client_is_a_pod_of_the_other_provider_without_its_accelerators(config: Path) -> None:
    provider = declare(config, SECRET, connection="far_key")
    launcher = provider.launcher_as(ClientPodLauncher)
    assert (launcher.runs_pods, launcher.hosted, launcher.connection, launcher.timeout) == (True, True, "k8s_a", 300.0)
    assert provider.launcher_as(EndpointLauncher).url == ENDPOINT["url"] and provider.launcher_as(KubernetesLauncher) is launcher
    trial = trial_at(provider)
    assert Trial.model_validate_json(trial.model_dump_json()) == trial
    container = pod_manifest(trial, requested_at=trial.planned_at)["spec"]["containers"][0]
    assert set(container["resources"]["limits"]) == {"cpu", "memory"}
    (key,) = [entry for entry in container["env"] if entry["name"] == "PLUMBLINE_ENDPOINT_KEY"]
    assert key["valueFrom"] == {"secretKeyRef": {"name": "api-key", "key": "PLUMBLINE_ENDPOINT_KEY"}}
    assert not pod_manifest(trial, requested_at=trial.planned_at)["spec"].get("nodeSelector")
    runs = launcher_for(provider)
    assert isinstance(runs, ClientPods) and runs.operator is not None, "Airflow launches its pods"


def test_another_client_place_is_another_specification_of_the_same_series(config: Path) -> None:
    near, far = (declare(config, {"provider": name}) for name in ("here", "cluster-a"))
    assert (near.launcher.client_place, far.launcher.client_place) == ("local here", "test-cloud region-1")
    assert near.launcher.machine_name == "this-machine" and not near.launcher.runs_pods
    specifications = [requested_specification(trial_at(place))["server"]["client"] for place in (near, far)]
    assert specifications == ["local here", "test-cloud region-1"]
    assert series_key(trial_at(near).workload, near) == series_key(trial_at(far).workload, far)


@pytest.mark.parametrize(
    ("client", "launcher", "says"),
    [
        ({"provider": "nowhere"}, {}, "nowhere"),
        ({"provider": "made-up"}, {}, "launcher.kind simulated, which runs no client; expected a provider of kind local or kubernetes"),
        ({"provider": "far"}, {}, "launcher.kind endpoint, which runs no client"),
        ({"provider": "other"}, {}, "launcher.kind endpoint, which runs no client"),
        ({"provider": "cluster-a"}, {"connection": "far_key"}, "expected client.secret"),
        ({"provider": "cluster-a"}, {"deployment": {"connection": "k", "namespace": "n", "name": "d"}}, "expected one of them"),
        ({"provider": "cluster-a"}, {"url": "http://127.0.0.1:8000/v1"}, "expected the server's address there"),
    ],
    ids=["unknown", "simulated", "itself", "circle", "key", "deployment", "loopback"],
)
def test_a_place_that_can_run_no_client_is_one_problem(config: Path, client: dict[str, Any], launcher: dict[str, Any], says: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        declare(config, client, **launcher)
    problems = [problem for problem in raised.value.problems if "far.yaml" in problem.file]
    assert [problem.field for problem in problems] == ["launcher.client.provider"] and says in str(problems[0])
