"""A hosted model is a provider too: for inference only, with no key in its URL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from plumbline.airflow.defaults import launch_settings
from plumbline.declarations import DeclarationError, Declarations, EndpointLauncher, incompatibility, load

HERE = "providers/here.yaml"
LOCAL = "{kind: local, cpus: [0], memory: 4GiB, timeout: 10min}"
HOSTED = "{kind: endpoint, url: '%s', protocol: openai, model: chat, connection: hosted_key}"

Break = Callable[[str, str, str], Path]


def external(
    broken: Break, url: str = "https://api.example.com/v1", placement: str = "other_region", launcher: str = HOSTED
) -> Declarations:
    broken("workloads/inference/chat.yaml", "{backend: python}", f"{{backend: external, client_placement: {placement}}}")
    return load(broken(HERE, LOCAL, launcher % url))


def test_an_endpoint_answers_inference_and_is_never_asked_to_train(broken: Break) -> None:
    declared = external(broken)
    provider = declared.providers["here"]
    assert isinstance(provider.launcher, EndpointLauncher)
    assert incompatibility(declared.workloads["chat"], provider) is None
    assert incompatibility(declared.workloads["gpt"], provider) == "it is training, and an endpoint only answers inference requests"


def test_its_client_shares_the_machine_with_local_trials(broken: Break) -> None:
    provider = external(broken).providers["here"]
    assert provider.pool == "plumbline_this-machine"
    assert launch_settings(provider)["pool"] == provider.pool


def test_a_workload_has_a_server_of_its_own_or_an_endpoint_has(broken: Break) -> None:
    hosted = load(broken(HERE, LOCAL, HOSTED % "https://api.example.com/v1"))
    assert incompatibility(hosted.workloads["chat"], hosted.providers["here"]) == (
        "its server.backend python is started for each trial, and an endpoint has a server already; backend: external fits"
    )


def test_a_local_provider_has_no_server_that_exists_already(broken: Break) -> None:
    declared = load(broken("workloads/inference/chat.yaml", "{backend: python}", "{backend: external}"))
    assert "a local provider starts one; an endpoint fits" in str(incompatibility(declared.workloads["chat"], declared.providers["here"]))


def test_a_client_elsewhere_needs_an_endpoint(broken: Break) -> None:
    declared = load(broken("workloads/inference/chat.yaml", "{backend: python}", "{backend: python, client_placement: other_node}"))
    assert "a local provider runs both on one" in str(incompatibility(declared.workloads["chat"], declared.providers["here"]))


@pytest.mark.parametrize(
    ("url", "placement", "said"),
    [
        ("https://api.example.com/v1", "other_node", None),
        ("https://api.example.com/v1", "same_node", "is on another machine"),
        ("http://127.0.0.1:8000/v1", "same_node", None),
        ("http://localhost:8000/v1", "other_region", "is on the client's own machine"),
    ],
)
def test_where_the_client_is_said_to_be_is_held_against_the_url(broken: Break, url: str, placement: str, said: str | None) -> None:
    declared = external(broken, url, placement)
    found = incompatibility(declared.workloads["chat"], declared.providers["here"])
    assert found is None if said is None else said in str(found)


def test_chat_takes_text_only(broken: Break) -> None:
    declared = external(broken, launcher=HOSTED.replace("openai,", "openai_chat,"))
    assert "it sends token ids, and openai_chat takes text only" in str(
        incompatibility(declared.workloads["chat"], declared.providers["here"])
    )


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ("{backend: external, prefix_cache: cold}", "nobody can empty the cache of an external server"),
        ("{backend: external}\nquality: {agreement: 98%}", "its weights are not ours to compare with"),
    ],
)
def test_what_cannot_be_done_to_a_server_of_somebody_else_is_refused(broken: Break, server: str, said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        load(broken("workloads/inference/chat.yaml", "{backend: python}", server))


def test_a_server_of_somebody_else_is_not_killed(broken: Break) -> None:
    broken("workloads/inference/chat.yaml", "{backend: python}", "{backend: external}")
    fault = "duration: 15s}\n  - {name: fault, inject: server_kill, at: 5s, arrivals: {poisson: {rate: 6/s}}, duration: 15s}"
    with pytest.raises(DeclarationError, match="injects server_kill into an external server; expected overload or slow_client"):
        load(broken("workloads/inference/chat.yaml", "duration: 15s}", fault))


@pytest.mark.parametrize(
    ("launcher", "said"),
    [
        (HOSTED % "http://api.example.com/v1", "would send the key of hosted_key in clear; expected https://"),
        (HOSTED % "http://127.evil.example/v1", "would send the key of hosted_key in clear; expected https://"),
        (HOSTED % "http://127.0.0.1.evil.example/v1", "would send the key of hosted_key in clear; expected https://"),
        (HOSTED % "grpcs://api.example.com", "does not carry openai; expected http:// or https://"),
        ("{kind: endpoint, url: https://api.example.com, protocol: kserve_grpc, model: chat}", "expected grpc:// or grpcs://"),
        (HOSTED % "https://me:secret@api.example.com", "launcher.url"),
        (HOSTED % "https://api.example.com/v1?key=secret", "launcher.url"),
        ("{kind: endpoint, url: grpcs://api.example.com/v1, protocol: kserve_grpc, model: chat}", "expected grpcs://host:port"),
        ("{kind: endpoint, url: https://api.example.com, protocol: openai}", "launcher.model"),
        ("{kind: endpoint, url: https://api.example.com, protocol: rest, model: chat}", "launcher.protocol"),
    ],
)
@pytest.mark.fault("a hosted model's address would send its key in clear", ends="refused", keeps="the key")
def test_what_could_not_work_or_would_leak_a_key_is_refused(broken: Break, launcher: str, said: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        load(broken(HERE, LOCAL, launcher))
    assert len(raised.value.problems) == 1
    assert said in str(raised.value)


@pytest.mark.parametrize("address", ["http://localhost:8000/v1", "http://127.0.0.1:8000/v1", "http://[::1]:8000/v1", "http://127.1.2.3/v1"])
def test_a_key_may_go_to_this_machine_in_clear(broken: Break, address: str) -> None:
    load(broken(HERE, LOCAL, HOSTED % address))
