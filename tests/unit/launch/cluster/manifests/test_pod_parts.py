"""A declaration's pod fields as parts of the pod."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest
from tests.data.manifests.rewrite import EIGHT_GPUS, REQUESTED_AT, gang_trial, h100
from tests.fakes.trials import a_trial
from tests.unit.launch.cluster.test_golden_manifests import problems

from plumbline.launch.cluster.manifests.gang import gang_manifests
from plumbline.launch.cluster.manifests.trial_pod import load_template, pod_manifest
from plumbline.launch.cluster.names import LAUNCH
from plumbline.launch.cluster.observe.node_room import requested_resources

DAEMON = {
    "name": "tcpx-daemon",
    "image": "registry.example.com/daemon:v1",
    "args": ["--verbose"],
    "env": {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"},
    "mounts": [{"volume": "sys", "path": "/hostsysfs", "read_only": True}],
    "cpu": 2,
    "memory": "4GiB",
    "run_as_root": True,
    "capabilities": ["NET_ADMIN"],
}
CHECK = {"name": "check", "image": "registry.example.com/check@sha256:" + 64 * "0"}
CARRIED: dict[str, Any] = {
    "env": {"NCCL_SOCKET_IFNAME": "eth0", "PATH": "/opt/bin:/usr/bin"},
    "annotations": {"networking.gke.io/default-interface": "eth0"},
    "labels": {"team": "ml"},
    "capabilities": ["IPC_LOCK"],
    "supplemental_groups": [44, 109],
    "volumes": [
        {
            "name": "libraries",
            "host_path": {"path": "/home/kubernetes/bin/nvidia/lib64", "type": "Directory"},
            "mount": "/usr/local/nvidia/lib64",
        },
        {"name": "scratch", "empty_dir": {"size": "10GiB"}, "mount": "/scratch"},
        {"name": "models", "claim": "models", "mount": "/models", "read_only": True},
    ],
    "resources": {"cpu": 96, "memory": "900GiB", "hugepages": {"2Mi": "5GiB"}},
}
BESIDE: dict[str, Any] = {
    "host_network": True,
    "volumes": [{"name": "sys", "host_path": {"path": "/sys"}}],
    "sidecars": [DAEMON],
    "init_containers": [CHECK],
}


def pod(**launcher: Any) -> dict[str, Any]:
    return pod_manifest(a_trial(provider=h100(**launcher), declare=EIGHT_GPUS), requested_at=REQUESTED_AT)


def test_each_field_reaches_the_pod() -> None:
    row = pod(**CARRIED)
    assert problems(row) == []
    spec, (container,) = row["spec"], row["spec"]["containers"]
    assert {"name": "NCCL_SOCKET_IFNAME", "value": "eth0"} in container["env"]
    assert row["metadata"]["labels"]["team"] == "ml" and LAUNCH in row["metadata"]["labels"]
    assert row["metadata"]["annotations"]["networking.gke.io/default-interface"] == "eth0"
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}
    assert spec["securityContext"]["supplementalGroups"] == [44, 109] and spec["securityContext"]["runAsNonRoot"] is True
    assert container["resources"]["requests"]["hugepages-2Mi"] == container["resources"]["limits"]["hugepages-2Mi"] == "5Gi"
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes["libraries"]["hostPath"] == {"path": "/home/kubernetes/bin/nvidia/lib64", "type": "Directory"}
    assert volumes["scratch"]["emptyDir"] == {"sizeLimit": "10Gi"}
    assert volumes["models"]["persistentVolumeClaim"] == {"claimName": "models"}
    assert {"name": "models", "mountPath": "/models", "readOnly": True} in container["volumeMounts"]
    assert "hostNetwork" not in spec and "initContainers" not in spec


def test_a_variable_replaces_that_of_the_template() -> None:
    static = next(e["name"] for e in load_template("pod")["spec"]["containers"][0]["env"] if e["name"].endswith("_LIMIT"))
    entries = [{"name": static, "value": "1"}, {"name": "OTHER", "value": "2"}]
    from plumbline.launch.cluster.manifests.trial_pod import with_variables

    assert with_variables(entries, {static: "3"}) == [{"name": "OTHER", "value": "2"}, {"name": static, "value": "3"}]


def test_containers_beside_the_trial_end_with_it_and_have_no_more_rights_than_declared() -> None:
    row = pod(**BESIDE)
    assert problems(row) == []
    spec = row["spec"]
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert [c["name"] for c in spec["containers"]] == ["harness"], "a second container would keep the pod running after the trial"
    daemon, check = spec["initContainers"]
    assert daemon["restartPolicy"] == "Always" and "restartPolicy" not in check
    assert daemon["securityContext"] == {
        "runAsNonRoot": False,
        "runAsUser": 0,
        "runAsGroup": 0,
        "allowPrivilegeEscalation": False,
        "capabilities": {"add": ["NET_ADMIN"]},
    }
    assert check["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert daemon["volumeMounts"] == [{"name": "sys", "mountPath": "/hostsysfs", "readOnly": True}]
    assert daemon["resources"]["requests"] == daemon["resources"]["limits"] == {"cpu": "2", "memory": "4Gi"}
    privileged = pod(**{**BESIDE, "sidecars": [{**DAEMON, "privileged": True}]})["spec"]["initContainers"][0]
    assert privileged["securityContext"]["privileged"] is True
    assert spec["containers"][0]["securityContext"] == load_template("pod")["spec"]["containers"][0]["securityContext"]


def test_a_sidecar_needs_room_beside_the_trial() -> None:
    alone, beside = requested_resources(pod()), requested_resources(pod(**BESIDE))
    assert beside["cpu"] - alone["cpu"] == 2 and beside["memory"] - alone["memory"] == 4 * 2**30


def test_every_kind_of_gang_carries_them() -> None:
    pods = gang_manifests(gang_trial(2, **CARRIED, host_network=True, sidecars=[CHECK]), requested_at=REQUESTED_AT)
    assert all(row["spec"]["hostNetwork"] and row["spec"]["initContainers"] for row in pods.pods)
    owner = gang_manifests(gang_trial(2, **CARRIED, host_network=True, sidecars=[CHECK], gang="jobset"), requested_at=REQUESTED_AT).owner
    assert problems(owner) == []
    (replicated,) = owner["spec"]["replicatedJobs"]
    assert replicated["template"]["spec"]["template"]["spec"]["initContainers"][0]["name"] == "check"


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("/usr/local/cuda/compat/lib:/usr/local/nvidia/lib", "/usr/local/cuda/compat/lib:/usr/local/nvidia/lib:/opt/my libs"),
        (None, "/opt/my libs"),
    ],
)
def test_a_declared_library_path_is_added_to_the_images(image: str | None, expected: str) -> None:
    provider = h100(env={"LD_LIBRARY_PATH": "/opt/my libs", "NCCL_DEBUG": "INFO"})
    container = pod_manifest(a_trial(provider=provider, declare=EIGHT_GPUS), requested_at=REQUESTED_AT)["spec"]["containers"][0]
    assert "LD_LIBRARY_PATH" not in {entry["name"] for entry in container["env"]}
    own = load_template("pod")["spec"]["containers"][0]["command"]
    assert container["command"][-len(own) :] == own
    environment = {"PATH": os.environ["PATH"]} | ({} if image is None else {"LD_LIBRARY_PATH": image})
    words = [*container["command"][: -len(own)], "printenv", "LD_LIBRARY_PATH"]
    assert subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout.strip() == expected
