"""Each key of the Secret is a variable that the store's client really reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.fakes.trials import cluster_provider

from plumbline.launch.cluster import store_credentials
from plumbline.launch.cluster.names import cluster_declaration


@pytest.mark.parametrize("url", ["s3://b/x", "gs://b/x", "gcs://b/x", "az://b/x", "abfs://b/x", "abfss://b@a.dfs.core.windows.net/x"])
def test_secrets_are_references_of_which_none_must_be_there(url: str) -> None:
    launcher = cluster_declaration(cluster_provider(results_url=url, results_secret="store"))
    found = store_credentials.store_variables(launcher)
    assert [item["name"] for item in found] == list(store_credentials.STORE_VARIABLES[store_credentials.store_scheme(launcher)]) and found
    for item in found:
        assert item == {"name": item["name"], "valueFrom": {"secretKeyRef": {"name": "store", "key": item["name"], "optional": True}}}


@pytest.mark.parametrize(
    ("url", "secret", "labels"),
    [
        ("az://b/x", None, {"azure.workload.identity/use": "true"}),
        ("az://b/x", "store", {}),
        ("s3://b/x", None, {}),
        ("file:///mnt/x", None, {}),
    ],
)
def test_without_a_secret_the_service_account_opens_the_store(url: str, secret: str | None, labels: dict[str, str]) -> None:
    launcher = cluster_declaration(cluster_provider(results_url=url, results_secret=secret))
    assert store_credentials.identity_labels(launcher) == labels
    assert bool(store_credentials.store_variables(launcher)) == (secret is not None)


def test_every_scheme_that_can_be_declared_has_keys() -> None:
    for scheme in store_credentials.STORE_VARIABLES:
        assert store_credentials.store_scheme(cluster_declaration(cluster_provider(results_url=f"{scheme}:///b/x"))) == scheme


def test_s3_credentials_reach_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    from botocore.session import Session

    for key in store_credentials.STORE_VARIABLES["s3"]:
        monkeypatch.setenv(key, "https://store.example.com" if key.endswith("URL") else f"the {key}")
    session = Session()
    found = session.get_credentials()
    assert (found.access_key, found.secret_key, found.token) == (
        "the AWS_ACCESS_KEY_ID",
        "the AWS_SECRET_ACCESS_KEY",
        "the AWS_SESSION_TOKEN",
    )
    assert session.get_config_variable("region") == "the AWS_DEFAULT_REGION"
    assert session.get_config_variable("endpoint_url") is None  # per service, at the client's creation
    assert session.create_client("s3", region_name="eu-1").meta.endpoint_url == "https://store.example.com"


def test_further_s3_options_reach_the_file_system() -> None:
    import fsspec.config

    options = {"config_kwargs": {"s3": {"addressing_style": "path"}}}
    found: dict[str, dict[str, object]] = {}
    fsspec.config.set_conf_env(found, {"FSSPEC_S3": json.dumps(options)})
    assert found == {"s3": options}


def test_a_service_accounts_key_reaches_google(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import fsspec.config
    import gcsfs
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    pem = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    key = {
        "type": "service_account",
        "client_email": "trial@example.iam.gserviceaccount.com",
        "private_key": pem.decode(),
        "token_uri": "https://oauth2.googleapis.com/token",
    }
    monkeypatch.setattr(fsspec.config, "conf", {})
    fsspec.config.set_conf_env(fsspec.config.conf, {"FSSPEC_GS_TOKEN": json.dumps(key, indent=2)})
    store = gcsfs.GCSFileSystem(skip_instance_cache=True)
    assert store.credentials.credentials.service_account_email == "trial@example.iam.gserviceaccount.com"


def test_azure_credentials_reach_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    from adlfs import AzureBlobFileSystem

    values = {key: f"the {key}" for key in store_credentials.STORE_VARIABLES["az"]}
    values["AZURE_STORAGE_ACCOUNT_KEY"] = "a2V5"
    values["AZURE_STORAGE_CONNECTION_STRING"] = "AccountName=a;AccountKey=a2V5;BlobEndpoint=https://a.example.com"
    for key, value in values.items():
        monkeypatch.setenv(key, value)
    store = AzureBlobFileSystem(skip_instance_cache=True)
    found = {f"AZURE_STORAGE_{name.upper()}": getattr(store, name) for name in vars(store) if f"AZURE_STORAGE_{name.upper()}" in values}
    assert found == values
