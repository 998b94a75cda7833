from __future__ import annotations

import numpy as np
import pytest
from tests.fakes.trials import a_trial
from tests.unit.harness.inference.test_arrivals import steady, workload

from plumbline.harness.inference.arrivals import schedule_of
from plumbline.harness.inference.prompts import prompts_of


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
    with pytest.raises(ValueError, match=r"requests.input_tokens: no unused prompt with 1 tokens of its own from a vocabulary of 2048"):
        prompts_of(crowded, schedule_of(crowded))
