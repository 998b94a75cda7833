"""A broken declaration gives exactly one error: file, line, field, and what was expected instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("file", "old", "new", "where", "said"),
    [
        # keys
        pytest.param(
            GPT, "precision:", "precison:", "9  precison", "unknown key; did you mean precision? expected keys name", id="misspelt key"
        ),
        pytest.param(
            HERE, "region: here", "region: here\nmood: good", "4  mood", "unknown key; expected keys name, enabled", id="unknown key"
        ),
        pytest.param(HERE, "region: here\n", "", "1  region", "is missing; expected text (lower-case", id="missing key"),
        pytest.param(
            HERE, "region: here", "region: here\nregion: there", "4  region", '"region" stands twice; expected it once', id="key twice"
        ),
        pytest.param(HERE, "{kind: local,", "{", "6  launcher.kind", "is missing; expected one of", id="launcher without kind"),
        # units and numbers
        pytest.param(
            CHAT,
            "rate: 6/s",
            "rate: 6",
            "13  phases[1].arrivals.poisson.rate",
            '"6" has no unit; expected a rate such as 8/s',
            id="no unit",
        ),
        pytest.param(
            CHAT, "rate: 6/s", "rate: 6Hz", "13  phases[1].arrivals.poisson.rate", 'the unit "Hz"; expected a rate', id="bad unit"
        ),
        pytest.param(
            HERE, "memory: 4GiB", "memory: big", "6  launcher.memory", '"big" is not a number with a unit; expected a size', id="no number"
        ),
        pytest.param(
            HERE, "price: 0.02", "price: -0.02", "8  prices[0].price", "must be at least 0; expected a price", id="negative price"
        ),
        pytest.param(
            HERE, "launch_success: 99%", "launch_success: 990%", "9  sla.launch_success", "too much; expected a percentage", id="over 100%"
        ),
        # types
        pytest.param(
            GPT, "version: 1", 'version: "1"', "3  version", '"1" is not valid (input should be a valid integer)', id="text for a number"
        ),
        pytest.param(HERE, "cpus: [0]", "cpus: 0", "6  launcher.cpus", "expected a list, with at least 1 entry", id="number for a list"),
        pytest.param(HERE, "cpus: [0]", "cpus: [-1]", "6  launcher.cpus[0]", "expected an integer, at least 0", id="negative core"),
        pytest.param(HERE, "name: here", "name: Here There", "1  name", "expected text (lower-case letters", id="bad name"),
        pytest.param(HERE, "2026-01-01", "2026-13-01", "8  prices[0].since", "expected a date such as", id="no such month"),
        pytest.param(CHAT, '["02:00"]', '["25:00"]', "15  repeats.slots[0]", 'such as "02:00"', id="no such hour"),
        pytest.param(
            HERE, "{kind: local,", "{kind: slurm,", "6  launcher.kind", '"slurm" is not known; expected one of local', id="no launcher"
        ),
        pytest.param(
            HERE,
            "region: here",
            "region: here\nwatch: {debounce: 1}",
            "4  watch.debounce",
            "has no unit; expected a duration",
            id="debounce",
        ),
        pytest.param(
            HERE, "region: here", "region: here\nwatch: {workloads: []}", "4  watch.workloads", "at least 1 entry", id="nothing to rerun"
        ),
        pytest.param(HERE, "region: here", "region: here\nworkloads: []", "4  workloads", "at least 1 entry", id="nothing monthly"),
        pytest.param(
            HERE,
            "region: here",
            "region: here\nworkloads: [chat, gtp]",
            "4  workloads[1]",
            'no workload is called "gtp"; expected one of gpt',
            id="unknown monthly workload",
        ),
        # references
        pytest.param(
            HERE,
            "region: here",
            "region: here\nwatch: {workloads: [chat, gtp]}",
            "4  watch.workloads[1]",
            'no workload is called "gtp"; expected one of gpt',
            id="no workload to rerun",
        ),
        pytest.param(
            GPT,
            "providers: [here]",
            "providers: [mars]",
            "5  providers[0]",
            'no provider is called "mars"; expected one of here',
            id="provider",
        ),
        pytest.param(
            TEAM, "[gpt]", "[chat]", "3  training.workloads[0]", 'no training workload is called "chat"; expected one of gpt', id="workload"
        ),
        pytest.param(HERE, "name: here", "name: there", "1  name", 'differs from the file name; expected "here"', id="name and file"),
        # criteria
        pytest.param(
            GPT,
            "median step_time",
            "median step_tiem",
            "16  acceptance[0]",
            'unknown metric "step_tiem"; expected',
            id="metric in a criterion",
        ),
        pytest.param(
            TEAM, "step_time:", "step_tiem:", "4  training.weights.step_tiem", 'unknown metric "step_tiem"', id="metric in weights"
        ),
        pytest.param(
            LIMITS, "step_time:", "step_tiem:", "17  drift.metrics.step_tiem", 'unknown metric "step_tiem"', id="metric in thresholds"
        ),
        pytest.param(GPT, "median step_time", "p42 step_time", "16  acceptance[0]", 'unknown statistic "p42"', id="statistic"),
        pytest.param(GPT, "in steady", "in stedy", "16  acceptance[0]", 'unknown phase "stedy"', id="phase in a criterion"),
        pytest.param(
            GPT, "<= 500ms", "<= 500", "16  acceptance[0]", '"500" has no unit; expected a duration such as 900ms', id="limit without unit"
        ),
        pytest.param(
            GPT,
            "median step_time <= 500ms in steady",
            "be fast",
            "16  acceptance[0]",
            '"be fast" is not a criterion; expected [STAT',
            id="prose",
        ),
        pytest.param(
            CHAT, "<= 900ms", "<= 400ms", "18  acceptance[1]", "expected the limit of p99 at or above that of p50", id="p99 below p50"
        ),
        pytest.param(
            CHAT, "900ms in steady", "900ms in burst", "18  acceptance[1]", "names a phase that is not declared", id="phase not declared"
        ),
        pytest.param(
            LIMITS, "page: 5%", "page: 1%", "17  drift.metrics.step_time.page", "is below warn 0.02; expected page at", id="page below warn"
        ),
        pytest.param(LIMITS, "confidence: 95%", "confidence: 100%", "13  drift.confidence", "leaves nothing to decide", id="certainty"),
        pytest.param(
            LIMITS,
            "cv_invalid: 100%",
            "cv_invalid: 10%",
            "3  validity.step_time_cv_invalid",
            "expected invalid at or above degraded",
            id="invalid first",
        ),
        pytest.param(
            LIMITS,
            "rate_invalid: 95%",
            "rate_invalid: 100%",
            "11  validity.achieved_rate_invalid",
            "expected invalid at or below",
            id="rate limits",
        ),
        pytest.param(TEAM, "step_time: 0.5", "step_time: 0.6", "4  training.weights", "weights sum to 1.1; expected 1", id="weights"),
        # phases and other things that must agree
        pytest.param(
            CHAT,
            "name: warmup",
            "name: stress",
            "13  phases[1]",
            '"steady" comes after "stress"; expected each phase',
            id="phases out of order",
        ),
        pytest.param(
            CHAT, "name: warmup", "name: steady", "13  phases[1]", '"steady" comes after "steady"; expected each phase', id="phase repeated"
        ),
        pytest.param(CHAT, "name: steady", "name: burst", "1", "no steady phase; expected one", id="no steady phase"),
        pytest.param(
            CHAT, "duration: 15s", "duration: 400d", "13  phases[1].duration", "over a day; expected a duration", id="absurd duration"
        ),
        pytest.param(
            CHAT, "duration: 15s", "duration: 1ms", "13  phases[1]", "the arrivals ask for 0.006 requests in 0.001s", id="no request"
        ),
        pytest.param(
            CHAT, "context: 128", "context: 32", "7  requests", "64 tokens long (input + output), over model.context 32", id="context"
        ),
        pytest.param(
            CHAT,
            "{constant: 16}",
            "{constant: 16, uniform: {min: 1, max: 2}}",
            "9  requests.output_tokens",
            "exactly one of",
            id="two shapes",
        ),
        pytest.param(CHAT, '["02:00"]', '["02:00", "02:00"]', "15  repeats.slots", "names a time twice", id="slot twice"),
        pytest.param(GPT, "at_step: 100", "at_step: 10", "13  fault.at_step", "10 is outside 40…129", id="fault before a checkpoint"),
        pytest.param(
            GPT,
            "precision: fp32",
            "precision: fp32\nparallelism: {processes: 2}",
            "10  parallelism.processes",
            "2 is more than the 1 cpu that needs.count asks for; expected needs.count: 2 or more",
            id="processes",
        ),
        pytest.param(GPT, "heads: 4", "heads: 5", "6  model.width", "128 is not a multiple of heads 5", id="heads"),
        pytest.param(HERE, "count: 1", "count: 2", "5  accelerator.count", "is 2 but launcher.cpus lists 1", id="cores and count"),
        pytest.param(
            HERE, "since: 2026-01-01", "since: 2026-01-01, until: 2025-01-01", "8  prices[0].until", "is not after since", id="price dates"
        ),
        # YAML itself
        pytest.param(HERE, "region: here", "region: [here", "4", "is not YAML", id="unclosed list"),
        pytest.param(HERE, "region: here", "\tregion: here", "3", "a tab character", id="tab"),
        pytest.param(
            HERE, "{kind: cpu, count: 1}", "&a {kind: cpu, count: *a}", "5  accelerator.count", "refers to itself", id="alias to itself"
        ),
        pytest.param(HERE, "region: here", "<<: {region: here}", "3", "merge keys (<<) are not read; expected the keys", id="merge key"),
        pytest.param(HERE, "region: here", "? [a]\n: b", "3", "a key that is not plain text; expected", id="list as a key"),
        pytest.param(
            HERE, "region: here", "region: !!python/name:os.system x", "3  region", "could not determine a constructor", id="python tag"
        ),
    ],
)
def test_one_clear_error(broken: Break, file: str, old: str, new: str, where: str, said: str) -> None:
    problem = only_problem(broken(file, old, new))
    assert problem.startswith(f"config/{file}:{where}"), problem
    assert said in problem
    assert "expected" in problem or "would" in problem


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty; expected a declaration"),
        (b"# only a comment\n", "is empty; expected a declaration"),
        (b"\xff\xfe\x00", "cannot be read"),
        (b"- a\n- b\n", "a list is not valid"),
        (b"just text\n", '"just text" is not valid'),
        (b"[" * 5000, "is not YAML"),
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
    assert only_problem(config) == (
        'config/providers/second.yaml:1  name: "here" is already declared in config/providers/here.yaml:1; expected a name of its own'
    )


def test_a_folder_or_a_file_that_is_not_there(config: Path, tmp_path: Path) -> None:
    assert "is not a folder; expected providers/" in only_problem(tmp_path / "nowhere")
    (config / LIMITS).unlink()
    assert only_problem(config).startswith("config/thresholds.yaml:1  cannot be read")


def test_every_problem_of_every_file_at_once_in_order(broken: Break) -> None:
    broken(HERE, "price: 0.02", "price: -1")
    config = broken(CHAT, "rate: 6/s", "rate: 6")
    with pytest.raises(DeclarationError) as raised:
        load(config)
    assert [p.file for p in raised.value.problems] == [f"config/{HERE}", f"config/{CHAT}"]


def test_an_unreadable_provider_is_not_reported_again_as_missing(broken: Break) -> None:
    assert "has no unit" in only_problem(broken(HERE, "memory: 4GiB", "memory: 4"))
