"""The cluster under test, with an administrator's rights: what a test plants on it, breaks on it, and finds left on it."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client, config

from plumbline.launch.cluster.names import LAUNCH, MANAGED_BY, MANAGER

Row = dict[str, Any]
GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
_LEFT = ("pods", "services", "deployments", "jobs", "configmaps", "persistentvolumeclaims")
_WAIT_S = 90.0


class Cluster:
    """The cluster of KUBECONFIG's current context."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self._api = config.new_client_from_config(str(kubeconfig))
        self.core = client.CoreV1Api(self._api)
        self.context = str(config.list_kube_config_contexts(str(kubeconfig))[1]["name"])

    def rows(self, answer: Any) -> Any:
        """An answer as plain JSON rows."""
        return self._api.sanitize_for_serialization(answer)

    def nodes(self) -> list[Row]:
        """Nodes that pods can be put on."""
        found: list[Row] = self.rows(self.core.list_node().items)
        return [n for n in found if not n["spec"].get("unschedulable")]

    def images(self) -> frozenset[str]:
        """Names of the images that every node has."""
        held = [{name for image in n["status"].get("images", ()) for name in image.get("names") or ()} for n in self.nodes()]
        return frozenset(set.intersection(*held)) if held else frozenset()

    def address_of_this_machine(self) -> str:
        """The address under which pods reach a server here: the one that this machine uses towards the nodes."""
        if given := os.environ.get("E2E_HOST"):
            return given
        node = next(a["address"] for a in self.nodes()[0]["status"]["addresses"] if a["type"] == "InternalIP")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((node, 9))
            return str(probe.getsockname()[0])

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl; its output."""
        command = ["kubectl", "--kubeconfig", str(self.kubeconfig), *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr or done.stdout}"
        return done.stdout

    @contextmanager
    def namespace(self, name: str, overlay: Mapping[str, Any]) -> Iterator[str]:
        """A namespace made from k8s/provider by a kustomize overlay; gone with all that is in it afterwards."""
        overlays = Path(__file__).parents[2] / "k8s" / "provider" / "overlays"
        # What is cluster-wide is named after the namespace, as in the example that people copy: two of them must not share it.
        apart = {"replacements": yaml.safe_load((overlays / "example" / "kustomization.yaml").read_text())["replacements"]}
        with tempfile.TemporaryDirectory(prefix="e2e-overlay-", dir=overlays) as folder:
            (Path(folder) / "kustomization.yaml").write_text(yaml.safe_dump({**apart, **overlay}))
            manifests = self.kubectl("kustomize", folder)
        try:
            self.kubectl("apply", "-f", "-", stdin=manifests)
            for account in ("default", "plumbline-trial"):  # pods are refused before their service account is there
                self.eventually(lambda account=account: self.core.read_namespaced_service_account(account, name))
            yield name
        finally:
            self.kubectl("delete", "--ignore-not-found", "--timeout=120s", "-f", "-", stdin=manifests)

    def secret(self, namespace: str, name: str, values: Mapping[str, str]) -> None:
        """Plant a Secret."""
        data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
        self.core.create_namespaced_secret(namespace, {"metadata": {"name": name}, "data": data})

    @contextmanager
    def volume(self, claim: str, namespace: str, image: str) -> Iterator[None]:
        """A claim on a volume that outlives pods: a folder of the first node. Pods of `image` make it, writable for all, and delete it."""
        node, name = self.nodes()[0]["metadata"]["name"], f"{namespace}-{claim}"
        size, modes = {"storage": "1Gi"}, ["ReadWriteMany"]
        path = {"path": f"/var/tmp/{name}", "type": "Directory"}
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        volume = {
            "metadata": {"name": name},
            "spec": {
                "capacity": size,
                "accessModes": modes,
                "storageClassName": "",
                "claimRef": {"namespace": namespace, "name": claim},
                "hostPath": path,
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            },
        }
        claimed = {"accessModes": modes, "storageClassName": "", "volumeName": name, "resources": {"requests": size}}
        self.on_node(node, image, f"{name}-made", ["mkdir", "-m", "777", f"/node/{name}"])
        self.core.create_persistent_volume(volume)
        try:
            self.core.create_namespaced_persistent_volume_claim(namespace, {"metadata": {"name": claim}, "spec": claimed})
            yield
        finally:
            self.core.delete_namespaced_persistent_volume_claim(claim, namespace)
            self.core.delete_persistent_volume(name)
            self.on_node(node, image, f"{name}-gone", ["rm", "-r", f"/node/{name}"])

    def on_node(self, node: str, image: str, name: str, command: list[str], path: str = "/var/tmp") -> None:
        """Run a command as root on a node, whose `path` is at /node; not in a provider's namespace, which forbids such pods."""
        container = {
            "name": "command",
            "image": image,
            "command": command,
            "securityContext": {"runAsUser": 0},
            "volumeMounts": [{"name": "node", "mountPath": "/node"}],
        }
        mounted = {"name": "node", "hostPath": {"path": path}}
        spec = {"nodeName": node, "restartPolicy": "Never", "containers": [container], "volumes": [mounted]}
        self.core.create_namespaced_pod("default", {"metadata": {"name": name}, "spec": spec})
        try:
            self.eventually(lambda: self.core.read_namespaced_pod(name, "default").status.phase == "Succeeded")
        finally:
            self.core.delete_namespaced_pod(name, "default", grace_period_seconds=0)

    def label(self, node: str, labels: Mapping[str, str | None]) -> None:
        """Set labels of a node; None takes one away."""
        self.core.patch_node(node, {"metadata": {"labels": dict(labels)}})

    @contextmanager
    def fake_gpus(self, count: int) -> Iterator[None]:
        """Every node offers GPUs that nobody has, as an extended resource: they are counted and not mounted."""
        names = [n["metadata"]["name"] for n in self.nodes()]
        own = {n["metadata"]["name"] for n in self.nodes() if GPU in n["status"]["capacity"]}
        try:
            for name in names:
                if name not in own:
                    self.core.patch_node_status(name, {"status": {"capacity": {GPU: str(count)}}})
            self.eventually(lambda: all(int(n["status"]["allocatable"].get(GPU, 0)) > 0 for n in self.nodes()))
            yield
        finally:
            for name in set(names) - own:
                self.core.patch_node_status(name, {"status": {"capacity": {GPU: None}, "allocatable": {GPU: None}}})

    def pods(self, namespace: str) -> list[Row]:
        """Pods of ours in a namespace."""
        found: list[Row] = self.rows(self.core.list_namespaced_pod(namespace, label_selector=f"{MANAGED_BY}={MANAGER}").items)
        return found

    def running(self, namespace: str, workload: str, count: int = 1, seconds: float = 240.0) -> list[Row]:
        """Wait until that many pods of a workload run in a namespace."""

        def look() -> list[Row] | None:
            pods = [p for p in self.pods(namespace) if p["metadata"]["labels"].get("plumbline/workload") == workload]
            ready = [p for p in pods if p["status"].get("phase") == "Running" and not p["metadata"].get("deletionTimestamp")]
            return ready if len(ready) >= count else None

        found: list[Row] = self.eventually(look, seconds)
        return found

    def log(self, namespace: str, pod: str) -> str:
        """What a pod has said so far."""
        return self.core.read_namespaced_pod_log(pod, namespace, _preload_content=False).data.decode(errors="replace")

    def measuring(self, namespace: str, workload: str, count: int = 1) -> list[Row]:
        """Wait until that many pods of a workload run and the first is in its steady phase: the middle of a trial."""
        pods = self.running(namespace, workload, count)
        first = min(p["metadata"]["name"] for p in pods)
        self.eventually(lambda: '"phase": "steady"' in self.log(namespace, first), 180)
        return pods

    def leftovers(self, namespace: str) -> list[str]:
        """Everything of a launch that is in the namespace, as kind/name; what every namespace has by itself is not counted."""
        found = []
        for kind in _LEFT:
            listed = json.loads(self.kubectl("get", kind, "-n", namespace, "-o", "json"))["items"]
            found += [f"{kind}/{row['metadata']['name']}" for row in listed if row["metadata"]["name"] != "kube-root-ca.crt"]
        ours = ("get", "secrets,networkpolicies", "-l", LAUNCH, "-n", namespace, "-o", "json")
        return found + [f"{row['kind']}/{row['metadata']['name']}" for row in json.loads(self.kubectl(*ours))["items"]]

    def eventually(self, look: Callable[[], Any], seconds: float = _WAIT_S) -> Any:
        """The first true answer of `look`; its last error or a TimeoutError after so many seconds."""
        deadline = time.monotonic() + seconds
        while True:
            problem: Exception = TimeoutError(f"not so after {seconds:g} s")
            try:
                if found := look():
                    return found
            except (client.ApiException, OSError, AssertionError) as error:
                problem = error
            if time.monotonic() > deadline:
                raise problem
            time.sleep(0.5)
