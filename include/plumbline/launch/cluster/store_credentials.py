"""Credentials of the result store, in a pod and here: references to keys of a Secret, never values."""

from __future__ import annotations

import re

from plumbline.declarations import KubernetesLauncher, Provider, Trial
from plumbline.declarations.data_places import fetched_source
from plumbline.declarations.providers.launchers import ClientPodLauncher
from plumbline.declarations.workloads.checkpoints import HubCheckpoint, UrlCheckpoint
from plumbline.harness.launcher_protocol import ENDPOINT_KEY_VARIABLE, MODELS_OPTIONS_VARIABLE, MODELS_TOKEN_VARIABLE
from plumbline.launch.cluster.names import Row, cluster_declaration

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
STORE_VARIABLES: dict[str, tuple[str, ...]] = {"s3": _S3, "gs": _GS, "gcs": _GS, "az": _AZ, "abfs": _AZ, "abfss": _AZ, "file": ()}
"""Keys of the Secret by the store's scheme, named like the environment variables that the store's client reads. All are optional."""


def store_scheme(launcher: KubernetesLauncher) -> str:
    """The scheme of the result store's URL, such as `s3`."""
    return launcher.results_url.partition("://")[0]


def store_variables(launcher: KubernetesLauncher) -> list[Row]:
    """A container's environment entries for the declared `results_secret`, if any."""
    if launcher.results_secret is None:
        return []
    return [
        {"name": key, "valueFrom": {"secretKeyRef": {"name": launcher.results_secret, "key": key, "optional": True}}}
        for key in STORE_VARIABLES[store_scheme(launcher)]
    ]


MODEL_KEYS = {"HF_TOKEN": MODELS_TOKEN_VARIABLE, "STORAGE_OPTIONS": MODELS_OPTIONS_VARIABLE}
"""Keys of `models_secret`, and the variables that a trial reads: the hub's token; options of fsspec's client as JSON. Both are optional."""


def model_variables(trial: Trial) -> list[Row]:
    """Environment entries with which the trial's pod fetches a checkpoint or a script's data; references, never values."""
    secret = cluster_declaration(trial.provider).models_secret
    if secret is None or not isinstance(fetched_source(trial.workload, trial.provider), HubCheckpoint | UrlCheckpoint):
        return []
    return [
        {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": key, "optional": True}}}
        for key, variable in MODEL_KEYS.items()
    ]


def endpoint_variables(provider: Provider) -> list[Row]:
    """The environment entry with the API key of the endpoint that a client's pod drives; a reference, never the value."""
    launcher = cluster_declaration(provider)
    client = launcher.endpoint.client if isinstance(launcher, ClientPodLauncher) else None
    if client is None or client.secret is None:
        return []
    source = {"name": client.secret, "key": ENDPOINT_KEY_VARIABLE}
    return [{"name": ENDPOINT_KEY_VARIABLE, "valueFrom": {"secretKeyRef": source}}]


def identity_labels(launcher: KubernetesLauncher) -> dict[str, str]:
    """Labels that give the pod its service account's cloud identity; Azure requires one."""
    by_identity = launcher.results_secret is None and STORE_VARIABLES[store_scheme(launcher)] is _AZ
    return {"azure.workload.identity/use": "true"} if by_identity else {}


_REFUSAL = re.compile(
    r"refuses access|Forbidden|Access ?Denied|Unable to locate credentials|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken"
    r"|invalid_grant|AuthenticationFailed|DefaultCredentialsError|ClientAuthenticationError"
)


def pod_key_source(provider: Provider) -> str:
    """The source of the store's key in a provider's pods."""
    launcher = cluster_declaration(provider)
    if launcher.results_secret is None:
        return f"the workload identity of the service account {launcher.service_account} (launcher.results_secret names no Secret)"
    return f"the Secret {launcher.results_secret} in namespace {launcher.namespace} (launcher.results_secret)"


def own_key_source(provider: Provider) -> str:
    """The source of the store's key in this installation."""
    launcher = cluster_declaration(provider)
    if launcher.results_connection is None:
        return "the environment's credentials (launcher.results_connection names no Airflow connection)"
    return f"the Airflow connection {launcher.results_connection} (launcher.results_connection)"


def explain_refusal(detail: str, provider: Provider, *, here: bool) -> str:
    """The detail of a failure, with the credentials to check if a store refused access. `here`: from this installation, else from a pod."""
    if not _REFUSAL.search(detail):
        return detail
    key, line = (own_key_source(provider), "store from here") if here else (pod_key_source(provider), "store from a pod")
    return f"{detail}; check {key} with `plumbline cluster doctor {provider.name}`, line `{line}`"
