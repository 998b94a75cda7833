"""A store that refuses a key is told with the place of the key; any other failure keeps its words."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.fake_kubernetes import Script
from tests.fakes.trials import cluster_provider
from tests.golden import Golden
from tests.unit.launch.cluster.operate.test_attempt import World, kube, world

from plumbline.launch.cluster.launcher import ClusterLauncher
from plumbline.launch.cluster.operate.closing import close_attempt
from plumbline.launch.cluster.store_credentials import explain_refusal
from plumbline.launch.failures import BadDeclaration

__all__ = ["kube", "world"]
POD_CHECK = "store from a pod"
SECRET = {"results_secret": "plumbline-results", "results_connection": "e2e_store"}


@pytest.mark.parametrize(
    "detail", ["s3://b refuses access: Forbidden", "Unable to locate credentials", "AccessDenied: no", "InvalidAccessKeyId"]
)
def test_the_place_of_the_key_and_the_doctors_line_are_named(detail: str) -> None:
    provider = cluster_provider(**SECRET)
    pod, here = explain_refusal(detail, provider, here=False), explain_refusal(detail, provider, here=True)
    assert SECRET["results_secret"] in pod and f"`{POD_CHECK}`" in pod
    assert SECRET["results_connection"] in here and "`store from here`" in here
    bare = cluster_provider()
    assert "launcher.results_secret" in explain_refusal(detail, bare, here=False)
    assert "launcher.results_connection" in explain_refusal(detail, bare, here=True)


def test_a_refused_key_is_explained(golden: Golden) -> None:
    providers = (cluster_provider(**SECRET), cluster_provider())
    golden(
        "launch.refused_key", "\n".join(explain_refusal("Access Denied", each, here=here) for each in providers for here in (True, False))
    )


def test_any_other_failure_keeps_its_words() -> None:
    detail = "no route to host"
    assert explain_refusal(detail, cluster_provider(), here=True) == detail


@pytest.mark.fault("the pods' Secret is missing", ends="bad_declaration", keeps="the Secret's name and the doctor's line")
def test_a_pod_without_its_key_names_the_secret(kube: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    world = World(kube, tmp_path, **SECRET | {"results_connection": None})  # type: ignore[arg-type]
    world.kube.script("*", Script().started().failed(2, "s3://b/trial.json: cannot be read (Unable to locate credentials)"))
    attempt = world.begin()
    world.pod_is("Failed")
    record = close_attempt(attempt)
    assert record.failure_class == "bad_declaration"
    assert "Secret plumbline-results" in str(record.failure_detail) and "cluster doctor cluster-a" in str(record.failure_detail)


@pytest.mark.fault("the store refuses this installation's key", ends="bad_declaration", keeps="the connection's name")
def test_a_key_that_is_refused_here_names_the_connection(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError("s3://b refuses access: Forbidden")

    monkeypatch.setattr(type(world.away), "put_trial", _only_away(refused, type(world.away).put_trial))
    with pytest.raises(BadDeclaration, match=r"launcher\.results_connection.*`store from here`"):
        ClusterLauncher().adopt(world.spec)


def _only_away(refused: object, real: object) -> object:
    """The write to the pods' store, which is the one that is brief."""
    return lambda store, trial, **more: (refused if more.get("brief") else real)(store, trial, **more)  # type: ignore[operator]
