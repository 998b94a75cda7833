"""Network policies of a launch: its pods reach each other, and no pod of another launch. `k8s/provider` denies the rest."""

from __future__ import annotations

from datetime import datetime

from plumbline.declarations import Trial
from plumbline.launch.cluster.manifests.trial_pod import metadata_of
from plumbline.launch.cluster.names import LAUNCH, SERVES, Row, launch_name, serving_of


def network_policies(trial: Trial, requested_at: datetime) -> tuple[Row, ...]:
    """Of a gang one, between its pods; of a trial with servers one for them and one for the client; none of a single pod.

    `gang.with_owner` gives them the launch's owner.
    """
    own = {LAUNCH: launch_name(trial)}
    if serving_of(trial) is not None:
        servers = {SERVES: launch_name(trial)}
        return (
            _policy(trial, requested_at, "", own, egress=[{"to": [_pods(servers)]}]),
            _policy(trial, requested_at, "-servers", servers, ingress=[{"from": [_pods(own)]}]),
        )
    if trial.workload.nodes > 1:
        return (_policy(trial, requested_at, "", own, ingress=[{"from": [_pods(own)]}], egress=[{"to": [_pods(own)]}]),)
    return ()


def _pods(labels: dict[str, str]) -> Row:
    return {"podSelector": {"matchLabels": labels}}


def _policy(trial: Trial, requested_at: datetime, ending: str, labels: dict[str, str], **rules: list[Row]) -> Row:
    metadata = metadata_of(f"{launch_name(trial)}{ending}", trial, requested_at)
    spec = {**_pods(labels), "policyTypes": [direction.title() for direction in rules], **rules}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec}
