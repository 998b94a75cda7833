from __future__ import annotations

import numpy as np
import pytest

from plumbline.analysis.drift import noise
from plumbline.analysis.drift.effect import estimate_effect
from plumbline.analysis.drift.rank_test import smallest_p


def test_noise_is_the_standard_deviation_of_normal_repeats() -> None:
    rng = np.random.default_rng(1)
    found, df = noise.repeat_noise([{"a": rng.normal(5, 0.03, 1000)}])
    assert found == pytest.approx(0.03, rel=0.1)
    assert df == 999


def test_one_wild_repeat_does_not_move_it_and_slots_are_not_noise() -> None:
    found, _ = noise.repeat_noise([{"a": np.array([1.00, 1.01, 1.02, 1.01, 3.0]), "b": np.array([7.00, 7.01, 7.02])}])
    assert found is not None and found < 0.03


def test_equal_readings_do_not_prove_a_noiseless_machine() -> None:
    assert noise.repeat_noise([{"a": np.array([1.0, 1.0])}]) == (noise.NOISE_FLOOR, 1)


def test_no_pair_of_repeats_no_estimate() -> None:
    assert noise.repeat_noise([{"a": np.array([1.0])}, {"a": np.array([1.1])}]) == (None, 0)


def campaigns(rng: np.random.Generator, n: int, tau: float, drift: float = 0.0) -> list[dict[str, np.ndarray]]:
    return [{"a": rng.normal(0, tau) + drift * i + rng.normal(0, 0.01, 5)} for i in range(n)]


def test_campaign_spread_is_learned_from_the_campaigns_that_came_since() -> None:
    rng = np.random.default_rng(2)
    known = noise.campaign_spread(campaigns(rng, 1, 0.05), campaigns(rng, 60, 0.05), 0.01, None)
    assert known.sd == pytest.approx(0.05 * 2**0.5, rel=0.25)
    assert known.beyond(0.05) == pytest.approx(2 * known.sd, rel=0.05)


def test_a_ramp_and_what_repeats_explain_are_no_spread() -> None:
    rng = np.random.default_rng(2)
    assert noise.campaign_spread(campaigns(rng, 1, 0.0), campaigns(rng, 30, 0.0, drift=0.004), 0.01, None).sd < 0.008


def test_one_campaign_is_worth_what_is_usual_and_nothing_where_nothing_is() -> None:
    rng = np.random.default_rng(2)
    assert noise.campaign_spread(campaigns(rng, 1, 0.0), [], 0.01, 0.004) == noise.CampaignSpread(
        pytest.approx(0.004 * 2**0.5), noise.PRIOR_DF
    )
    unknown = noise.campaign_spread(campaigns(rng, 1, 0.0), [], 0.01, None)
    assert (unknown.df, unknown.beyond(0.05)) == (0, 0)


def test_more_accepted_campaigns_make_the_level_surer() -> None:
    one, four = (noise.campaign_spread([{"a": np.array([1.0])}] * n, [], None, 0.01).sd for n in (1, 4))
    assert four < one


def test_minimum_detectable_shrinks_with_repeats_and_says_when_none_is() -> None:
    few, many = (noise.minimum_detectable_effect(0.01, 2 * n - 2, [(n, n)], 0.05) for n in (5, 20))
    assert few is not None and many is not None and many < few < 0.05
    assert noise.minimum_detectable_effect(0.01, 2, [(2, 2)], 0.05) is None
    assert noise.minimum_detectable_effect(None, 0, [(9, 9)], 0.05) is None


def test_minimum_detectable_is_found_four_times_in_five() -> None:
    from plumbline.analysis.drift.rank_test import two_sided_p

    rng = np.random.default_rng(3)
    shift = noise.minimum_detectable_effect(0.01, 14, [(8, 8)], 0.05)
    assert shift is not None
    hits = sum(two_sided_p([(rng.normal(0, 0.01, 8), rng.normal(shift, 0.01, 8))]) <= 0.05 for _ in range(400))
    assert 0.72 <= hits / 400 <= 0.90


def test_repeats_to_see_prefers_the_candidate_and_falls_back_to_both() -> None:
    alone = noise.repeats_needed(0.1, 0.01, 2, [(2, 2)], 0.05)
    assert alone is not None and not alone[1]
    assert smallest_p([(2, 2 + alone[0])]) <= 0.05 < smallest_p([(2, 1 + alone[0])])
    # Two baseline repeats of 3 % noise cannot settle 3 % whatever the candidate does; both sides together can.
    both = noise.repeats_needed(0.03, 0.03, 2, [(2, 2)], 0.05)
    assert both is not None and both[1]
    assert noise.repeats_needed(0.001, 0.2, 2, [(2, 2)], 0.05) is None
    assert noise.repeats_needed(0.1, None, 0, [(1, 1)], 0.05) is None


def test_where_gap_and_interval_contradict_the_interval_says_how_many_repeats_are_needed() -> None:
    """One slow node of four: the gap between repeats of one kind promised that one more repeat would settle it."""
    quiet, kinds = [1.000, 1.002, 0.999, 1.001, 1.000, 0.998], [1.000, 1.119, 1.001, 1.121, 0.999, 1.120]
    plain = estimate_effect("step_time", [{"02:00": quiet}], {"02:00": [1.06 * v for v in quiet]}, 0.95, warn=0.02)
    mixed = estimate_effect("step_time", [{"02:00": quiet}], {"02:00": kinds}, 0.95, warn=0.02)
    assert plain.noise is not None and plain.noise < 0.003, "a plain step leaves the noise alone"
    assert mixed.noise is not None and mixed.noise > 0.03
    needed = noise.repeats_needed(0.058, mixed.noise, mixed.noise_df, mixed.sizes, 0.05)
    assert needed is None or needed[0] > 5


def test_normal_repeats_keep_the_noise_of_their_gaps() -> None:
    rng = np.random.default_rng(3)
    kept = 0
    for _ in range(300):
        before, after = rng.normal(0, 0.01, 6), rng.normal(0, 0.01, 6)
        found, _ = noise.repeat_noise([{"02:00": before}, {"02:00": after}])
        effect = estimate_effect("step_time", [{"02:00": list(np.exp(before))}], {"02:00": list(np.exp(after))}, 0.95)
        kept += effect.noise == pytest.approx(found)
    assert kept >= 294
