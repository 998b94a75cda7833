"""KubernetesExecutor: each task in a pod of the cluster of KUBECONFIG, made from the pod that the Helm values declare.

Differs from what ships: the image is Debian's Python, into which the node's folders of this checkout and its Python are mounted; claims are folders of the node; the pods use the
node's network, on which all services listen on loopback. So the cluster's only node must be this machine.
"""

from __future__ import annotations

import configparser
import io
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from fleet_services import ROOT, VALUES, Executor, FleetServer, wait_for
from kubernetes import client, config

IMAGE = ("localhost/k8skit/base", "1")
KUBERNETES_VALUES = VALUES.with_name("values-kubernetes-executor.yaml")
RELEASE = "plumbline"
_USER = 50000
_HOME, _LOGS, _CHECKOUT = "/var/lib/plumbline", "/opt/airflow/logs", "/opt/plumbline"
_CGROUP = Path("/sys/fs/cgroup/cpuacct/kubepods/cpuacct.usage")
_FROM_SECRET = {
    "AIRFLOW__CORE__FERNET_KEY": "fernet-key",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "connection",
    "AIRFLOW__API__SECRET_KEY": "api-secret-key",
}
"""Variables that the chart gives to every component itself → key of the Secret."""


def values() -> dict[str, Any]:
    """The Helm values of KubernetesExecutor, merged as Helm does."""
    merged: dict[str, Any] = {}
    for file in (VALUES, KUBERNETES_VALUES):
        _merge(merged, yaml.safe_load(file.read_text()))
    return merged


def _merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def task_pod(given: Mapping[str, Any]) -> dict[str, Any]:
    """The pod of a task, as the chart makes it from these values; tests/integration/test_chart.py compares the two."""
    workers = given["workers"]["kubernetes"]
    name = given["data"]["metadataSecretName"]
    from_secret = [{"name": n, "valueFrom": {"secretKeyRef": {"name": name, "key": key}}} for n, key in _FROM_SECRET.items()]
    config_mounts = [
        {"name": "config", "mountPath": f"/opt/airflow/{path}", "subPath": path.rpartition("/")[2], "readOnly": True}
        for path in ("airflow.cfg", "config/airflow_local_settings.py")
    ]
    container = {
        "name": "base",
        "image": f"{given['defaultAirflowRepository']}:{given['defaultAirflowTag']}",
        "imagePullPolicy": "IfNotPresent",
        "envFrom": yaml.safe_load(given["extraEnvFrom"]),
        "env": [
            {"name": "AIRFLOW__CORE__EXECUTOR", "value": given["executor"]},
            {"name": "AIRFLOW_HOME", "value": "/opt/airflow"},
            *from_secret,
            *given["env"],
            *given["workers"]["env"],
        ],
        "securityContext": given["securityContexts"]["containers"],
        "resources": workers["resources"],
        "volumeMounts": [{"name": "logs", "mountPath": _LOGS}, *config_mounts, *given["volumeMounts"]],
    }
    spec = {
        "containers": [container],
        "restartPolicy": "Never",
        "securityContext": given["securityContexts"]["pod"],
        "terminationGracePeriodSeconds": 600,
        "serviceAccountName": f"{RELEASE}-airflow-worker",
        "volumes": [
            {"name": "logs", "persistentVolumeClaim": {"claimName": given["logs"]["persistence"]["existingClaim"]}},
            {"name": "config", "configMap": {"name": f"{RELEASE}-config"}},
            *given["volumes"],
        ],
    }
    labels = {"tier": "airflow", "component": "worker", "release": RELEASE}
    annotations = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "placeholder-name", "labels": labels, "annotations": annotations},
        "spec": spec,
    }


