"""Manifests of a trial's own servers: a Service, a Deployment and its scaler. The launch's guard owns them."""

from __future__ import annotations

from collections.abc import Callable, Set
from datetime import datetime

from plumbline.declarations import Trial
from plumbline.declarations.providers.serving import Serving
from plumbline.launch.cluster import store_credentials
from plumbline.launch.cluster.manifests.trial_pod import (
    QUEUE,
    load_template,
    metadata_of,
    pod_template,
    resources,
    with_variables,
)
from plumbline.launch.cluster.names import LAUNCH, SERVES, Row, cluster_declaration, launch_name

_NEEDS = {"hpa": ("metrics.k8s.io", "a metrics server"), "keda": ("keda.sh", "KEDA")}
"""By scaler the group of the API without which it never acts, which would look like a slow provider, and what serves that."""


def missing_scaler(serving: Serving, groups: Callable[[], Set[str]]) -> tuple[str, str] | None:
    """Why the declared scaler would not act, and what to do. `groups`: of the cluster's API, asked only where one is needed."""
    group, what = _NEEDS.get(serving.scaling.by, (None, ""))
    if group is None or group in groups():
        return None
    return f"the API has no {group}, without which {serving.scaling.by} never acts", f"install {what}, or declare another scaling.by"


SCALERS = {"hpa": "HorizontalPodAutoscaler", "keda": "ScaledObject"}
"""By `serving.scaling.by`, the kind of the object that scales; `none` has none of ours."""


def serving_parts(trial: Trial, serving: Serving, requested_at: datetime) -> tuple[Row, ...]:
    """The Service, the Deployment, and its scaler if one is declared, of a trial whose provider serves it."""
    name, scaling, metadata = launch_name(trial), serving.scaling, metadata_of(launch_name(trial), trial, requested_at)
    port = {"name": "serving", "port": serving.port, "protocol": "TCP"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": {SERVES: name}, "ports": [port]}}
    chosen = {"matchLabels": {SERVES: name}}
    spec = {"replicas": scaling.at_start, "selector": chosen, "template": _server_pod(trial, serving, requested_at)}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    if scaling.cpu is not None:
        # Version 1 does all of this, and clusters have it since 1.2 and still.
        ends = {"minReplicas": scaling.minimum, "maxReplicas": scaling.maximum, "targetCPUUtilizationPercentage": round(100 * scaling.cpu)}
        scaler = {"apiVersion": "autoscaling/v1", "kind": SCALERS["hpa"], "spec": {"scaleTargetRef": target, **ends}}
    elif scaling.triggers:
        ends = {"minReplicaCount": scaling.minimum, "maxReplicaCount": scaling.maximum, "triggers": list(scaling.triggers)}
        scaler = {"apiVersion": "keda.sh/v1alpha1", "kind": SCALERS["keda"], "spec": {"scaleTargetRef": target, **ends}}
    else:
        return service, deployment
    return service, deployment, {**scaler, "metadata": metadata}


def _server_pod(trial: Trial, serving: Serving, requested_at: datetime) -> Row:
    """A trial's pod with the server in the harness's place: the same nodes, rights and volumes, and its container's name, by which pods are watched."""
    declared = cluster_declaration(trial.provider)
    launcher = declared.model_copy(update={"resources": serving.resources or declared.resources})
    served = trial.model_copy(update={"provider": trial.provider.model_copy(update={"launcher": launcher})})
    row = pod_template(served, requested_at=requested_at)
    labels, spec = row["metadata"]["labels"], row["spec"]
    # By the launch's label the trial's own pods are counted; Kueue would admit each server for itself.
    for label in (LAUNCH, QUEUE):
        labels.pop(label, None)
    labels[SERVES] = launch_name(trial)
    spec.pop("activeDeadlineSeconds")  # a Deployment's pods may have none
    spec["restartPolicy"] = "Always"
    container = spec["containers"][0]
    harness = load_template("pod")["spec"]["containers"][0]["command"]
    before = container["command"][: -len(harness)]  # what sets LD_LIBRARY_PATH
    own = [
        entry
        for entry in container["env"]
        if not entry["name"].startswith("PLUMBLINE_") and "secretKeyRef" not in entry.get("valueFrom", {})
    ]
    probe = {"httpGet": {"path": serving.ready, "port": serving.port}} if serving.ready else {"tcpSocket": {"port": serving.port}}
    container |= {
        "image": launcher.with_registry(serving.image) or container["image"],
        "command": [*before, *serving.command],
        "env": with_variables([*own, *store_credentials.model_variables(trial)], serving.env),
        "ports": [{"containerPort": serving.port}],
        "readinessProbe": {**probe, "periodSeconds": 1},
        "resources": resources(served, of_server=True),
    }
    del container["args"]
    return row
