"""No declared URL holds a secret, none that gets a key crosses a network unencrypted, and stored results stay readable."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import TypeAdapter, ValidationError

from plumbline.declarations import DeclarationError, load
from plumbline.declarations.base import archived
from plumbline.declarations.urls import is_loopback, sends_in_clear, url_problem
from plumbline.declarations.workloads.prompts import UrlPrompts

Break = Callable[[str, str, str], Path]
HERE, GPT, CHAT = "providers/here.yaml", "workloads/training/gpt.yaml", "workloads/inference/chat.yaml"
LOCAL = "{kind: local, cpus: [0], memory: 4GiB, timeout: 10min}"
CLUSTER = "{kind: kubernetes, connection: k, namespace: n, images: {training: 'r.example/t:1'}, results_url: '%s'}"
FIELDS = {
    "launcher.url": (HERE, LOCAL, "{kind: endpoint, url: '%s', protocol: openai, model: chat}", "https://"),
    "launcher.models_url": (HERE, LOCAL, "{kind: local, cpus: [0], models_url: '%s'}", "https://"),
    "launcher.results_url": (HERE, LOCAL, CLUSTER, "s3://"),
    "price_sources[0].url": (HERE, "prices:", "price_sources:\n  - {kind: opencost, url: '%s'}\nprices:", "https://"),
    "model.url": (
        CHAT,
        "{architecture: gpt, layers: 2, width: 128, heads: 4, vocabulary: 2048, context: 128}",
        "{source: url, url: '%s'}",
        "https://",
    ),
    "requests.prompts.url": (
        CHAT,
        "  input_tokens: {normal: {mean: 24, stddev: 6, min: 8, max: 48}}",
        f"  prompts: {{source: url, format: text, sha256: '{'0' * 64}', url: '%s.jsonl'}}",
        "https://",
    ),
    "data.url": (
        GPT,
        "{source: synthetic, tokens: 262144}",
        f"{{source: file, url: '%s', sha256: '{'0' * 64}', width: 2, tokens: 262144}}",
        "https://",
    ),
}
FILES = {
    "airflow_url": ("alerts.yaml", "airflow_url: '%s'", "https://"),
    "evidence.stores[0]": ("upkeep.yaml", "evidence: {stores: ['%s']}", "s3://"),
    "export.to": ("upkeep.yaml", "export: {to: '%s'}", "s3://"),
    "models_url": ("defaults.yaml", "models_url: '%s'", "s3://"),
}
SECRETS = ("me:hunter2@host/x", "hunter2@host/x", "host/x?X-Amz-Signature=hunter2", "host/x?sv=1&sig=hunter2", "host/x#hunter2")


@pytest.mark.fault("a declared URL has a user, a password or a signature", ends="refused", keeps="the secret, which no message quotes")
@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("field", [*FIELDS, *FILES])
def test_no_declared_url_holds_a_secret(config: Path, broken: Break, field: str, secret: str) -> None:
    if field in FIELDS:
        file, old, new, scheme = FIELDS[field]
        broken(file, old, new % f"{scheme}{secret}")
    else:
        file, text, scheme = FILES[field]
        (config / file).write_text(text % f"{scheme}{secret}")
    with pytest.raises(DeclarationError) as raised:
        load(config)
    (problem,) = [found for found in raised.value.problems if found.field == field]
    assert problem.file.endswith(file)
    assert "which results, pages and logs would show; expected the address alone" in problem.message
    assert "hunter2" not in str(raised.value)


def test_a_stored_trial_with_such_a_url_stays_readable() -> None:
    stored = {"source": "url", "format": "text", "sha256": "0" * 64, "url": "https://host/x?sig=1.jsonl"}
    with pytest.raises(ValidationError, match="a query"):
        UrlPrompts.model_validate(stored)
    kept: TypeAdapter[UrlPrompts] = TypeAdapter(Annotated[UrlPrompts, archived(UrlPrompts)])
    assert kept.validate_json(json.dumps(stored)).url == stored["url"]


@pytest.mark.fault("a mirror over plain HTTP would get the hub's token", ends="refused", keeps="the token")
def test_a_token_does_not_go_to_a_mirror_over_plain_http(broken: Break) -> None:
    launcher = "{kind: local, cpus: [0], models_url: 'http://mirror.svc:8080', models_connection: hub}"
    with pytest.raises(DeclarationError, match="send the token of hub in clear; expected https://"):
        load(broken(HERE, LOCAL, launcher))
    load(broken(HERE, launcher, launcher.replace(", models_connection: hub", "")))


@pytest.mark.parametrize(
    "url", ["s3://bucket/a", "abfss://container@account.dfs.core.windows.net/a", "https://host:8443/v1", "file:///a/b@c?#"]
)
def test_a_url_without_a_secret_is_accepted(url: str) -> None:
    assert url_problem(url) is None


@pytest.mark.parametrize("url", ["abfss://user:pw@account/a", "az://a%3Ab@c/d", "zip://x.bin::https://user:pw@host/a", "sftp://me@host/a"])
def test_a_user_is_found_wherever_it_stands(url: str) -> None:
    assert url_problem(url) == "has a user or password"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:80", "127.8.9.1", "[::1]:8080", "LOCALHOST"])
def test_this_machine_may_get_a_key_over_plain_http(host: str) -> None:
    assert is_loopback(f"http://{host}/v1")
    assert not sends_in_clear(f"http://{host}/v1")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1.example.com",
        "HTTP://host",
        "grpc://10.0.0.1:8001",
        "http://api.plumbline.svc:8080",
        "http://0.0.0.0",
        "http://[::2]",
    ],
)
def test_another_machine_may_not(url: str) -> None:
    assert sends_in_clear(url)
    assert not sends_in_clear(url.lower().replace("http://", "https://").replace("grpc://", "grpcs://"))
