"""A trial on a hosted model: its client gets the key, and nobody and nothing else."""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.fake_kubernetes import FakeKubernetes
from tests.fakes.openai_server import Hosted, Plan
from tests.fakes.trials import a_trial, local_provider

from plumbline.analysis.cost.campaign_bill import CampaignBill, outcome_costs
from plumbline.declarations import EndpointLauncher, Provider, Trial, installation_paths
from plumbline.declarations.providers.endpoint import Deployment
from plumbline.launch.collect import collect
from plumbline.launch.endpoint import EndpointClientLauncher
from plumbline.launch.registry import launcher_for
from plumbline.results import LaunchRecord, ResultDocument, ResultStore

KEY = "sk-planted-93ab77c1"
PROGRAM = """
import argparse, json, os, sys
from plumbline.harness import launcher_protocol
parser = argparse.ArgumentParser()
parser.add_argument("run"); parser.add_argument("--trial"); parser.add_argument("--out")
options = parser.parse_args()
key = launcher_protocol.take_endpoint_key()
connections = [n for n in os.environ if "AIRFLOW" in n]
print(json.dumps({"characters": len(key or ""), "connections": connections, "again": launcher_protocol.take_endpoint_key()}))
sys.exit(int(key is None))
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation of its own, whose Airflow has one connection."""
    path, temporary = tmp_path / "home", tmp_path / "tmp"
    path.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("PLUMBLINE_HOME", str(path))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("AIRFLOW_CONN_HOSTED_KEY", json.dumps({"conn_type": "http", "password": KEY}))
    monkeypatch.setenv("AIRFLOW_CONN_EMPTY", json.dumps({"conn_type": "http"}))
    monkeypatch.setenv("AIRFLOW_CONN_BROKEN", json.dumps({"conn_type": "http", "password": "two\nlines"}))
    return path


def trial_on(url: str, connection: str | None = "hosted_key", server_process: str | None = None, **declare: Any) -> Trial:
    endpoint = {"kind": "endpoint", "url": url, "protocol": "openai", "model": "chat", "connection": connection, "timeout": "60s"}
    endpoint["server_process"] = server_process
    data = json.loads(local_provider().model_dump_json())
    provider = Provider.model_validate_json(json.dumps({**data, "name": "hosted", "launcher": endpoint}))
    return a_trial("inference", provider, {"server": {"backend": "external"}, **declare})


def launched(trial: Trial, home: Path) -> LaunchRecord:
    program = home / "program.py"
    program.write_text(PROGRAM)
    return EndpointClientLauncher([sys.executable, str(program)]).launch(trial, ResultStore(installation_paths().results_url))


def printed(record: LaunchRecord) -> dict[str, Any]:
    """What PROGRAM saw."""
    return dict(json.loads(next(line for line in record.log_tail.splitlines() if line.startswith('{"characters"'))))


def everything_written(*folders: Path) -> bytes:
    return b"".join(path.read_bytes() for folder in folders for path in sorted(folder.rglob("*")) if path.is_file())


def test_the_key_is_in_the_clients_environment_and_nowhere_else(home: Path, tmp_path: Path) -> None:
    record = launched(trial_on("http://127.0.0.1:1/v1"), home)
    # The program is no harness and leaves no document: what counts is what it saw, and what was written.
    assert printed(record) == {"characters": len(KEY), "connections": [], "again": None}
    assert record.launcher == "endpoint"
    assert KEY.encode() not in everything_written(home, tmp_path)
    assert KEY not in record.model_dump_json()


@pytest.mark.parametrize(
    ("connection", "said"),
    [
        ("nobody", "connection nobody"),
        ("empty", "connection empty"),
        ("broken", "connection broken"),
    ],
)
def test_a_key_that_is_not_there_is_a_bad_declaration(home: Path, connection: str, said: str) -> None:
    record = launched(trial_on("http://127.0.0.1:1/v1", connection), home)
    assert record.failure_class == "bad_declaration"
    assert said in str(record.failure_detail)
    assert "two" not in record.model_dump_json()


def test_an_endpoint_that_asks_for_no_key_gets_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_ENDPOINT_KEY", KEY)  # somebody's, and not this trial's
    record = launched(trial_on("http://127.0.0.1:1/v1", None), home)
    assert printed(record)["characters"] == 0


