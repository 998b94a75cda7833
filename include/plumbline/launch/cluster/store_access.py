"""Pure: which key a refused result store was asked with, from here and from a pod, and the doctor's line about it."""

from __future__ import annotations

import re

from plumbline.declarations import KubernetesLauncher, Provider

_REFUSED = re.compile(
    r"refuses access|Forbidden|Access ?Denied|Unable to locate credentials|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken"
    r"|invalid_grant|AuthenticationFailed|DefaultCredentialsError|ClientAuthenticationError"
)


def pods_key(provider: Provider) -> str:
    """Where a provider's pods get the store's key from."""
    launcher = provider.launcher
    assert isinstance(launcher, KubernetesLauncher)
    if launcher.results_secret is None:
        return f"the workload identity of the service account {launcher.service_account} (launcher.results_secret names no Secret)"
    return (
        f"the Secret {launcher.results_secret} in namespace {launcher.namespace} (launcher.results_secret): is it there, is its key right?"
    )


def own_key(provider: Provider) -> str:
    """Where this installation gets the store's key from."""
    launcher = provider.launcher
    assert isinstance(launcher, KubernetesLauncher)
    if launcher.results_connection is None:
        return "the environment's credentials (launcher.results_connection names no Airflow connection)"
    return f"the Airflow connection {launcher.results_connection} (launcher.results_connection)"


def explained(detail: str, provider: Provider, *, here: bool) -> str:
    """The detail of a failure, with the key to look at if a store refused it. `here`: asked from this installation, else from a pod."""
    if not _REFUSED.search(detail):
        return detail
    key, line = (own_key(provider), "store from here") if here else (pods_key(provider), "store from a pod")
    return f"{detail}; check {key}; `plumbline cluster doctor {provider.name}`, line `{line}`"
