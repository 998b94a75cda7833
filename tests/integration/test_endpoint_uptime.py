"""The uptime check of an endpoint against a real server: its first byte, and whose fault each miss is."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest
from tests.fakes.openai_server import Hosted, Plan
from tests.fakes.scripted_http import Answer, Scripted
from tests.fakes.trials import a_trial, declared, local_provider

from plumbline.analysis.availability import whose_fault
from plumbline.declarations import Declarations, Provider
from plumbline.launch import endpoint
from plumbline.launch.failures import TrialFailure
from plumbline.launch.registry import launcher_for

KEY = "sk-planted-93ab77c1"


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_HOSTED_KEY", json.dumps({"conn_type": "http", "password": KEY}))
    monkeypatch.setenv("AIRFLOW_CONN_EXPIRED", json.dumps({"conn_type": "http", "password": "sk-old"}))
    monkeypatch.setattr(endpoint, "_CHECK_S", 2.0)


def check(url: str, connection: str | None = None, placement: str = "same_node") -> float:
    launcher = {"kind": "endpoint", "url": url, "protocol": "openai", "model": "chat", "connection": connection, "timeout": "60s"}
    data = json.loads(local_provider().model_dump_json()) | {"name": "hosted", "launcher": launcher, "watch": {"uptime": {"every": "5min"}}}
    provider = Provider.model_validate_json(json.dumps(data))
    workload = a_trial("inference", provider, {"server": {"backend": "external", "client_placement": placement}}).workload
    world: Declarations = replace(declared(), providers={provider.name: provider}, workloads={workload.name: workload})
    return launcher_for(provider).check_uptime(world, provider, datetime.now(timezone.utc))


def missed(ask: Callable[[], Any]) -> str:
    with pytest.raises(TrialFailure) as failure:
        ask()
    assert KEY not in str(failure.value)
    return str(failure.value.failure_class)


def test_one_request_of_one_token_takes_until_the_first_byte() -> None:
    with Hosted(Plan(first_s=0.1, key=KEY)) as hosted:
        assert check(hosted.url, "hosted_key") >= 0.1
    (request,) = hosted.records
    assert request.asked["max_tokens"] == 1


ENDLESS = Answer([b"data: " + bytes(1 << 20)] * 64)
LINES = Answer([b": nothing\n" * 100_000] * 64)


@pytest.mark.fault("a watched endpoint answers without an end", ends="missed check", keeps="the triggerer's memory")
@pytest.mark.parametrize("answer", [ENDLESS, LINES], ids=["one event", "many lines"])
def test_an_endless_answer_is_the_server_s_and_takes_none_of_this_process(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_CHECK_S", 20.0)
    with Scripted([answer]) as server:
        assert missed(lambda: check(f"{server.url}/v1")) == "server_error"


@pytest.mark.fault("the process of an uptime check exceeds its memory or time", ends="harness_error", keeps="the triggerer; no outage")
@pytest.mark.parametrize(("name", "value"), [("_CHECK_MEMORY", 1 << 20), ("_START_S", -20.0)])
def test_a_check_that_exceeds_its_bounds_shows_no_outage(name: str, value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, name, value)
    monkeypatch.setattr(endpoint, "_CHECK_S", 20.0)
    with Hosted(Plan(faults={0: "hang"})) as hosted, pytest.raises(OSError, match="the client's process"):
        check(hosted.url)


def test_an_expired_token_is_ours() -> None:
    with Hosted(Plan(key=KEY)) as hosted:
        cause = missed(lambda: check(hosted.url, "expired"))
    assert (cause, whose_fault(cause)) == ("bad_declaration", "operator")


@pytest.mark.parametrize(("fault", "whose"), [(503, "provider"), (500, "provider"), ("hang", "provider"), (429, "operator")])
def test_what_the_server_answers_shows_whose_fault_it_is(fault: Any, whose: str) -> None:
    with Hosted(Plan(faults={0: fault})) as hosted:
        assert whose_fault(missed(lambda: check(hosted.url))) == whose


def test_a_refused_connection_is_the_providers_and_an_unknown_name_unproven() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert whose_fault(missed(lambda: check(f"http://127.0.0.1:{port}/v1"))) == "provider"
    assert whose_fault(missed(lambda: check("http://no-such-host.invalid/v1", None, "other_region"))) == "unproven"
