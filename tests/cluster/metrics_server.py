"""What a metrics server does: the CPU that pods use, as their kubelets count it, in the cluster's API, where its autoscaler asks for it."""

from __future__ import annotations

import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from kubernetes import client
from tests.cluster.admin import Cluster, Row
from tests.fakes.certificates import self_signed

_API, _SERVICE = "metrics.k8s.io/v1beta1", ("default", "e2e-metrics")
_USED = re.compile(r'^container_cpu_usage_seconds_total\{container="(.+?)",namespace="(.+?)",pod="(.+?)"\} (\S+) (\d+)$', re.MULTILINE)
_OF_NAMESPACE = re.compile(rf"^/apis/{_API}/namespaces/([^/]+)/pods$")
Key = tuple[str, str, str]
"""(namespace, pod, container)"""


class _Usage:
    """CPU of every container between its kubelet's last two counts."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._counts: dict[Key, list[tuple[float, float]]] = {}

    def count(self) -> None:
        for node in self._cluster.nodes():
            path = f"/api/v1/nodes/{node['metadata']['name']}/proxy/metrics/resource"
            for container, namespace, pod, used_s, at_ms in _USED.findall(self._cluster.kubectl("get", "--raw", path)):
                counts = self._counts.setdefault((namespace, pod, container), [])
                if not counts or counts[-1][0] < int(at_ms) / 1000:
                    self._counts[namespace, pod, container] = [*counts[-1:], (int(at_ms) / 1000, float(used_s))]

    def pods(self, namespace: str, selector: str) -> Row:
        chosen = self._cluster.core.list_namespaced_pod(namespace, label_selector=selector).items
        rows = [row for pod in chosen if (row := self._pod(namespace, pod.metadata.name)) is not None]
        return {"kind": "PodMetricsList", "apiVersion": _API, "metadata": {}, "items": rows}

    def _pod(self, namespace: str, name: str) -> Row | None:
        counts = {key[2]: each for key, each in list(self._counts.items()) if key[:2] == (namespace, name) and len(each) == 2}
        if not counts:
            return None
        containers = []
        for container, ((began, before), (ended, after)) in counts.items():
            cores = (after - before) / (ended - began)
            containers.append({"name": container, "usage": {"cpu": f"{cores * 1e9:.0f}n", "memory": "0"}})
        at = datetime.fromtimestamp(ended, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        about = {"name": name, "namespace": namespace, "creationTimestamp": at}
        return {"metadata": about, "timestamp": at, "window": f"{ended - began:.0f}s", "containers": containers}


@contextmanager
def metrics_server(cluster: Cluster, folder: Path) -> Iterator[None]:
    """The cluster's API has metrics.k8s.io while the block runs."""
    usage, over = _Usage(cluster), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *arguments: object) -> None:
            return

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            pods = {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]}
            answer: Row = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": _API, "resources": [pods]}
            if (asked := _OF_NAMESPACE.match(url.path)) is not None:
                answer = usage.pods(asked[1], parse_qs(url.query).get("labelSelector", [""])[0])
            body = json.dumps(answer).encode()
            self.send_response(200 if url.path.startswith(f"/apis/{_API}") else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def work() -> None:
        while not over.wait(3.0):
            with suppress(AssertionError):  # a node does not answer
                usage.count()

    server = ThreadingHTTPServer(("", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(folder, "localhost"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threads = [threading.Thread(target=server.serve_forever), threading.Thread(target=work)]
    for thread in threads:
        thread.start()
    try:
        with _registered(cluster, server.server_port):
            yield
    finally:
        over.set()
        server.shutdown()
        for thread in threads:
            thread.join()


@contextmanager
def _registered(cluster: Cluster, port: int) -> Iterator[None]:
    """The API server asks this machine for the group. A test's cluster runs on it."""
    (group, version), (namespace, name) = _API.split("/"), _SERVICE
    external = {"metadata": {"name": name}, "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}}
    where = {"namespace": namespace, "name": name, "port": port}
    spec = {"group": group, "version": version, "service": where, "insecureSkipTLSVerify": True}
    registered = {"metadata": {"name": f"{version}.{group}"}, "spec": {**spec, "groupPriorityMinimum": 100, "versionPriority": 100}}
    apis = client.ApiregistrationV1Api(cluster.core.api_client)
    cluster.core.create_namespaced_service(namespace, external)
    try:
        apis.create_api_service(registered)
        cluster.eventually(lambda: "pods" in cluster.kubectl("get", "--raw", f"/apis/{_API}"))
        yield
    finally:
        with suppress(client.ApiException):
            apis.delete_api_service(f"{version}.{group}")
        cluster.core.delete_namespaced_service(name, namespace)
