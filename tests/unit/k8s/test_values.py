"""The Helm values say what docker-compose.yaml says, and hold no secret."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.helm_chart import options, wrong_options

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "k8s" / "airflow"
# What the chart sets itself, or takes from Secrets, or what is another thing on a cluster.
CHARTS_OWN = {
    "core.executor",
    "core.execution_api_server_url",
    "core.parallelism",
    "core.fernet_key",
    "database.sql_alchemy_conn",
    "api.host",
    "api.port",
    "api.base_url",
    "api.secret_key",
    "api_auth.jwt_secret",
    "scheduler.enable_health_check",
    "scheduler.scheduler_health_check_server_host",
    "scheduler.scheduler_health_check_server_port",
    "logging.base_log_folder",
    "logging.dag_processor_child_process_log_directory",
}


@pytest.fixture(scope="module")
def values() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "values.yaml").read_text())
    return found


@pytest.fixture(scope="module")
def environment() -> dict[str, Any]:
    services = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())["services"]
    return {name: value for service in services.values() for name, value in service.get("environment", {}).items()}


def test_the_chart_gets_the_settings_of_the_compose_file(values: dict[str, Any], environment: dict[str, Any]) -> None:
    parts = [(name.removeprefix("AIRFLOW__").lower().split("__"), v) for name, v in environment.items() if name.startswith("AIRFLOW__")]
    declared = {".".join(part): str(v) for part, v in parts}
    shared = {name: value for name, value in declared.items() if name not in CHARTS_OWN}
    assert len(shared) >= 8
    in_chart = {f"{section}.{key}": str(value) for section, keys in values["config"].items() for key, value in keys.items()}
    assert {name: in_chart.get(name) for name in shared} == shared
    assert set(declared) >= CHARTS_OWN, "an exception that excuses nothing"
    # What the LocalExecutor, which has no queue beside the database, does not need.
    queue = {
        "celery.worker_concurrency",
        "celery.extra_celery_config",
        "scheduler.task_queued_timeout",
        "scheduler.num_stuck_in_queued_retries",
    }
    assert set(in_chart) - set(shared) <= CHARTS_OWN | queue


def test_a_queued_task_outlasts_two_hours_without_a_worker(values: dict[str, Any]) -> None:
    scheduler = values["config"]["scheduler"]
    assert scheduler["task_queued_timeout"] * scheduler["num_stuck_in_queued_retries"] >= 2 * 3600


def test_parallelism_is_what_the_workers_can_run(values: dict[str, Any]) -> None:
    config = values["config"]
    assert config["core"]["parallelism"] == values["workers"]["celery"]["replicas"] * config["celery"]["worker_concurrency"]


@pytest.mark.parametrize("file", ["values.yaml", "values-kubernetes-executor.yaml"])
def test_no_secret_stands_in_the_values(file: str) -> None:
    found: Any = yaml.safe_load((FOLDER / file).read_text())
    words = ("password", "fernetkey", "jwtsecret", "apisecretkey", "pass")
    assert [path for path, _ in leaves(found) if path.rsplit(".", 1)[-1].lower() in words] == []
    assert [(path, value) for path, value in leaves(found) if "://" in str(value) and "@" in str(value)] == []


def test_trials_are_not_launched_with_the_servers_own_account(values: dict[str, Any]) -> None:
    assert values["allowPodLaunching"] is False
    for part in (values["apiServer"], values["scheduler"], values["dagProcessor"], values["triggerer"], values["workers"]["celery"]):
        assert part["serviceAccount"] == {"automountServiceAccountToken": False}


@pytest.mark.parametrize("file", ["values.yaml", "values-kubernetes-executor.yaml"])
def test_the_chart_has_every_option(file: str) -> None:
    assert list(wrong_options(yaml.safe_load((FOLDER / file).read_text()), options())) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"scheduler": {"replica": 2}}, "scheduler.replica: the chart has no such option"),
        ({"workers": {"replicas": 4}}, "workers.replicas: the chart has no such option"),
        ({"schedulers": {"replicas": 2}}, "schedulers.replicas: the chart has no such option"),
        ({"redis": {}}, "redis: the chart has no such option"),
        ({"scheduler": {"replicas": "2"}}, "scheduler.replicas: '2'; expected integer"),
        ({"scheduler": {"replicas": True}}, "scheduler.replicas: True; expected integer"),
        ({"flower": {"enabled": "false"}}, "flower.enabled: 'false'; expected boolean"),
        ({"apiServer": {"env": {"A": "b"}}}, "apiServer.env: {'A': 'b'}; expected array"),
        ({"scheduler": 2}, "scheduler: the chart has no such option"),
    ],
)
def test_another_option_or_type_is_refused(changed: dict[str, Any], said: str) -> None:
    assert list(wrong_options(changed, options())) == [said]


PARTS = {
    "api-server": "apiServer",
    "scheduler": "scheduler",
    "dag-processor": "dagProcessor",
    "triggerer": "triggerer",
    "init": "migrateDatabaseJob",
}


@pytest.mark.parametrize(("service", "part"), PARTS.items())
def test_a_component_reads_the_archive_as_in_the_compose_file(values: dict[str, Any], service: str, part: str) -> None:
    declared = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())["services"][service]["environment"]["PLUMBLINE_ARCHIVE_URL"]
    key = "archive-reader-url" if "plumbline_reader" in declared else "archive-url"
    (found,) = [each["valueFrom"] for each in values[part]["env"] if each["name"] == "PLUMBLINE_ARCHIVE_URL"]
    assert found == {"secretKeyRef": {"name": "plumbline-server", "key": key}}
    assert (key == "archive-reader-url") == (service == "api-server")


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{number}]")
    else:
        yield path, value