class KubernetesExecutor(Executor):
    """`slots`: task pods at a time."""

    name = "kubernetes"

    def __init__(self, slots: int) -> None:
        super().__init__(slots)
        # The services and clusters of this machine run as another user than the pods: both must write what they share.
        os.umask(0)

    def begin(self, server: FleetServer) -> None:
        given = os.environ.get("KUBECONFIG")
        if given is None:
            raise RuntimeError("no KUBECONFIG; expected an administrator of a cluster whose only node is this machine")
        self._api = config.new_client_from_config(given)
        self.core = client.CoreV1Api(self._api)
        self._kubeconfig, self._server = Path(given), server
        self.namespace = f"fleet-{secrets.token_hex(3)}"
        self.core.create_namespace({"metadata": {"name": self.namespace}})
        server.folder.chmod(0o777)

    def settings(self) -> dict[str, str]:
        executor = {
            "namespace": self.namespace,
            "pod_template_file": str(self._template),
            "worker_container_repository": IMAGE[0],
            "worker_container_tag": IMAGE[1],
            "in_cluster": "False",
            "config_file": str(self._kubeconfig),
            **values()["config"].get("kubernetes_executor", {}),
        }
        return {
            "AIRFLOW__CORE__EXECUTOR": "KubernetesExecutor",
            "AIRFLOW__CORE__PARALLELISM": str(self.slots),
            **{f"AIRFLOW__KUBERNETES_EXECUTOR__{name.upper()}": str(value) for name, value in executor.items()},
        }

    def services(self, server: FleetServer) -> dict[str, dict[str, Any]]:
        given = values()
        database = f"127.0.0.1:{server.postgres.port}"
        self._secret(
            given["data"]["metadataSecretName"],
            {
                "connection": f"postgresql+psycopg2://airflow:{server.secrets['PLUMBLINE_AIRFLOW_DB_PASSWORD']}@{database}/airflow",
                "archive-url": f"postgresql://plumbline:{server.secrets['PLUMBLINE_ARCHIVE_DB_PASSWORD']}@{database}/plumbline",
                "fernet-key": server.secrets["PLUMBLINE_FERNET_KEY"],
                "api-secret-key": server.secrets["PLUMBLINE_API_SECRET_KEY"],
            },
        )
        self._secret(yaml.safe_load(given["extraEnvFrom"])[0]["secretRef"]["name"], server.extra)
        data = {"airflow.cfg": airflow_cfg(given, server.url), "airflow_local_settings.py": ""}
        self.core.create_namespaced_config_map(self.namespace, {"metadata": {"name": f"{RELEASE}-config"}, "data": data})
        account = {"metadata": {"name": f"{RELEASE}-airflow-worker"}, "automountServiceAccountToken": False}
        self.core.create_namespaced_service_account(self.namespace, account)
        for folder in (server.folder / "volumes" / "state", server.folder / "volumes" / "logs"):
            for each in (folder, *folder.rglob("*")):
                os.chown(each, _USER, 0)
        users = server.folder / "passwd"
        users.write_text(f"root:x:0:0::/root:/bin/sh\nairflow:x:{_USER}:0::/home/airflow:/bin/sh\n")
        self._template.write_text(yaml.safe_dump(on_this_machine(task_pod(given), server.folder, users, server.extra)))
        return {}

    @property
    def _template(self) -> Path:
        return self._server.folder / "pod_template_file.yaml"

    def _secret(self, name: str, data: Mapping[str, str]) -> None:
        self.core.create_namespaced_secret(self.namespace, {"metadata": {"name": name}, "stringData": dict(data)})

    def pods(self) -> list[Any]:
        """Task pods that are there."""
        found: list[Any] = self.core.list_namespaced_pod(self.namespace, label_selector="kubernetes_executor=True").items
        return found

    def delete_one(self) -> str:
        """Delete a running task pod at once, as the end of its node does; its name."""

        def running() -> list[str]:
            return [pod.metadata.name for pod in self.pods() if pod.status.phase == "Running"]

        wait_for("a task pod runs", running, 120)
        name = running()[0]
        self.core.delete_namespaced_pod(name, self.namespace, grace_period_seconds=0)
        return name

    def cpu(self) -> dict[str, float]:
        """CPU seconds of all pods of the node, ended ones too."""
        return {"task pods": int(_CGROUP.read_text()) / 1e9}

    def end(self) -> None:
        if hasattr(self, "namespace"):
            self.core.delete_namespace(self.namespace)


def airflow_cfg(given: Mapping[str, Any], url: str) -> str:
    """Airflow's settings of the Helm values, with the API server's address of here."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_dict({section: {k: str(v) for k, v in keys.items()} for section, keys in given["config"].items()})
    parser["core"].update({"executor": given["executor"], "execution_api_server_url": f"{url}/execution/"})
    text = io.StringIO()
    parser.write(text)
    return text.getvalue()


def on_this_machine(pod: dict[str, Any], folder: Path, users: Path, extra: Mapping[str, str]) -> dict[str, Any]:
    """The pod with this machine's Python and folders in place of the server's image and claims; see the top of this file."""
    spec, (container,) = pod["spec"], pod["spec"]["containers"]
    container["image"] = ":".join(IMAGE)
    environment = Path(sys.prefix).resolve()
    # Of k8s/airflow/Dockerfile.
    image = {
        "PATH": f"{environment}/bin:/usr/bin:/bin",
        "PYTHONPATH": f"{_CHECKOUT}/include",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": "/tmp",
    }
    kept = [each for each in container["env"] if each["name"] not in extra]
    container["env"] = [*kept, *({"name": name, "value": value} for name, value in image.items())]
    container["workingDir"] = _CHECKOUT
    above = folder / "above"
    (above / Path(*Path(sys.base_prefix).parts[2:])).mkdir(parents=True)
    places = {
        "logs": (folder / "volumes" / "logs", None),
        "state": (folder / "volumes" / "state", None),
        "fleet": (folder, str(folder)),
        "checkout": (ROOT, _CHECKOUT),
        "environment": (environment, str(environment)),
        # The image's own folder above Python may be closed to the pods' user, as /root is.
        "above": (above, f"/{Path(sys.base_prefix).parts[1]}"),
        "python": (Path(sys.base_prefix), sys.base_prefix),
        "users": (users, "/etc/passwd"),
    }
    spec["hostNetwork"] = True
    spec["volumes"] = [each for each in spec["volumes"] if each["name"] not in places]
    for name, (here, target) in places.items():
        spec["volumes"].append({"name": name, "hostPath": {"path": str(here)}})
        if target:
            container["volumeMounts"].append({"name": name, "mountPath": target, "readOnly": name != "fleet"})
    return pod
