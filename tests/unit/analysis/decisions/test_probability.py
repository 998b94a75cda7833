"""The probability of being first: what makes it surer, what keeps it from being sure, and when there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.data.decision_trials import preference, repeats
from tests.data.plain_rows import plain_row
from tests.golden import Golden

from plumbline.analysis.decisions.decide import decide
from plumbline.analysis.decisions.decision import Decision
from plumbline.analysis.trial_sample import TrialSample
from plumbline.words.decisions import note_text

LATENCY = preference({"time_to_first_token": 1.0})
SLOTS = ("02:00", "10:00", "18:00")


def timed(name: str, *values: float, slots: tuple[str, ...] = SLOTS) -> list[TrialSample]:
    return repeats(name, *({"time_to_first_token": v} for v in values), slots=slots)


def chance(*trials: TrialSample, provider: str = "a") -> float:
    found = next(r.probability_first for r in decide("t", "inference", LATENCY, trials).ranking if r.provider == provider)
    assert found is not None
    return found


def test_a_wider_lead_and_more_repeats_are_surer() -> None:
    def against(other: float, times: int) -> float:
        scatter = (0.98, 1.0, 1.02) * times
        return chance(*timed("a", *(0.1 * s for s in scatter)), *timed("b", *(other * s for s in scatter)))

    assert 0.5 < against(0.101, 1) < against(0.104, 1) < against(0.12, 1) < 1
    assert against(0.103, 1) < against(0.103, 3)


def test_what_slots_share_is_no_independent_evidence() -> None:
    """The same nine numbers of each: where those of a slot are alike they tell of three slots; dealt out to all slots, of nine trials."""
    levels, repeats_of = (0.98, 1.0, 1.02), (0.994, 1.0, 1.006)
    alike = [level * own for own in repeats_of for level in levels]
    dealt = [levels[(i + i // 3) % 3] * repeats_of[i // 3] for i in range(9)]
    assert sorted(alike) == sorted(dealt)

    def first(shape: list[float]) -> float:
        return chance(*timed("a", *(0.1 * v for v in shape)), *timed("b", *(0.102 * v for v in shape)))

    assert first(alike) < first(dealt) - 0.005


def test_near_equals_are_not_told_apart_by_luck_and_a_field_that_is_wide_lets_them_be() -> None:
    """b and c beside a that lies far off or near: what usually lies between providers is learned from all of them."""

    def first_of_three(far: float) -> float:
        noisy = (0.96, 1.0, 1.04)
        fields = {"a": 0.1, "b": 0.102, "c": far}
        return chance(*(t for name, at in fields.items() for t in timed(name, *(at * s for s in noisy))))

    assert first_of_three(0.101) < first_of_three(0.5)


def test_one_slot_leaves_more_open_than_three_and_says_so(golden: Golden) -> None:
    scatter = (0.98, 1.0, 1.02) * 2
    values = {"a": [0.1 * s for s in scatter], "b": [0.104 * s for s in scatter]}

    def decided(slots: tuple[str, ...], other: tuple[str, ...]) -> Decision:
        return decide("t", "inference", LATENCY, [*timed("a", *values["a"], slots=slots), *timed("b", *values["b"], slots=other)])

    three, one, mixed = decided(SLOTS[:2], SLOTS[:2]), decided(SLOTS[:1], SLOTS[:1]), decided(SLOTS[:2], SLOTS[:1])
    assert (one.ranking[0].probability_first or 0) < (three.ranking[0].probability_first or 0)
    golden("analysis.one_slot", f"{note_text(one.note)}\n{note_text(mixed.note)}")
    assert note_text(three.note) == ""


def test_a_single_repeat_gives_no_probability_and_the_reason() -> None:
    found = decide("t", "inference", LATENCY, [*timed("a", 0.1), *timed("b", 0.2, 0.21, 0.22)])
    assert [r.probability_first for r in found.ranking] == [None, None]
    assert {r.provider: r.n for r in found.ranking} == {"a": 1, "b": 3} and note_text(found.note).startswith("a has ")


def test_unequal_campaigns_and_missing_numbers_are_reckoned_with() -> None:
    wanted = preference({"time_to_first_token": 0.5, "output_token_throughput": 0.5}, "error_rate <= 1% in steady")
    full = {"time_to_first_token": 0.1, "output_token_throughput": 100.0, "error_rate": 0.0}
    a = repeats("a", *({**full, "time_to_first_token": 0.1 * s} for s in (0.99, 1.0, 1.01) * 3), slots=SLOTS)
    b = repeats("b", full | {"time_to_first_token": 0.105}, full | {"time_to_first_token": 0.107}, full)
    lacking = replace(b[2], metrics=tuple(m for m in b[2].metrics if m.metric != "time_to_first_token"))
    found = decide("t", "inference", wanted, [*a, *b[:2], lacking])
    assert {r.provider: r.n for r in found.ranking} == {"a": 9, "b": 2}
    assert 0.7 < (found.ranking[0].probability_first or 0) < 1
    assert sum(r.probability_first or 0 for r in found.ranking) == pytest.approx(1.0)


def test_a_gate_that_may_be_missed_takes_its_share() -> None:
    def first(limit: str) -> float:
        trials = [*timed("a", 0.098, 0.1, 0.102), *timed("b", 0.097, 0.0999, 0.103)]
        gated = preference({"time_to_first_token": 1.0}, f"time_to_first_token <= {limit} in steady")
        found = {r.provider: r.probability_first or 0.0 for r in decide("t", "inference", gated, trials).ranking}
        return sum(found.values())

    assert first("500ms") == pytest.approx(1.0)
    assert 0.5 < first("101ms") < 0.95  # both gates may really be closed: then nobody is first


def test_equal_numbers_share_the_first_place() -> None:
    assert chance(*timed("a", 0.1, 0.1, 0.1), *timed("b", 0.1, 0.1, 0.1)) == pytest.approx(0.5, abs=0.05)
    # 0.1 + 0.2 is not 0.3 to the last bit, and nobody is first by that.
    assert chance(*timed("a", 0.3, 0.3, 0.3), *timed("b", *[0.1 + 0.2] * 3)) == pytest.approx(0.5)


def test_repeats_that_stop_on_the_same_step_of_a_search_are_not_sure_of_its_bracket() -> None:
    """Every repeat of a found 110/s and every one of b 104/s, each between that and a rate a fifth higher: the brackets overlap."""
    rate = preference({"highest_sustained_rate": 1.0})

    def swept(name: str, held: float, failed: float) -> list[TrialSample]:
        number = plain_row("sweep", "highest_sustained_rate", "value", held, "1/s", "higher_is_better", 8, held, failed)
        return [replace(t, metrics=(number,)) for t in repeats(name, *({"time_to_first_token": 0.1},) * 3, slots=SLOTS)]

    def first(width: float, other: float = 104.0) -> float:
        trials = [*swept("a", 110.0, 110.0 * width), *swept("b", other, other * width)]
        ranking = decide("t", "inference", rate, trials).ranking
        return next(r.probability_first or 0.0 for r in ranking if r.provider == "a")

    assert first(1.0001) > 0.99
    # Uniform in ln 1.2 each, shifted by ln(110/104): P = 1 - (1 - 0.0561/0.1823)² / 2 = 0.76; less, since providers usually differ little.
    assert 0.6 < first(1.2) < 0.76
    assert first(1.2, other=70.0) > 0.99, "brackets that do not overlap leave no doubt"