SHORT: dict[str, Any] = {
    "requests": {"input_tokens": {"uniform": {"min": 4, "max": 12}}, "output_tokens": {"constant": 8}, "seed": 5},
    "phases": [
        {"name": "warmup", "arrivals": {"poisson": {"rate": "10/s"}}, "duration": "1s"},
        {"name": "steady", "arrivals": {"poisson": {"rate": "20/s"}}, "duration": "3s"},
    ],
    "acceptance": [],
    "request_timeout": "5s",
}


def measured(trial: Trial) -> ResultDocument:
    store = ResultStore(installation_paths().results_url)
    launcher_for(trial.provider).launch(trial, store)
    return collect(store, trial.campaign_id, trial.trial_id)[-1]


def test_a_hosted_model_is_measured_from_here(home: Path, tmp_path: Path) -> None:
    with Hosted(Plan(first_s=0.05, gap_s=0.004, key=KEY, per_event=2)) as hosted:
        document = measured(trial_on(hosted.url + "/v1", **SHORT))
    assert document.validity.failure_class is None, document.validity
    rows = {(row.phase, row.metric, row.statistic): row for row in document.metrics}
    first = rows["steady", "time_to_first_token", "p50"]
    assert first.value is not None
    assert 0.05 <= first.value < 0.5
    together = rows["steady", "tokens_per_event", "mean"].value
    assert together is not None
    assert 2 <= together < 4  # two in each event, and on a busy machine two events in one reading
    assert rows["steady", "error_rate", "value"].value == 0
    assert rows["cold_start", "first_inference_latency", "value"].value is not None
    assert rows["steady", "network_round_trip_time", "p50"].n == 40
    sent = rows["steady", "request_throughput", "value"].n
    assert rows["steady", "response_bytes", "value"].n == sent
    assert 8 * 20 * sent < (rows["steady", "response_bytes", "value"].value or 0) < 8 * 2000 * sent, "8 tokens a request, as JSON"
    assert (rows["steady", "tcp_retransmit_share", "value"].value or 0) < 0.5
    # What nobody can see from here is absent, and not taken from this machine.
    names = {row.metric for row in document.metrics if row.value is not None}
    assert names.isdisjoint({"matmul_tflops", "memory_bandwidth", "time_to_ready", "model_load_time", "model_bandwidth_utilization"})
    assert document.environment is not None
    facts = document.environment.facts
    assert facts["endpoint.url"] == hosted.url + "/v1"
    assert facts["endpoint.server"] == "hosted/1.2.3"
    assert "cpu.model" not in facts
    assert facts["client.cpu.usable"]
    assert len(hosted.records) == 1 + round(sum(rows[phase, "request_throughput", "value"].n for phase in ("warmup", "steady")))
    assert KEY.encode() not in everything_written(home, tmp_path)


@pytest.mark.full
def test_a_server_on_this_machine_is_the_system_under_test(home: Path) -> None:
    with Hosted(Plan(first_s=0.02)) as hosted:
        trial = trial_on(hosted.url + "/v1", None, server_process="same_machine", **SHORT)
        document = measured(trial)
    assert document.validity.failure_class is None, document.validity
    signals = {row.signal for row in document.telemetry if row.phase == "steady"}
    assert {"server_cpu", "own_cpu", "foreign_cpu"} <= signals
    assert document.environment is not None
    assert document.environment.facts["server.process"].startswith("python")
    assert {"client.cpus", "server.cpus"} <= document.environment.facts.keys()
    assert document.environment.facts["endpoint.token_count"] == "usage"


