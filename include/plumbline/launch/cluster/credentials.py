"""The result store's credentials in a pod: references to keys of a Secret. Their values are never seen here."""

from __future__ import annotations

from plumbline.declarations import KubernetesLauncher
from plumbline.launch.cluster.base import Row

_S3 = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "FSSPEC_S3",  # JSON of further s3fs options: a store without virtual-hosted buckets needs {"config_kwargs": {"s3": {"addressing_style": "path"}}}
)
_GS = ("FSSPEC_GS_TOKEN",)  # the service account's key, its JSON file as it was downloaded
_AZ = (
    "AZURE_STORAGE_ACCOUNT_NAME",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_STORAGE_CONNECTION_STRING",
    "AZURE_STORAGE_TENANT_ID",
    "AZURE_STORAGE_CLIENT_ID",
    "AZURE_STORAGE_CLIENT_SECRET",
)
KEYS: dict[str, tuple[str, ...]] = {"s3": _S3, "gs": _GS, "gcs": _GS, "az": _AZ, "abfs": _AZ, "abfss": _AZ, "file": ()}
"""Keys of the Secret by the store's scheme: each is the environment variable that the store's client reads. All are optional, since each
way to log in needs only some."""


def scheme(launcher: KubernetesLauncher) -> str:
    """Of the result store's URL, such as `s3`."""
    return launcher.results_url.partition("://")[0]


def variables(launcher: KubernetesLauncher) -> list[Row]:
    """A container's environment entries for the declared `results_secret`; none if there is no such Secret."""
    if launcher.results_secret is None:
        return []
    return [
        {"name": key, "valueFrom": {"secretKeyRef": {"name": launcher.results_secret, "key": key, "optional": True}}}
        for key in KEYS[scheme(launcher)]
    ]


def identity_labels(launcher: KubernetesLauncher) -> dict[str, str]:
    """Labels by which a cloud gives the pod its service account's identity, where it asks for one: Azure does."""
    by_identity = launcher.results_secret is None and KEYS[scheme(launcher)] is _AZ
    return {"azure.workload.identity/use": "true"} if by_identity else {}
