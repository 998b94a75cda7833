"""One's own model against a hosted one: by hand, and that both costs are the same where it says so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.golden import Golden

from plumbline.analysis.cost.hosted_forecast import SelfHosted, even_utilisation, even_volume
from plumbline.words.costs import break_even_text, fleet_text

REQUESTS, HOSTED = 50_000_000.0, 0.0005
# 6,800 USD for 50 million requests, every paid hour used: 3.4 USD/h at 6.9444… requests a second.
OWN = SelfHosted(price=3.4, rate=25_000 / 3600)
WITH_PEOPLE = SelfHosted(price=3.4, rate=25_000 / 3600, fixed=15_000.0)


def test_fifty_million_requests_a_month() -> None:
    assert REQUESTS * HOSTED == 25_000.00
    assert round(OWN.monthly(REQUESTS, 1.0), 2) == 6_800.00
    assert round(WITH_PEOPLE.monthly(REQUESTS, 1.0), 2) == 21_800.00


def test_break_even_by_hand() -> None:
    # 15,000 / (0.0005 − 0.000136) = 41,208,791.2 requests; 6,800 / (25,000 − 15,000) = 68 %; without people 6,800 / 25,000 = 27.2 %.
    volume = even_volume(WITH_PEOPLE, HOSTED, 1.0)
    assert volume.value == pytest.approx(41_208_791.2, abs=0.1)
    assert even_utilisation(WITH_PEOPLE, HOSTED, REQUESTS).value == pytest.approx(0.68)
    assert even_utilisation(OWN, HOSTED, REQUESTS).value == pytest.approx(0.272)


def test_nothing_fixed_is_cheaper_from_the_first_on() -> None:
    assert even_volume(OWN, HOSTED, 1.0).value == 0.0


def test_an_instance_that_always_runs_must_be_earned_first() -> None:
    # 1 USD/h for 730.5 h; hosted 0.001 USD: 730,500 requests, of which the instance does 36 million a month.
    own = SelfHosted(price=1.0, rate=13.7, always_on=1)
    assert even_volume(own, 0.001, 1.0).value == pytest.approx(730_500.0)
    # With people it is more than one instance does at 1 % utilisation, 360,282.6 requests or 900.7065 USD. Each whole instance earns
    # 900.7065 − 730.5 = 170.2065 USD; the last that does not pay from its first request on is number ⌈(10,000 + 900.7065) / 170.2065⌉ − 1 = 64:
    # (64 · 730.5 + 10,000) / 0.0025 = 22,700,800 requests.
    busy = SelfHosted(price=1.0, rate=13.7, always_on=1, fixed=10_000.0)
    found = even_volume(busy, 0.0025, 0.01)
    assert found.value == pytest.approx(22_700_800.0)
    assert busy.monthly(22_700_800.0, 0.01) == pytest.approx(22_700_800.0 * 0.0025)


def test_a_part_of_an_instance_cannot_be_bought() -> None:
    # 730.5 h at 10 requests a second are 26,298,000 requests; 1.2 times that needs two instances of 2 USD/h where they are paid by the month:
    # 2 · 730.5 · 2 = 2,922 USD with 0.8 of an instance to spare; 1.2 · 730.5 · 2 = 1,753.20 USD where they are held by the hour.
    needs = 1.2 * 26_298_000
    whole = SelfHosted(price=2.0, rate=10.0, whole=True)
    assert round(whole.monthly(needs, 1.0), 2) == 2922.00
    assert fleet_text(whole.fleet(needs, 1.0)) == "1.20 instances needed, 2 bought, 0.8 slack"
    assert round(SelfHosted(price=2.0, rate=10.0).monthly(needs, 1.0), 2) == 1753.20
    # A budget of 2,300 USD buys one instance, which serves 20,000,000 requests at 20 / 26.298 = 76.1 % utilisation and no less.
    assert even_utilisation(whole, 0.000115, 20_000_000.0).value == pytest.approx(20 / 26.298)


ALWAYS_ON = SelfHosted(price=3.4, rate=7.0, always_on=2)


@pytest.mark.parametrize(("own", "volume"), [(WITH_PEOPLE, 20_000_000.0), (WITH_PEOPLE, 40_000_000.0), (ALWAYS_ON, 1_000_000.0)])
def test_no_utilisation_is_high_enough(own: SelfHosted, volume: float) -> None:
    assert even_utilisation(own, HOSTED, volume).value is None


def test_no_volume_is_large_enough() -> None:
    assert even_volume(WITH_PEOPLE, HOSTED, 0.25).value is None  # 0.000544 USD each


def test_each_answer_is_a_sentence(golden: Golden) -> None:
    points = (
        even_volume(WITH_PEOPLE, HOSTED, 1.0),
        even_volume(OWN, HOSTED, 1.0),
        even_volume(WITH_PEOPLE, HOSTED, 0.25),
        even_utilisation(WITH_PEOPLE, HOSTED, REQUESTS),
        even_utilisation(WITH_PEOPLE, HOSTED, 20_000_000.0),
        even_utilisation(ALWAYS_ON, HOSTED, 1_000_000.0),
        even_utilisation(WITH_PEOPLE, HOSTED, 40_000_000.0),
    )
    golden("analysis.break_even", "\n".join(break_even_text(point) for point in points))


@pytest.mark.parametrize("wrong", [{"rate": 0.0}, {"price": -1.0}, {"failure_rate": 1.0}])
def test_what_cannot_be_is_an_error(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SelfHosted(**{"price": 1.0, "rate": 1.0, **wrong})  # type: ignore[arg-type]


@given(
    st.builds(
        SelfHosted,
        price=st.floats(0.1, 100),
        rate=st.floats(0.1, 1000),
        failure_rate=st.floats(0, 0.5),
        fixed=st.just(0.0) | st.floats(0.01, 1e5),
        always_on=st.integers(0, 3),
        whole=st.booleans(),
    ),
    st.floats(1e-6, 0.01),
    st.floats(0.05, 1.0),
    st.floats(1e4, 1e9),
)
def test_both_cost_the_same_there_and_one_s_own_less_beyond(own: SelfHosted, hosted: float, utilisation: float, volume: float) -> None:
    found = even_volume(own, hosted, utilisation)
    if found.value:
        assert own.monthly(found.value, utilisation) == pytest.approx(found.value * hosted, rel=1e-6)
        assert own.monthly(found.value * 1.5, utilisation) < found.value * 1.5 * hosted * (1 + 1e-9)
    elif found.value is None:
        assert own.monthly(volume, utilisation) >= volume * hosted * (1 - 1e-9)
    share = even_utilisation(own, hosted, volume)
    if share.value is not None:
        paid = own.monthly(volume, share.value)
        month = own.month
        assert (
            paid == pytest.approx(volume * hosted, rel=1e-6)
            if month is None
            else paid <= volume * hosted * (1 + 1e-9) < paid + month * (1 + 1e-6)
        )
    else:
        assert own.monthly(volume, 1.0) >= volume * hosted * (1 - 1e-9)
