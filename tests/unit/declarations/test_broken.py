"""A broken declaration gives exactly one error: file, line, field, and what was expected instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.golden import Golden

from plumbline.declarations import DeclarationError, load

Break = Callable[[str, str, str], Path]
HERE, GPT, CHAT = "providers/here.yaml", "workloads/training/gpt.yaml", "workloads/inference/chat.yaml"
TEAM, LIMITS = "teams/platform.yaml", "thresholds.yaml"


def test_nothing_is_wrong_before_something_is_broken(config: Path) -> None:
    declared = load(config)
    assert (list(declared.providers), sorted(declared.workloads), list(declared.teams)) == (["here"], ["chat", "gpt"], ["platform"])


def only_problem(config: Path) -> str:
    with pytest.raises(DeclarationError) as raised:
        load(config)
    assert len(raised.value.problems) == 1, str(raised.value)
    problem = raised.value.problems[0]
    assert "\n" not in str(problem)
    return str(problem)


BROKEN = [
    # keys
    pytest.param(GPT, "precision:", "precison:", "9  precison", id="misspelt key"),
    pytest.param(HERE, "region: here", "region: here\nmood: good", "4  mood", id="unknown key"),
    pytest.param(HERE, "region: here\n", "", "1  region", id="missing key"),
    pytest.param(HERE, "region: here", "region: here\nregion: there", "4  region", id="key twice"),
    pytest.param(HERE, "{kind: local,", "{", "6  launcher.kind", id="launcher without kind"),
    # units and numbers
    pytest.param(CHAT, "rate: 6/s", "rate: 6", "13  phases[1].arrivals.poisson.rate", id="no unit"),
    pytest.param(CHAT, "rate: 6/s", "rate: 6Hz", "13  phases[1].arrivals.poisson.rate", id="bad unit"),
    pytest.param(HERE, "memory: 4GiB", "memory: big", "6  launcher.memory", id="no number"),
    pytest.param(HERE, "price: 0.02", "price: -0.02", "8  prices[0].price", id="negative price"),
    pytest.param(HERE, "launch_success: 99%", "launch_success: 990%", "9  sla.launch_success", id="over 100%"),
    # types
    pytest.param(GPT, "version: 1", 'version: "1"', "3  version", id="text for a number"),
    pytest.param(HERE, "cpus: [0]", "cpus: 0", "6  launcher.cpus", id="number for a list"),
    pytest.param(HERE, "cpus: [0]", "cpus: [-1]", "6  launcher.cpus[0]", id="negative core"),
    pytest.param(HERE, "name: here", "name: Here There", "1  name", id="bad name"),
    pytest.param(HERE, "2026-01-01", "2026-13-01", "8  prices[0].since", id="no such month"),
    pytest.param(CHAT, '["02:00"]', '["25:00"]', "15  repeats.slots[0]", id="no such hour"),
    pytest.param(HERE, "{kind: local,", "{kind: pbs,", "6  launcher.kind", id="no launcher"),
    pytest.param(HERE, "region: here", "region: here\nwatch: {debounce: 1}", "4  watch.debounce", id="debounce"),
    pytest.param(HERE, "region: here", "region: here\nwatch: {workloads: []}", "4  watch.workloads", id="nothing to rerun"),
    pytest.param(HERE, "region: here", "region: here\nworkloads: []", "4  workloads", id="nothing monthly"),
    pytest.param(HERE, "region: here", "region: here\nworkloads: [chat, gtp]", "4  workloads[1]", id="unknown monthly workload"),
    # references
    pytest.param(
        HERE,
        "region: here",
        "region: here\nwatch: {workloads: [chat, gtp]}",
        "4  watch.workloads[1]",
        id="no workload to rerun",
    ),
    pytest.param(GPT, "providers: [here]", "providers: [mars]", "5  providers[0]", id="provider"),
    pytest.param(TEAM, "[gpt]", "[chat]", "3  training.workloads[0]", id="workload"),
    pytest.param(HERE, "name: here", "name: there", "1  name", id="name and file"),
    # criteria
    pytest.param(GPT, "median step_time", "median step_tiem", "16  acceptance[0]", id="metric in a criterion"),
    pytest.param(TEAM, "step_time:", "step_tiem:", "4  training.weights.step_tiem", id="metric in weights"),
    pytest.param(LIMITS, "step_time:", "step_tiem:", "17  drift.metrics.step_tiem", id="metric in thresholds"),
    pytest.param(GPT, "median step_time", "p42 step_time", "16  acceptance[0]", id="statistic"),
    pytest.param(GPT, "in steady", "in stedy", "16  acceptance[0]", id="phase in a criterion"),
    pytest.param(GPT, "<= 500ms", "<= 500", "16  acceptance[0]", id="limit without unit"),
    pytest.param(GPT, "median step_time <= 500ms in steady", "be fast", "16  acceptance[0]", id="prose"),
    pytest.param(GPT, "<= 500ms in", "within 10% of baselin in", "16  acceptance[0]", id="reference"),
    pytest.param(GPT, "<= 500ms in", "within 110% of baseline in", "16  acceptance[0]", id="within more than all"),
    pytest.param(
        GPT, "step_time <= 500ms in", "straggler_share within 10% of baseline in", "16  acceptance[0]", id="within without direction"
    ),
    pytest.param(GPT, "median step_time <= 500ms in", "cost_per_run within 10% of baseline in", "16  acceptance[0]", id="within a cost"),
    pytest.param(GPT, "<= 500ms in", "within 10% of provider mars in", "16  acceptance[0]", id="provider in a criterion"),
    pytest.param(
        TEAM, "  weights", "  gates: [step_time within 10% of baseline in steady]\n  weights", "4  training.gates[0]", id="relative gate"
    ),
    pytest.param(CHAT, "<= 900ms", "<= 400ms", "18  acceptance[1]", id="p99 below p50"),
    pytest.param(CHAT, "900ms in steady", "900ms in burst", "18  acceptance[1]", id="phase not declared"),
    pytest.param(LIMITS, "page: 5%", "page: 1%", "17  drift.metrics.step_time.page", id="page below warn"),
    pytest.param(LIMITS, "confidence: 95%", "confidence: 100%", "13  drift.confidence", id="certainty"),
    pytest.param(LIMITS, "cv_invalid: 100%", "cv_invalid: 10%", "3  validity.step_time_cv_invalid", id="invalid first"),
    pytest.param(LIMITS, "rate_invalid: 95%", "rate_invalid: 100%", "11  validity.achieved_rate_invalid", id="rate limits"),
    pytest.param(TEAM, "step_time: 0.5", "step_time: 0.6", "4  training.weights", id="weights"),
    pytest.param(TEAM, "  weights", "  current: mars\n  weights", "4  training.current", id="current provider"),
    # phases and other things that must agree
    pytest.param(CHAT, "name: warmup", "name: stress", "13  phases[1]", id="phases out of order"),
    pytest.param(CHAT, "name: warmup", "name: steady", "13  phases[1]", id="phase repeated"),
    pytest.param(CHAT, "name: steady", "name: burst", "1", id="no steady phase"),
    pytest.param(CHAT, "duration: 15s", "duration: 400d", "13  phases[1].duration", id="absurd duration"),
    pytest.param(CHAT, "duration: 15s", "duration: 1ms", "13  phases[1]", id="no request"),
    pytest.param(CHAT, "context: 128", "context: 32", "7  requests", id="context"),
    pytest.param(CHAT, "{constant: 16}", "{constant: 16, uniform: {min: 1, max: 2}}", "9  requests.output_tokens", id="two shapes"),
    pytest.param(CHAT, '["02:00"]', '["02:00", "02:00"]', "15  repeats.slots", id="slot twice"),
    pytest.param(GPT, "at_step: 100", "at_step: 10", "13  fault.at_step", id="fault before a checkpoint"),
    pytest.param(GPT, "precision: fp32", "precision: fp32\nparallelism: {processes: 2}", "10  parallelism.processes", id="processes"),
    pytest.param(GPT, "heads: 4", "heads: 5", "6  model.width", id="heads"),
    pytest.param(HERE, "count: 1", "count: 2", "5  accelerator.count", id="cores and count"),
    pytest.param(HERE, "since: 2026-01-01", "since: 2026-01-01, until: 2025-01-01", "8  prices[0].until", id="price dates"),
    # YAML itself
    pytest.param(HERE, "region: here", "region: [here", "4", id="unclosed list"),
    pytest.param(HERE, "region: here", "\tregion: here", "3", id="tab"),
    pytest.param(HERE, "{kind: cpu, count: 1}", "&a {kind: cpu, count: *a}", "5  accelerator.count", id="alias to itself"),
    pytest.param(HERE, "region: here", "<<: {region: here}", "3", id="merge key"),
    pytest.param(HERE, "region: here", "? [a]\n: b", "3", id="list as a key"),
    pytest.param(HERE, "region: here", "region: !!python/name:os.system x", "3  region", id="python tag"),
]


@pytest.mark.parametrize(("file", "old", "new", "where"), BROKEN)
def test_one_clear_error(broken: Break, file: str, old: str, new: str, where: str) -> None:
    problem = only_problem(broken(file, old, new))
    assert problem.startswith(f"config/{file}:{where}"), problem


def test_each_error_names_what_is_wrong_and_what_is_expected(config: Path, broken: Break, golden: Golden) -> None:
    problems = []
    for case in BROKEN:
        if case.id in ("unclosed list", "tab", "python tag"):  # PyYAML's own wording, which differs with libyaml
            continue
        file, old, new, _ = map(str, case.values)
        declared = (config / file).read_text()
        problems.append(only_problem(broken(file, old, new)))
        (config / file).write_text(declared)
    golden("declarations.broken", "\n".join(problems))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty; expected a declaration"),
        (b"# only a comment\n", "is empty; expected a declaration"),
        (b"\xff\xfe\x00", "cannot be read"),
        (b"- a\n- b\n", "a list is not valid"),
        (b"just text\n", '"just text" is not valid'),
        (b"[" * 5000, "is nested too deeply"),
        (
            b"a: &a [1,1,1,1,1,1,1,1,1]\n" + b"".join(b"%c: &%c [%s]\n" % (c + 1, c + 1, b",".join([b"*%c" % c] * 9)) for c in b"abcdefgh"),
            "unfolds",
        ),
    ],
    ids=["empty", "comment", "no text", "list", "scalar", "nested too deep", "aliases that explode"],
)
def test_a_file_that_is_no_declaration(config: Path, content: bytes, said: str) -> None:
    (config / HERE).write_bytes(content)
    problem = only_problem(config)
    assert problem.startswith(f"config/{HERE}:")
    assert said in problem
    assert "expected" in problem


def test_a_name_declared_twice(config: Path) -> None:
    (config / "providers" / "second.yaml").write_text((config / HERE).read_text())
    problem = only_problem(config)
    assert problem.startswith("config/providers/second.yaml:1  name: ") and "config/providers/here.yaml:1" in problem


def test_a_folder_or_a_file_that_is_not_there(config: Path, tmp_path: Path) -> None:
    assert "nowhere:1 " in only_problem(tmp_path / "nowhere")
    (config / LIMITS).unlink()
    assert only_problem(config).startswith(f"config/{LIMITS}:1 ")


def test_every_problem_of_every_file_at_once_in_order(broken: Break) -> None:
    broken(HERE, "price: 0.02", "price: -1")
    config = broken(CHAT, "rate: 6/s", "rate: 6")
    with pytest.raises(DeclarationError) as raised:
        load(config)
    assert [p.file for p in raised.value.problems] == [f"config/{HERE}", f"config/{CHAT}"]


def test_an_unreadable_provider_is_not_reported_again_as_missing(broken: Break) -> None:
    assert "has no unit" in only_problem(broken(HERE, "memory: 4GiB", "memory: 4"))
