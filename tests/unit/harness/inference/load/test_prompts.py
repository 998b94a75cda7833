from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from tests.fakes.trials import a_trial
from tests.unit.harness.inference.load.test_arrivals import CONTEXT, steady, workload

from plumbline.harness.inference.load.prompts import Prompts, probe_prompts, prompts_of, shipped_tokenizer
from plumbline.harness.inference.load.schedule import probe_load, schedule_of, turn_of
from plumbline.loadclient.prompt import Prompt


def test_every_prompt_is_unique_and_has_the_scheduled_length() -> None:
    declared = a_trial("inference").workload
    schedule = schedule_of(declared)  # type: ignore[arg-type]
    prompts = prompts_of(declared, schedule)  # type: ignore[arg-type]
    texts = [prompts.cold_start.ids, *(p.ids for phase in prompts.by_phase for p in phase)]
    assert len({t.tobytes() for t in texts}) == len(texts) == schedule.n + 1
    for phase, load in zip(prompts.by_phase, schedule.phases, strict=True):
        assert [len(p.ids) for p in phase] == load.input_tokens.tolist()
    every = np.concatenate(texts)
    assert every.dtype == np.int32
    assert 0 <= every.min() <= every.max() < declared.model.vocabulary  # type: ignore[union-attr]


def test_the_hash_follows_the_seed() -> None:
    one, two, other = workload(), workload(), workload(seed=3)
    assert prompts_of(one, schedule_of(one)).sha256 == prompts_of(two, schedule_of(two)).sha256
    assert prompts_of(one, schedule_of(one)).sha256 != prompts_of(other, schedule_of(other)).sha256


def test_a_vocabulary_that_cannot_give_unique_prompts_is_refused() -> None:
    crowded = workload(steady({"constant": {"rate": "1000/s"}}, "5s"), input_tokens={"constant": 1})
    with pytest.raises(ValueError, match=r"^requests.input_tokens: .*\b2048 "):
        prompts_of(crowded, schedule_of(crowded))


def flat(prompts: Prompts) -> list[Prompt]:
    return [prompts.cold_start, *(prompt for phase in prompts.by_phase for prompt in phase)]


def distinct(prompts: Iterable[Prompt]) -> int:
    return len({prompt.ids.tobytes() for prompt in prompts})


@pytest.mark.parametrize("text", [False, True])
def test_shared_prefixes_are_spread_evenly_and_what_follows_is_unique(text: bool) -> None:
    declared = workload(
        steady({"constant": {"rate": "30/s"}}, "2s"),
        shared_prefix={"tokens": 12, "groups": 3},
        input_tokens={"uniform": {"min": 13, "max": 20}},
        text=text,
    )
    prompts = prompts_of(declared, schedule_of(declared))
    assert [len(prefix.ids) for prefix in prompts.prefixes] == [12, 12, 12]
    assert distinct(prompts.prefixes) == 3
    begins = Counter(prompt.ids[:12].tobytes() for prompt in prompts.by_phase[0])
    assert begins == {prefix.ids.tobytes(): 20 for prefix in prompts.prefixes}
    assert distinct(flat(prompts)) == 61
    order = [[p.ids.tobytes() for p in prompts.prefixes].index(prompt.ids[:12].tobytes()) for prompt in prompts.by_phase[0]]
    assert order != sorted(order) and order[:6] != [0, 1, 2, 0, 1, 2]
    assert prompts.cold_start.ids[:12].tobytes() not in begins, "the cold start must not warm a cache for the load"


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("prefix", [None, {"tokens": 4}])
@pytest.mark.parametrize("arrivals", [{"constant": {"rate": "5/s"}}, {"closed": {"users": 4, "requests": 24}}])
def test_a_turn_begins_with_all_that_was_said(arrivals: dict[str, Any], prefix: dict[str, int] | None, text: bool) -> None:
    declared = workload(
        steady(arrivals, "2s"),
        turns={"count": 3, "think": "1s"},
        input_tokens={"uniform": {"min": 5, "max": 12}},
        output_tokens={"uniform": {"min": 3, "max": 9}},
        shared_prefix=prefix,
        text=text,
    )
    schedule = schedule_of(declared)
    load, prompts = schedule.phases[0], prompts_of(declared, schedule).by_phase[0]
    assert [len(prompt.ids) for prompt in prompts] == load.input_tokens.tolist()
    assert distinct(prompts) == load.n
    turns = turn_of(load, declared.requests)
    assert sorted(set(turns.tolist())) == [0, 1, 2]
    for i in np.flatnonzero(turns):
        before = prompts[load.after[i]]
        assert np.array_equal(prompts[i].ids[: len(before.ids)], before.ids)
        assert len(prompts[i].ids) > len(before.ids) + load.output_tokens[load.after[i]]
        if text:
            assert (prompts[i].text or "").startswith(before.text or "-")
    if text:
        assert [shipped_tokenizer().encode(prompt.text or "").ids for prompt in prompts] == [prompt.ids.tolist() for prompt in prompts]


def test_prompts_of_a_search_are_drawn_for_each_probe() -> None:
    declared = workload(
        [
            *steady({"constant": {"rate": "4/s"}}, "1s"),
            {"name": "sweep", "search": {"goodput": "99%", "between": ["2/s", "64/s"], "probe": "5s"}},
            {"name": "burst", "arrivals": {"constant": {"rate": "4/s"}}, "duration": "1s"},
        ],
        shared_prefix={"tokens": 4},
        input_tokens={"constant": 9},
    )
    prompts = prompts_of(declared, schedule_of(declared))
    assert [len(phase) for phase in prompts.by_phase] == [4, 4], "a search has no prompts in the schedule"
    probes = [probe_prompts(declared, probe_load(declared, 1, k, 20.0, 10.0), 1, k) for k in (0, 0, 1)]
    assert [p.ids.tolist() for p in probes[0]] == [p.ids.tolist() for p in probes[1]]
    assert distinct([*flat(prompts), *probes[0], *probes[2]]) == 9 + len(probes[0]) + len(probes[2])
    assert {p.ids[:4].tobytes() for p in probes[2]} == {prompts.prefixes[0].ids.tobytes()}


def test_longer_prompts_of_a_growing_context_do_not_repeat_the_shorter_ones() -> None:
    """What a server had computed for one length it could otherwise keep for the next."""
    declared = workload([*steady({"constant": {"rate": "4/s"}}, "1s"), {**CONTEXT, "requests": 8}])
    _, short, long = prompts_of(declared, schedule_of(declared)).by_phase
    assert ([len(p.ids) for p in short], [len(p.ids) for p in long]) == ([16] * 8, [64] * 8)
    assert not {p.ids[:4].tobytes() for p in short} & {p.ids[:4].tobytes() for p in long}


def test_scarce_prompts_are_drawn_again_until_they_are_unique() -> None:
    scarce = workload(steady({"constant": {"rate": "1000/s"}}, "1s"), input_tokens={"constant": 1})
    assert distinct(prompts_of(scarce, schedule_of(scarce)).by_phase[0]) == 1000


def test_a_hundred_thousand_prompts_are_made_in_seconds() -> None:
    many = workload(steady({"constant": {"rate": "10000/s"}}, "10s"))
    schedule = schedule_of(many)
    began = time.process_time()
    assert len(prompts_of(many, schedule).by_phase[0]) == 100_000
    assert time.process_time() - began < 30
