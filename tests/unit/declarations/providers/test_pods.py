"""What a cluster provider may declare of its trials' pods, and what it may not."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.fakes.trials import cluster_provider

from plumbline.launch.cluster.manifests.trial_pod import load_template

DAEMON = {"name": "daemon", "image": "registry.example.com/daemon:v1"}
SOCKET = {"name": "socket", "host_path": {"path": "/run/tcpx"}, "mount": "/run/tcpx"}
GOOD: list[dict[str, Any]] = [
    {"env": {"NCCL_SOCKET_IFNAME": "eth0", "HF_HOME": "/models"}},
    {"annotations": {"networking.gke.io/default-interface": "eth0"}, "labels": {"team": "ml"}},
    {"host_network": True, "capabilities": ["IPC_LOCK"], "supplemental_groups": [44]},
    {"volumes": [SOCKET], "sidecars": [{**DAEMON, "mounts": [{"volume": "socket", "path": "/run/tcpx"}]}]},
    {"volumes": [{"name": "scratch", "empty_dir": {"size": "1TiB"}, "mount": "/scratch"}]},
    {"volumes": [{"name": "models", "claim": "models", "mount": "/models", "read_only": True}]},
    {"volumes": [{"name": "sys", "host_path": {"path": "/sys"}}], "init_containers": [{**DAEMON, "run_as_root": True}]},
    {"resources": {"cpu": 1, "memory": "2GiB", "hugepages": {"2Mi": "5GiB"}}},
]
BAD: list[tuple[dict[str, Any], tuple[str | int, ...]]] = [
    ({"env": {"NCCL_DEBUG": 1}}, ("env", "NCCL_DEBUG")),
    ({"env": {"PLUMBLINE_HOME": "/elsewhere"}}, ("env",)),
    ({"env": {"HF_TOKEN": "abc"}}, ("env",)),
    ({"env": {"AWS_SECRET_ACCESS_KEY": "abc"}}, ("env",)),
    ({"labels": {"plumbline/launch": "mine"}}, ("labels",)),
    ({"labels": {"team": "not a value"}}, ("labels", "team")),
    ({"annotations": {"container.apparmor.security.beta.kubernetes.io/harness": "unconfined"}}, ("annotations",)),
    ({"labels": {"azure.workload.identity/use": "true"}}, ("labels",)),
    ({"annotations": {"kueue.x-k8s.io/queue-name": "mine"}}, ("annotations",)),
    ({"capabilities": ["SYS_ADMIN"]}, ("capabilities", 0)),
    ({"supplemental_groups": [0]}, ("supplemental_groups", 0)),
    ({"volumes": [{"name": "a"}]}, ("volumes", 0)),
    ({"volumes": [{"name": "a", "claim": "a", "empty_dir": {}}]}, ("volumes", 0)),
    ({"volumes": [{"name": "work", "empty_dir": {}}]}, ("volumes", 0)),
    ({"volumes": [{"name": "a", "empty_dir": {}, "mount": "/tmp/a"}]}, ("volumes", 0)),
    ({"volumes": [{"name": "a", "host_path": {"path": "/"}}]}, ("volumes", 0, "host_path", "path")),
    ({"volumes": [{"name": "a", "host_path": {"path": "/etc"}}]}, ("volumes", 0)),
    ({"volumes": [{"name": "a", "host_path": {"path": "/mnt/../etc"}}]}, ("volumes", 0, "host_path", "path")),
    ({"volumes": [{"name": "a", "empty_dir": {}, "mount": "/var/../work"}]}, ("volumes", 0, "mount")),
    ({"volumes": [{"name": "a", "empty_dir": {}, "mount": "/dev"}]}, ("volumes", 0)),
    (
        {"volumes": [SOCKET], "sidecars": [{**DAEMON, "mounts": [{"volume": "socket", "path": "/x", "sub_path": "../y"}]}]},
        ("sidecars", 0, "mounts", 0, "sub_path"),
    ),
    ({"models_cache": "/mnt/../etc"}, ("models_cache",)),
    ({"volumes": [{"name": "a", "host_path": {"path": "/sys"}, "mount": "/hostsysfs"}]}, ("volumes", 0)),
    ({"volumes": [SOCKET, SOCKET]}, ()),
    ({"sidecars": [DAEMON], "init_containers": [DAEMON]}, ()),
    ({"sidecars": [{**DAEMON, "mounts": [{"volume": "socket", "path": "/run/tcpx"}]}]}, ()),
    ({"sidecars": [{**DAEMON, "name": "harness"}]}, ("sidecars", 0)),
    ({"sidecars": [{**DAEMON, "image": "daemon:latest"}]}, ("sidecars", 0)),
    ({"sidecars": [{**DAEMON, "image": "daemon"}]}, ("sidecars", 0, "image")),
    ({"sidecars": [{**DAEMON, "capabilities": ["SYS_ADMIN"]}]}, ("sidecars", 0, "capabilities", 0)),
    ({"gang": "trainjob"}, ("gang",)),
]


@pytest.mark.parametrize("fields", GOOD, ids=lambda f: "-".join(f))
def test_a_field_is_accepted_and_survives_a_round_trip(fields: dict[str, Any]) -> None:
    provider = cluster_provider(**fields)
    assert type(provider).model_validate_json(provider.model_dump_json()) == provider


@pytest.mark.parametrize(("fields", "where"), BAD, ids=lambda f: "-".join(map(str, f)))
def test_a_wrong_field_is_refused_where_it_is_wrong(fields: dict[str, Any], where: tuple[str | int, ...]) -> None:
    with pytest.raises(ValidationError) as refused:
        cluster_provider(**fields)
    (problem,) = refused.value.errors()
    assert problem["loc"][: 2 + len(where)] == ("launcher", "kubernetes", *where)


def test_no_declared_variable_replaces_what_the_harness_lives_by() -> None:
    names = [entry["name"] for entry in load_template("pod")["spec"]["containers"][0]["env"]]
    own = [name for name in names if name.startswith(("PLUMBLINE_", "PYTHON")) or name in ("HOME", "TMPDIR")]
    assert len(own) >= 10
    for name in own:
        with pytest.raises(ValidationError):
            cluster_provider(env={name: "other"})
