"""k8s/provider on a real cluster: the launcher's account may do exactly what a launch needs, and its kubeconfig works at once."""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cluster.admin import Cluster
from tests.fakes.trials import cluster_provider, serving

from plumbline.declarations import KubernetesLauncher
from plumbline.declarations.installation import REPOSITORY
from plumbline.launch.cluster import launcher_account
from plumbline.launch.cluster.doctor.permissions import granted_permissions, required_permissions

pytestmark = pytest.mark.cluster

PROVIDER = REPOSITORY / "k8s" / "provider"
COMPONENTS = sorted(folder.name for folder in (PROVIDER / "components").iterdir())
REVIEW = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview"}


def overlay(namespace: str, *components: str) -> dict[str, Any]:
    """The example that people copy, for a namespace and with components."""
    example = yaml.safe_load((PROVIDER / "overlays" / "example" / "kustomization.yaml").read_text())
    return {**example, "namespace": namespace, "components": [f"../../components/{name}" for name in components]}


@pytest.fixture(scope="module")
def cluster(kubeconfig: Path) -> Cluster:
    return Cluster(kubeconfig)


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> Iterator[str]:
    name = f"e2e-rights-{secrets.token_hex(3)}"
    with cluster.namespace(name, overlay(name)):
        yield name


def launcher(namespace: str, **settings: Any) -> KubernetesLauncher:
    found = cluster_provider(namespace=namespace, **settings).launcher
    assert isinstance(found, KubernetesLauncher)
    return found


@pytest.mark.parametrize("lifetime_s", [3600.0, None], ids=["token", "long-lived token"])
def test_the_account_may_do_exactly_what_is_needed(
    cluster: Cluster, kubeconfig: Path, namespace: str, lifetime_s: float | None, tmp_path: Path
) -> None:
    granted = launcher_account.grant_access(launcher_account.admin_client(kubeconfig), namespace, lifetime_s=lifetime_s)
    assert (granted.expires is None) == (lifetime_s is None)
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(granted.kubeconfig))
    asked = json.dumps({**REVIEW, "spec": {"namespace": namespace}})
    said = kubectl(file, "create", "--raw", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", "-f", "-", stdin=asked)
    has = granted_permissions(json.loads(said)["status"]["resourceRules"])
    assert has == required_permissions(launcher(namespace))
    # The cluster's own word for what matters most, besides the list.
    for words, answer in (
        (("create", "pods"), "yes"),
        (("get", "pods", "--subresource=log"), "yes"),
        (("list", "nodes"), "yes"),
        (("create", "pods", "--subresource=exec"), "no"),
        (("get", "secrets"), "no"),
        (("patch", "pods"), "no"),
        (("create", "pods", "--namespace=default"), "no"),
        (("create", "serviceaccounts", "--subresource=token"), "no"),
    ):
        assert kubectl(file, "auth", "can-i", *words).strip().splitlines()[-1] == answer, words


def test_trials_may_do_nothing(cluster: Cluster, namespace: str) -> None:
    account = f"system:serviceaccount:{namespace}:plumbline-trial"
    for words in (("list", "pods"), ("get", "secrets"), ("list", "nodes")):
        assert kubectl(cluster.kubeconfig, "auth", "can-i", *words, f"--namespace={namespace}", f"--as={account}").strip().endswith("no")


@pytest.mark.parametrize("components", [[name] for name in COMPONENTS] + [COMPONENTS], ids=lambda names: "+".join(names)[:30])
def test_every_component_builds_alone_and_with_the_others(cluster: Cluster, components: list[str], tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "k8s", tmp_path / "k8s")
    folder = tmp_path / "k8s" / "provider" / "overlays" / "tried"
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(overlay("tried", *components)))
    rows = list(yaml.safe_load_all(cluster.kubectl("kustomize", str(folder))))
    namespaced = [row for row in rows if "namespace" in row["metadata"]]
    assert {row["metadata"]["namespace"] for row in namespaced} == {"tried"}
    rules = [rule for row in rows if row["kind"] in ("Role", "ClusterRole") for rule in row["rules"]]
    settings: dict[str, Any] = {"queue": "plumbline"} if "kueue" in components else {}
    if "serving" in components:
        settings["serving"] = serving()
    needed = required_permissions(launcher("tried", **settings))
    for gang in {"jobset"} & set(components):
        needed |= required_permissions(launcher("tried", gang=gang))
    assert granted_permissions(rules) == needed
    bindings = [row for row in rows if row["kind"] in ("RoleBinding", "ClusterRoleBinding")]
    assert all(
        b["subjects"] == [{"kind": "ServiceAccount", "name": launcher_account.SERVICE_ACCOUNT, "namespace": "tried"}] for b in bindings
    )
    assert {row["metadata"]["name"] for row in rows if row["kind"].startswith("ClusterRole")} == {
        f"{launcher_account.SERVICE_ACCOUNT}-tried"
    }


def test_two_namespaces_do_not_share_what_is_cluster_wide(cluster: Cluster, kubeconfig: Path, namespace: str) -> None:
    other = f"e2e-other-{secrets.token_hex(3)}"
    with cluster.namespace(other, overlay(other)):
        pass
    account = f"system:serviceaccount:{namespace}:{launcher_account.SERVICE_ACCOUNT}"
    assert kubectl(kubeconfig, "auth", "can-i", "list", "nodes", f"--as={account}").strip().endswith("yes")


def kubectl(kubeconfig: Path, *words: str, stdin: str | None = None) -> str:
    """kubectl's answer; `auth can-i` ends with 1 where it says no."""
    line = ["kubectl", "--kubeconfig", str(kubeconfig), *words]
    done = subprocess.run(line, input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or words[:2] == ("auth", "can-i"), done.stderr
    return done.stdout
