"""Checkpoints' credentials go from a connection or a Secret into the trial's process, and nowhere else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.fakes.model_hub import REVISION
from tests.fakes.trials import PLANNED_AT, a_trial, cluster_provider, local_provider
from tests.unit.declarations.workloads.test_checkpoints import workload
from tests.unit.declarations.workloads.test_script import IMAGE, changed
from tests.unit.declarations.workloads.test_script import trial_of as script_trial

from plumbline.declarations import LocalLauncher, Provider, Trial
from plumbline.declarations.providers.launchers import LauncherDefaults, apply_defaults
from plumbline.declarations.trials import spec_hash
from plumbline.harness import launcher_protocol
from plumbline.harness.launcher_protocol import MODELS_OPTIONS_VARIABLE, MODELS_TOKEN_VARIABLE, take_models_credentials
from plumbline.launch.cluster.manifests.trial_pod import pod_manifest
from plumbline.launch.connections import model_secrets

HUB = {"source": "hub", "id": "org/llama", "revision": REVISION}
S3 = {"source": "url", "url": "s3://bucket/model"}
VOLUME = {"name": "models", "claim": "models", "mount": "/models"}


def launcher(**fields: Any) -> LocalLauncher:
    return local_provider(**fields).launcher_as(LocalLauncher)


def secrets(model: dict[str, Any], environment: dict[str, str] | None = None, **fields: Any) -> dict[str, str]:
    return model_secrets(workload(model).model, launcher(**fields), environment or {})  # type: ignore[arg-type]


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_MODELS", json.dumps({"conn_type": "generic", "login": "id", "password": "hf_key"}))


def test_a_connection_holds_the_hubs_token_or_the_stores_key(connection: None) -> None:
    assert secrets(HUB, models_connection="models") == {MODELS_TOKEN_VARIABLE: "hf_key"}
    for model, fields in ((S3, {}), (HUB, {"models_url": "s3://mirror/models"})):
        found = secrets(model, models_connection="models", **fields)
        assert json.loads(found[MODELS_OPTIONS_VARIABLE]) == {"key": "id", "secret": "hf_key"}
    assert secrets({"source": "folder", "path": "/m"}, models_connection="models") == {}


def test_without_a_connection_the_users_own_token_serves_the_hub_alone() -> None:
    own = {"HF_TOKEN": "hf_own"}
    assert secrets(HUB, own) == {MODELS_TOKEN_VARIABLE: "hf_own"}
    assert secrets(S3, own) == {} == secrets(HUB, own, models_url="s3://mirror/models") == secrets(HUB)


def test_no_token_goes_to_a_mirror_over_plain_http(connection: None) -> None:
    assert secrets(HUB, {"HF_TOKEN": "hf_own"}, models_url="http://mirror.svc:8080") == {}
    stored = launcher(models_connection="models").model_copy(update={"models_url": "http://mirror.svc:8080"})
    with pytest.raises(ValueError, match="plain http, which would send the token of models in clear"):
        model_secrets(workload(HUB).model, stored, {})  # type: ignore[arg-type]
    assert secrets(HUB, models_url="http://127.0.0.1:8080", models_connection="models") == {MODELS_TOKEN_VARIABLE: "hf_key"}


def test_a_connection_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"models .*launcher\.models_connection"):
        secrets(S3, models_connection="models")
    monkeypatch.setenv("AIRFLOW_CONN_MODELS", json.dumps({"conn_type": "generic"}))
    with pytest.raises(ValueError, match="password"):
        secrets(HUB, models_connection="models")


def test_the_trial_takes_them_out_of_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MODELS_TOKEN_VARIABLE, "hf_key")
    monkeypatch.setenv(MODELS_OPTIONS_VARIABLE, '{"key": "id"}')
    assert take_models_credentials() == ("hf_key", {"key": "id"})
    assert take_models_credentials() == (None, None)
    assert not {MODELS_TOKEN_VARIABLE, MODELS_OPTIONS_VARIABLE} & set(launcher_protocol.os.environ)


def trial_of(model: dict[str, Any], provider: Provider) -> Trial:
    made = workload(model)
    return a_trial("inference").model_copy(update={"workload": made, "provider": provider, "spec_hash": spec_hash(made)})


def test_a_pod_refers_to_its_secret_and_mounts_the_cache() -> None:
    provider = cluster_provider(volumes=[VOLUME], models_cache="/models/cache", models_secret="hub")
    (container,) = pod_manifest(trial_of(HUB, provider), requested_at=PLANNED_AT)["spec"]["containers"]
    references = {
        entry["name"]: entry["valueFrom"]["secretKeyRef"] for entry in container["env"] if entry["name"].startswith("PLUMBLINE_MODELS")
    }
    assert references == {
        MODELS_TOKEN_VARIABLE: {"name": "hub", "key": "HF_TOKEN", "optional": True},
        MODELS_OPTIONS_VARIABLE: {"name": "hub", "key": "STORAGE_OPTIONS", "optional": True},
    }
    assert {"name": "models", "mountPath": "/models"} in container["volumeMounts"]
    assert provider.launcher.model_access.cache == "/models/cache"


def test_a_pod_that_fetches_nothing_gets_no_credentials() -> None:
    provider = cluster_provider(models_secret="hub")
    for trial in (trial_of({"source": "folder", "path": "/m"}, provider), a_trial("inference").model_copy(update={"provider": provider})):
        (container,) = pod_manifest(trial, requested_at=PLANNED_AT)["spec"]["containers"]
        assert not [entry for entry in container["env"] if entry["name"].startswith("PLUMBLINE_MODELS")]


def test_a_pod_that_fetches_a_script_s_data_refers_to_the_same_secret() -> None:
    def variables(**data: str) -> list[str]:
        provider = cluster_provider(models_secret="hub", images={"training": IMAGE})
        (container,) = pod_manifest(script_trial(changed(data=data), provider), requested_at=PLANNED_AT)["spec"]["containers"]
        return [entry["name"] for entry in container["env"] if entry["name"].startswith("PLUMBLINE_MODELS")]

    assert variables(**{"from": "s3://bucket/set"}) == [MODELS_TOKEN_VARIABLE, MODELS_OPTIONS_VARIABLE]
    assert variables(**{"from": "/set"}) == [] == variables(**{"from": "s3://bucket/set", "read": "stream"})


@pytest.mark.parametrize("volume", [None, VOLUME | {"read_only": True}, VOLUME | {"mount": "/elsewhere"}])
def test_a_cache_must_be_on_a_volume_that_can_be_written_to(volume: dict[str, Any] | None) -> None:
    with pytest.raises(ValueError, match="models_cache /models/cache"):
        cluster_provider(volumes=[] if volume is None else [volume], models_cache="/models/cache")


@pytest.mark.parametrize("url", ["https://user@hub.example", "s3://bucket/x?key=1", "ftp://hub"])
def test_a_mirror_has_no_credentials_in_its_url(url: str) -> None:
    with pytest.raises(ValueError, match="models_url"):
        launcher(models_url=url)


def test_the_installations_mirror_is_for_providers_without_one() -> None:
    defaults = LauncherDefaults(models_url="s3://mirror/models")
    for kind, own, expected in (
        ("kubernetes", {}, True),
        ("local", {}, True),
        ("local", {"models_url": "s3://own"}, False),
        ("endpoint", {}, False),
    ):
        provider: dict[str, Any] = {"launcher": {"kind": kind, **own}}
        assert ("models_url" in apply_defaults(provider, defaults)) == expected
        assert provider["launcher"].get("models_url") == (defaults.models_url if expected else own.get("models_url"))
