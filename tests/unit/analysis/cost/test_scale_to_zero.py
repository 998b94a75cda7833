"""The billed time of an endpoint that scales to zero, against the simulation of events of perf/serverless.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from plumbline.analysis.cost.scale_to_zero import MONTH_S, ScaleToZero

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "perf"))

import serverless

ARRIVALS = 30_000


@pytest.mark.parametrize("volume", serverless.VOLUMES.values(), ids=serverless.VOLUMES)
@pytest.mark.parametrize("place", serverless.PLACES.values(), ids=serverless.PLACES)
def test_the_formula_bills_what_events_bill(place: ScaleToZero, volume: float) -> None:
    simulated = serverless.billed_share(place, volume, "constant", ARRIVALS, 7) * MONTH_S / 3600
    assert place.hours(volume) == pytest.approx(simulated, rel=0.03)


def test_the_simulation_tells_the_share_of_a_batch_from_the_residence() -> None:
    """What 1 / rate bills is far below what is billed: the comparison can fail."""
    low = serverless.VOLUMES["low"]
    share = ScaleToZero(19.0, 1 / 19).hours(low)
    assert serverless.billed_share(ScaleToZero(19.0, 5.0), low, "constant", ARRIVALS, 7) * MONTH_S / 3600 > 90 * share


@pytest.mark.parametrize("wrong", [{"rate": 0.0}, {"residence": 0.0}, {"residence": float("nan")}, {"idle": -1.0}])
def test_no_bill_of_what_is_no_measurement(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected"):
        ScaleToZero(**{"rate": 1.0, "residence": 1.0, **wrong})


def test_more_requests_never_cost_less_and_many_slots_do_not_overflow() -> None:
    place = ScaleToZero(900.0, 20.0, idle=0.001)
    bills = [place.hours(n / 50 * 2000.0 * MONTH_S) for n in range(51)]
    assert bills[0] == 0 and bills == sorted(bills)
