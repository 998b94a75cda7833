"""How an attempt's signing key reaches its pods: a Secret of the launch. Their manifests only refer to it (`manifest.variables`)."""

from __future__ import annotations

from datetime import datetime

from plumbline.declarations import Trial
from plumbline.launch.cluster import manifest, names
from plumbline.launch.cluster.base import Row
from plumbline.launch.cluster.provider import launcher_of
from plumbline.results import signing


def secret(trial: Trial, key: signing.KeyPair, requested_at: datetime) -> Row:
    """The Secret, labelled like every object of the launch, so that the sweep deletes what the launch forgot."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": names.key_name(trial),
            "namespace": launcher_of(trial.provider).namespace,
            "labels": names.labels(trial),
            "annotations": manifest.launch_annotations(trial, requested_at),
        },
        "immutable": True,
        "stringData": {signing.VARIABLE: key.private_hex},
    }
