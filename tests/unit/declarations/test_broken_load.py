"""A load that cannot be driven gives exactly one error: file, line, field, and what was expected instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.declarations.test_broken import only_problem

from plumbline.declarations import load

Break = Callable[[str, str, str], Path]
CHAT = "workloads/inference/chat.yaml"
INPUT, OUTPUT, SEED = "{normal: {mean: 24, stddev: 6, min: 8, max: 48}}", "{constant: 16}", "  seed: 1\n"
STEADY = "  - {name: steady, arrivals: {poisson: {rate: 6/s}}, duration: 15s}\n"
ARRIVALS = "{poisson: {rate: 6/s}}"
SWEEP = STEADY + "  - {name: sweep, search: {goodput: 99%, between: [2/s, 64/s], probe: 10s}}\n"
CONTEXT = STEADY + "  - {name: context, input_tokens: [16, 64, 112], requests: 4, each: 5s}\n"
FAULT = STEADY + "  - {name: fault, arrivals: {poisson: {rate: 6/s}}, duration: 15s, inject: server_kill, at: 5s}\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (ARRIVALS, "{gamma: {rate: 6/s, cv: 3}}"),
        (ARRIVALS, "{on_off: {on: {rate: 20/s, duration: 1s}, off: {rate: 1/s, duration: 4s}}}"),
        (ARRIVALS, "{ramp: {start: 1/s, end: 8/s}}"),
        (ARRIVALS, "{closed: {users: 4, requests: 20, think: 0s}}"),
        (INPUT, "{mixed: [{share: 20%, constant: 64}, {share: 80%, uniform: {min: 8, max: 16}}]}"),
        (SEED, "  seed: 1\n  shared_prefix: {tokens: 7, groups: 2}\n"),
        (SEED, "  seed: 1\n  turns: {count: 2}\n"),
        (SEED, "  seed: 1\n  text: true\n"),
        (STEADY, SWEEP),
        (STEADY, CONTEXT),
        (STEADY, FAULT),
        (STEADY, FAULT.replace("server_kill, at: 5s", "overload, at: 5s, lasts: 5s, factor: 4")),
        (STEADY, FAULT.replace("server_kill, at: 5s", "slow_client, at: 5s, lasts: 5s, factor: 0.5")),
    ],
)
def test_what_can_be_driven(broken: Break, old: str, new: str) -> None:
    assert "chat" in load(broken(CHAT, old, new)).workloads


@pytest.mark.parametrize(
    ("old", "new", "where", "said"),
    [
        pytest.param(ARRIVALS, "{}", "13  phases[1].arrivals", "expected exactly one of constant, poisson, gamma, on_off", id="no process"),
        pytest.param(ARRIVALS, "{poison: {rate: 6/s}}", "13  phases[1].arrivals", "did you mean poisson?", id="misspelt process"),
        pytest.param(ARRIVALS, "{gamma: {rate: 6/s, cv: 0}}", "13  phases[1].arrivals.gamma.cv", "above 0", id="no variation"),
        pytest.param(ARRIVALS, "{closed: {users: 0, requests: 9}}", "13  phases[1].arrivals.closed.users", "at least 1", id="no users"),
        pytest.param(
            ARRIVALS, "{closed: {users: 2, requests: 9, think: -1s}}", "13  phases[1].arrivals.closed.think", "at least 0", id="think"
        ),
        pytest.param(ARRIVALS, "{poisson: {rate: 900000/s}}", "13  phases[1]", "expected at most 10,000,000 in a phase", id="too many"),
        pytest.param(
            INPUT,
            "{mixed: [{share: 20%, constant: 64}, {share: 70%, constant: 8}]}",
            "8  requests.input_tokens",
            "the shares of mixed add up to 0.9; expected 100%",
            id="shares",
        ),
        pytest.param(
            INPUT,
            "{mixed: [{share: 20%, constant: 64}, {share: 80%}]}",
            "8  requests.input_tokens.mixed[1]",
            "expected a share and exactly one of constant, normal, uniform",
            id="share of nothing",
        ),
        pytest.param(
            SEED,
            "  seed: 1\n  shared_prefix: {tokens: 8}\n",
            "8  requests.input_tokens",
            "can be 8, which holds no more than the shared_prefix of 8 tokens; expected at least 9",
            id="prefix",
        ),
        pytest.param(
            SEED,
            "  seed: 1\n  turns: {count: 3}\n",
            "7  requests",
            "192 tokens long (3 turns of input + output), over model.context 128",
            id="turns over the context",
        ),
        pytest.param(SEED, "  seed: 1\n  turns: {count: 1}\n", "11  requests.turns.count", "at least 2", id="one turn"),
        pytest.param(
            "vocabulary: 2048, context: 128}",
            "vocabulary: 4096, context: 128}",
            "11  requests.text",
            "with model.vocabulary 4096: the shipped tokenizer makes ids of 2048; expected vocabulary 2048, or text: false",
            id="tokenizer",
        ),
        pytest.param(STEADY, SWEEP.replace("[2/s, 64/s]", "[64/s, 2/s]"), "14  phases[2].search.between", "is no range; expected two rates", id="range"),
        pytest.param(
            STEADY,
            SWEEP.replace("probe: 10s", "probe: 4s"),
            "14  phases[2].search.probe",
            "4s holds 8 requests at the lowest rate, 2/s: no share can be read from so few; expected at least 10",
            id="short probe",
        ),
        pytest.param(
            STEADY,
            CONTEXT.replace("112]", "113]"),
            "1  phases[2].input_tokens",
            "113 tokens in, up to 16 out, over model.context 128; expected at most 112, or a larger context",
            id="length over the context",
        ),
        pytest.param(
            STEADY, CONTEXT.replace("[16, 64,", "[64, 64,"), "14  phases[2]", "do not grow; expected rising lengths", id="no growth"
        ),
        pytest.param(STEADY, CONTEXT.replace("[16, 64, 112]", "[16]"), "14  phases[2].input_tokens", "at least 2", id="one length"),
        pytest.param(
            STEADY, CONTEXT.replace("requests: 4,", "requests: 4, users: 5,"), "14  phases[2]", "5 users for 4 requests", id="idle users"
        ),
        pytest.param(STEADY, FAULT.replace("at: 5s", "at: 15s"), "14  phases[2]", "expected time left for the recovery", id="late fault"),
        pytest.param(STEADY, FAULT.replace("at: 5s", "at: 5s, factor: 2"), "14  phases[2]", "server_kill takes no lasts and factor", id="factor"),
        pytest.param(
            STEADY,
            FAULT.replace("server_kill, at: 5s", "overload, at: 5s, lasts: 5s, factor: 0.5"),
            "14  phases[2].factor",
            "0.5 is no overload; expected above 1",
            id="no overload",
        ),
        pytest.param(
            STEADY,
            FAULT.replace("server_kill, at: 5s", "slow_client, at: 5s, lasts: 5s, factor: 2"),
            "14  phases[2].factor",
            "2 is no share of the streams; expected at most 1",
            id="share of the streams",
        ),
        pytest.param(
            STEADY,
            FAULT.replace("{poisson: {rate: 6/s}}, duration: 15s, inject", "{closed: {users: 2, requests: 9}}, duration: 15s, inject"),
            "14  phases[2]",
            "a closed loop hides a fault",
            id="closed loop and fault",
        ),
    ],
)  # fmt: skip
def test_one_clear_error(broken: Break, old: str, new: str, where: str, said: str) -> None:
    config = broken(CHAT, old, new)
    if "vocabulary" in old:
        config = broken(CHAT, SEED, "  seed: 1\n  text: true\n")
    problem = only_problem(config)
    assert problem.startswith(f"config/{CHAT}:{where}"), problem
    assert said in problem


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (SEED, "  seed: 1\n  turns: {count: 2}\n", "context with requests.turns"),
        (SEED, "  seed: 1\n  shared_prefix: {tokens: 4}\n", "context with requests.shared_prefix"),
        ("{backend: python}", "{backend: python, prefix_cache: cold}", "context with server.prefix_cache cold"),
    ],
)
def test_a_growing_context_computes_every_token_of_its_own_prompts(broken: Break, old: str, new: str, said: str) -> None:
    broken(CHAT, STEADY, CONTEXT)
    assert said in only_problem(broken(CHAT, old, new))


def test_an_encoder_has_no_prefix_cache(broken: Break) -> None:
    for old, new in (
        ("{architecture: gpt,", "{architecture: encoder, task: embedding,"),
        (OUTPUT, "{constant: 1}"),
        ("{backend: python}", "{backend: python, prefix_cache: cold}"),
    ):
        config = broken(CHAT, old, new)
    assert "server.prefix_cache: cold for an encoder" in only_problem(config)
    assert "chat" in load(broken(CHAT, ", prefix_cache: cold", "")).workloads


def test_text_needs_a_server_that_has_a_tokenizer(broken: Break) -> None:
    for old, new in (
        ("{architecture: gpt,", "{architecture: encoder, task: embedding,"),
        (OUTPUT, "{constant: 1}"),
        ("{backend: python}", "{backend: pytorch}"),
        (SEED, "  seed: 1\n  text: true\n"),
    ):
        config = broken(CHAT, old, new)
    said = "requests.text: on server.backend pytorch, which has no tokenizer; expected text: false"
    assert only_problem(config) == f"config/{CHAT}:11  {said}"
    assert "chat" in load(broken(CHAT, "text: true", "text: false")).workloads