@pytest.mark.full
def test_the_tokens_of_a_hosted_model_are_billed(home: Path) -> None:
    with Hosted(Plan(first_s=0.01, cached=3)) as hosted:
        questions = [{"prompt": "Say word.", "answer": "word"}, {"prompt": "Say sword.", "answer": "sword"}]
        evaluation = {"file": "own.jsonl", "questions": questions, "output_tokens": 4}
        document = measured(trial_on(hosted.url + "/v1", None, **SHORT, evaluation=evaluation))
    by_phase = {row.phase: row for row in document.usage}
    assert by_phase.keys() == {"cold_start", "warmup", "steady"}
    n = int(next(row.n for row in document.metrics if (row.phase, row.metric) == ("steady", "request_throughput")))
    steady = by_phase["steady"]
    assert (steady.requests, steady.cached_tokens, steady.uncounted, steady.above) == (n, 3 * n, 0, 0)
    cold = by_phase["cold_start"]
    assert (cold.requests, cold.cached_tokens) == (3, 9), "the first inference and two questions are billed too"
    assert sum(row.requests for row in document.usage) == len(hosted.records)
    accuracy = next(row for row in document.metrics if row.metric == "answer_accuracy")
    assert (accuracy.value, accuracy.n) == (0.5, 2)
    rate = {"input": "2 USD/1M tokens", "output": "8 USD/1M tokens", "since": "2026-01-01", "source": "price page"}
    provider = Provider.model_validate_json(
        json.dumps({**json.loads(document.trial.provider.model_dump_json()), "prices": [], "token_prices": [rate]})
    )
    bill = next(iter(CampaignBill("c", (document,), {"hosted": provider}).bills(date(2026, 11, 1)).values()))
    read, written = sum(row.input_tokens for row in document.usage), sum(row.output_tokens for row in document.usage)
    # On a busy machine the trial counts as lost: it is billed all the same.
    billed = bill.of("hosted", "failed_launches")
    assert billed is not None and billed.amount == pytest.approx((2 * read + 8 * written) / 1e6)
    assert all(cost.value is not None for cost in outcome_costs(document, provider))


@pytest.mark.full
def test_a_wrong_key_is_named_and_not_repeated(home: Path, tmp_path: Path) -> None:
    with Hosted(Plan(key="another")) as hosted:
        document = measured(trial_on(hosted.url + "/v1", **SHORT))
    assert document.validity.failure_class == "bad_declaration"
    assert "launcher.connection" in document.validity.reasons[0].detail
    assert len(hosted.records) == 1
    assert KEY.encode() not in everything_written(home, tmp_path)


def deployed(url: str, **declare: Any) -> Trial:
    """A trial on an endpoint whose Deployment is on the cluster of the connection k8s_a."""
    trial = trial_on(url, None, **declare)
    launcher = trial.provider.launcher_as(EndpointLauncher)
    behind = Deployment(connection="k8s_a", namespace="plumbline", name="chat")
    provider = trial.provider.model_copy(update={"launcher": launcher.model_copy(update={"deployment": behind})})
    return trial.model_copy(update={"provider": provider})


def test_the_replicas_behind_an_endpoint_are_recorded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeKubernetes() as kube, Hosted(Plan(first_s=0.01)) as hosted:
        monkeypatch.setenv("AIRFLOW_CONN_K8S_A", kube.connection_json("plumbline"))
        row = {"metadata": {"name": "chat"}, "spec": {"replicas": 1}, "status": {"readyReplicas": 1}}
        kube.store.create("deployments", "plumbline", row)
        scaler = threading.Thread(target=_scaled, args=(kube,))
        scaler.start()
        document = measured(deployed(hosted.url + "/v1", **SHORT | {"phases": LONG}))
        scaler.join()
    assert document.validity.failure_class is None, document.validity
    assert document.launch is not None
    assert [(count.ready, count.wanted) for count in document.launch.replicas] == [(1, 1), (2, 2)]


LONG = [{"name": "steady", "arrivals": {"poisson": {"rate": "20/s"}}, "duration": "6s"}]


def _scaled(kube: FakeKubernetes) -> None:
    """A second replica once the launcher asks again."""
    kube.wait_for(lambda: len(kube.called("GET /apis/apps/v1/namespaces/plumbline/deployments/chat")) > 1, "it asks again", timeout_s=100.0)
    kube.store.patch("deployments", "plumbline", "chat", {"spec": {"replicas": 2}, "status": {"readyReplicas": 2}})


@pytest.mark.parametrize(("forbidden", "said"), [(False, "does not exist"), (True, "right to get deployments.apps")])
def test_a_deployment_that_cannot_be_read_is_a_bad_declaration(
    home: Path, monkeypatch: pytest.MonkeyPatch, forbidden: bool, said: str
) -> None:
    with FakeKubernetes() as kube:
        monkeypatch.setenv("AIRFLOW_CONN_K8S_A", kube.connection_json("plumbline"))
        if forbidden:
            kube.forbidden.add(("get", "deployments.apps"))
        record = launched(deployed("http://127.0.0.1:1/v1"), home)
    assert record.failure_class == "bad_declaration"
    assert said in str(record.failure_detail)
