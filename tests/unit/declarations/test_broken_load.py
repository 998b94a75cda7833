"""A load that cannot be driven gives exactly one error: file, line, field, and what was expected instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.golden import Golden
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
SCALE_OUT = STEADY + "  - {name: scale_out, rates: [2/s, 8/s], hold: 20s, down: 5s}\n"


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
        (STEADY, SCALE_OUT),
        (STEADY, FAULT),
        (STEADY, FAULT.replace("server_kill, at: 5s", "overload, at: 5s, lasts: 5s, factor: 4")),
    ],
)
def test_what_can_be_driven(broken: Break, old: str, new: str) -> None:
    assert "chat" in load(broken(CHAT, old, new)).workloads


UNDRIVABLE = [
    pytest.param(ARRIVALS, "{}", "13  phases[1].arrivals", id="no process"),
    pytest.param(ARRIVALS, "{poison: {rate: 6/s}}", "13  phases[1].arrivals", id="misspelt process"),
    pytest.param(ARRIVALS, "{gamma: {rate: 6/s, cv: 0}}", "13  phases[1].arrivals.gamma.cv", id="no variation"),
    pytest.param(ARRIVALS, "{closed: {users: 0, requests: 9}}", "13  phases[1].arrivals.closed.users", id="no users"),
    pytest.param(ARRIVALS, "{closed: {users: 2, requests: 9, think: -1s}}", "13  phases[1].arrivals.closed.think", id="think"),
    pytest.param(ARRIVALS, "{poisson: {rate: 900000/s}}", "13  phases[1]", id="too many"),
    pytest.param(INPUT, "{mixed: [{share: 20%, constant: 64}, {share: 70%, constant: 8}]}", "8  requests.input_tokens", id="shares"),
    pytest.param(
        INPUT,
        "{mixed: [{share: 20%, constant: 64}, {share: 80%}]}",
        "8  requests.input_tokens.mixed[1]",
        id="share of nothing",
    ),
    pytest.param(SEED, "  seed: 1\n  shared_prefix: {tokens: 8}\n", "8  requests.input_tokens", id="prefix"),
    pytest.param(SEED, "  seed: 1\n  turns: {count: 3}\n", "7  requests", id="turns over the context"),
    pytest.param(SEED, "  seed: 1\n  turns: {count: 1}\n", "11  requests.turns.count", id="one turn"),
    pytest.param("vocabulary: 2048, context: 128}", "vocabulary: 4096, context: 128}", "11  requests.text", id="tokenizer"),
    pytest.param(STEADY, SWEEP.replace("[2/s, 64/s]", "[64/s, 2/s]"), "14  phases[2].search.between", id="range"),
    pytest.param(STEADY, SWEEP.replace("probe: 10s", "probe: 4s"), "14  phases[2].search.probe", id="short probe"),
    pytest.param(STEADY, CONTEXT.replace("112]", "113]"), "1  phases[2].input_tokens", id="length over the context"),
    pytest.param(STEADY, CONTEXT.replace("[16, 64,", "[64, 64,"), "14  phases[2]", id="no growth"),
    pytest.param(STEADY, CONTEXT.replace("[16, 64, 112]", "[16]"), "14  phases[2].input_tokens", id="one length"),
    pytest.param(STEADY, CONTEXT.replace("requests: 4,", "requests: 4, users: 5,"), "14  phases[2]", id="idle users"),
    pytest.param(STEADY, SCALE_OUT.replace("[2/s, 8/s]", "[8/s, 8/s]"), "14  phases[2]", id="rates that do not rise"),
    pytest.param(STEADY, SCALE_OUT.replace("20s", "19s"), "14  phases[2]", id="windows longer than half a step"),
    pytest.param(STEADY, SCALE_OUT.replace("20s", "24h"), "14  phases[2]", id="steps over a day"),
    pytest.param(STEADY, FAULT.replace("at: 5s", "at: 15s"), "14  phases[2]", id="late fault"),
    pytest.param(STEADY, FAULT.replace("at: 5s", "at: 5s, factor: 2"), "14  phases[2]", id="factor"),
    pytest.param(
        STEADY,
        FAULT.replace("server_kill, at: 5s", "overload, at: 5s, lasts: 5s, factor: 0.5"),
        "14  phases[2].factor",
        id="no overload",
    ),
    pytest.param(STEADY, FAULT.replace("server_kill", "slow_client"), "14  phases[2].inject", id="unknown fault"),
    pytest.param(
        STEADY,
        FAULT.replace("{poisson: {rate: 6/s}}, duration: 15s, inject", "{closed: {users: 2, requests: 9}}, duration: 15s, inject"),
        "14  phases[2]",
        id="closed loop and fault",
    ),
]


@pytest.mark.parametrize(("old", "new", "where"), UNDRIVABLE)
def test_one_clear_error(broken: Break, old: str, new: str, where: str) -> None:
    problem = problem_of(broken, old, new)
    assert problem.startswith(f"config/{CHAT}:{where}"), problem


def problem_of(broken: Break, old: str, new: str) -> str:
    config = broken(CHAT, old, new)
    if "vocabulary" in old:
        config = broken(CHAT, SEED, "  seed: 1\n  text: true\n")
    return only_problem(config)


def test_each_error_names_what_is_wrong_and_what_is_expected(config: Path, broken: Break, golden: Golden) -> None:
    problems, declared = [], (config / CHAT).read_text()
    for case in UNDRIVABLE:
        old, new, _ = map(str, case.values)
        problems.append(problem_of(broken, old, new))
        (config / CHAT).write_text(declared)
    golden("declarations.undrivable_load", "\n".join(problems))


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
    assert only_problem(config).startswith(f"config/{CHAT}:") and "server.prefix_cache" in only_problem(config)
    assert "chat" in load(broken(CHAT, ", prefix_cache: cold", "")).workloads


def test_text_needs_a_server_that_has_a_tokenizer(broken: Break) -> None:
    for old, new in (
        ("{architecture: gpt,", "{architecture: encoder, task: embedding,"),
        (OUTPUT, "{constant: 1}"),
        ("{backend: python}", "{backend: onnxruntime}"),
        (SEED, "  seed: 1\n  text: true\n"),
    ):
        config = broken(CHAT, old, new)
    problem = only_problem(config)
    assert problem.startswith(f"config/{CHAT}:11  requests.text: ") and "server.backend onnxruntime" in problem
    assert "chat" in load(broken(CHAT, "text: true", "text: false")).workloads
