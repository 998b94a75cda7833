"""A hosted model is a provider too: for inference only, with no key in its URL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.golden import Golden

from plumbline.airflow.defaults import launch_settings
from plumbline.declarations import DeclarationError, Declarations, EndpointLauncher, incompatibility, load
from plumbline.declarations.workloads.evaluation import Evaluation, Question

HERE, CHAT = "providers/here.yaml", "workloads/inference/chat.yaml"
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
    assert incompatibility(declared.workloads["gpt"], provider) is not None


def test_why_a_workload_does_not_fit_an_endpoint_or_a_local_provider(broken: Break, config: Path, golden: Golden) -> None:
    local, chat = (config / HERE).read_text(), (config / CHAT).read_text()

    def misfit(name: str, server: str, launcher: str = LOCAL) -> str:
        (config / HERE).write_text(local.replace(LOCAL, launcher))
        (config / CHAT).write_text(chat.replace("{backend: python}", server))
        declared = load(config)
        return str(incompatibility(declared.workloads[name], declared.providers["here"]))

    hosted, on_this_machine = HOSTED % "https://api.example.com/v1", HOSTED % "http://localhost:8000/v1"
    misfits = [
        misfit("gpt", "{backend: external}", hosted),
        misfit("chat", "{backend: python}", hosted),
        misfit("chat", "{backend: external}"),
        misfit("chat", "{backend: python, client_placement: other_node}"),
        misfit("chat", "{backend: external, client_placement: same_node}", hosted),
        misfit("chat", "{backend: external, client_placement: other_region}", on_this_machine),
        misfit("chat", "{backend: external, client_placement: other_region}", hosted.replace("openai,", "openai_chat,")),
    ]
    golden("declarations.endpoint_misfits", "\n".join(misfits))


def test_its_client_shares_the_machine_with_local_trials(broken: Break) -> None:
    provider = external(broken).providers["here"]
    assert provider.pool == "plumbline_this-machine"
    assert launch_settings(provider)["pool"] == provider.pool


def test_a_workload_has_a_server_of_its_own_or_an_endpoint_has(broken: Break) -> None:
    hosted = load(broken(HERE, LOCAL, HOSTED % "https://api.example.com/v1"))
    assert "server.backend" in str(incompatibility(hosted.workloads["chat"], hosted.providers["here"]))


def test_a_local_provider_has_no_server_that_exists_already(broken: Break) -> None:
    declared = load(broken("workloads/inference/chat.yaml", "{backend: python}", "{backend: external}"))
    assert incompatibility(declared.workloads["chat"], declared.providers["here"]) is not None


def test_a_client_elsewhere_needs_an_endpoint(broken: Break) -> None:
    declared = load(broken("workloads/inference/chat.yaml", "{backend: python}", "{backend: python, client_placement: other_node}"))
    assert "same_node" in str(incompatibility(declared.workloads["chat"], declared.providers["here"]))


@pytest.mark.parametrize(("protocol", "fits"), [("openai", True), ("openai_chat", True), ("kserve_http", False), ("kserve_grpc", False)])
def test_questions_are_asked_where_answers_are_text(broken: Break, protocol: str, fits: bool) -> None:
    url = "grpcs://api.example.com" if protocol == "kserve_grpc" else "https://api.example.com/v1"
    declared = external(broken, url, launcher=HOSTED.replace("protocol: openai", f"protocol: {protocol}"))
    chat = declared.workloads["chat"]
    asked = Evaluation(file="q.jsonl", questions=(Question(prompt="2 + 2 =", answer="4"),))
    requests = chat.requests.model_copy(update={"text": True})  # type: ignore[union-attr]
    found = incompatibility(chat.model_copy(update={"requests": requests, "evaluation": asked}), declared.providers["here"])
    assert (found is None) == fits and (fits or "evaluation" in str(found))


@pytest.mark.parametrize(
    ("url", "placement", "fits"),
    [
        ("https://api.example.com/v1", "other_node", True),
        ("https://api.example.com/v1", "same_node", False),
        ("http://127.0.0.1:8000/v1", "same_node", True),
        ("http://localhost:8000/v1", "other_region", False),
    ],
)
def test_the_clients_placement_is_compared_with_the_url(broken: Break, url: str, placement: str, fits: bool) -> None:
    declared = external(broken, url, placement)
    reason = incompatibility(declared.workloads["chat"], declared.providers["here"])
    assert reason is None if fits else placement in str(reason)


def test_chat_takes_text_only(broken: Break) -> None:
    declared = external(broken, launcher=HOSTED.replace("openai,", "openai_chat,"))
    assert "openai_chat" in str(incompatibility(declared.workloads["chat"], declared.providers["here"]))


@pytest.mark.parametrize(
    ("server", "field"),
    [("{backend: external, prefix_cache: cold}", "prefix_cache"), ("{backend: external}\nquality: {agreement: 98%}", "quality")],
)
def test_what_cannot_be_done_to_an_external_server_is_refused(broken: Break, server: str, field: str) -> None:
    with pytest.raises(DeclarationError, match=field):
        load(broken("workloads/inference/chat.yaml", "{backend: python}", server))


def test_a_server_of_somebody_else_is_not_killed(broken: Break) -> None:
    broken("workloads/inference/chat.yaml", "{backend: python}", "{backend: external}")
    fault = "duration: 15s}\n  - {name: fault, inject: server_kill, at: 5s, arrivals: {poisson: {rate: 6/s}}, duration: 15s}"
    with pytest.raises(DeclarationError, match="server_kill"):
        load(broken("workloads/inference/chat.yaml", "duration: 15s}", fault))


@pytest.mark.parametrize(
    ("launcher", "said"),
    [
        (HOSTED % "http://api.example.com/v1", "expected https://"),
        (HOSTED % "http://127.evil.example/v1", "expected https://"),
        (HOSTED % "http://127.0.0.1.evil.example/v1", "expected https://"),
        (HOSTED % "grpcs://api.example.com", "expected http:// or"),
        ((HOSTED % "https://api.example.com/v1").replace("}", ", server_process: same_machine}"), "expected a loopback url"),
        ("{kind: endpoint, url: https://api.example.com, protocol: kserve_grpc, model: chat}", "expected grpc:// or grpcs://"),
        (HOSTED % "https://me:secret@api.example.com", "launcher.url"),
        (HOSTED % "https://api.example.com/v1?key=secret", "launcher.url"),
        ((HOSTED % "https://api.example.com/v1").replace("}", ", headers: {X-Api-Key: secret}}"), "expected launcher.connection"),
        ((HOSTED % "https://api.example.com/v1").replace("}", ", query: {api-key: secret}}"), "expected launcher.connection"),
        ((HOSTED % "https://api.example.com/v1").replace("}", ", headers: {Content-Length: '7'}}"), "the client sets itself"),
        ((HOSTED % "https://api.example.com/v1").replace("}", ", headers: {x-tenant: []}}"), "launcher.headers.x-tenant"),
        ((HOSTED % "https://api.example.com/v1").replace("}", ', headers: {x-tenant: "a\\r\\nb: c"}}'), "launcher.headers"),
        (
            "{kind: endpoint, url: grpcs://api.example.com, protocol: kserve_grpc, model: chat, retry_after: wait}",
            "expected protocol kserve_http",
        ),
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


def test_what_changes_the_load_is_part_of_the_specification_and_the_rest_a_fact(broken: Break) -> None:
    more = ", headers: {x-priority: '5', x-tenant: [a, b]}, retry_after: wait, query: {api-version: 2024-10-21}, stream_options: false}"
    launcher = external(broken, launcher=HOSTED.replace("}", more)).providers["here"].launcher
    assert isinstance(launcher, EndpointLauncher)
    spec: dict[str, dict[str, object]] = {"requests": {}}
    launcher.extend_specification(spec)
    assert spec["requests"] == {"exact_output": True, "headers": "x-priority: 5; x-tenant: a, b", "retry_after": "wait"}
    assert launcher.declared_request["query"] == "api-version=2024-10-21" and launcher.declared_request["stream_options"] is False
    assert [launcher.headers_of(i) for i in range(3)] == [{"x-tenant": "a"}, {"x-tenant": "b"}, {"x-tenant": "a"}]
