"""Promises in words, the same on every surface."""

from __future__ import annotations

from plumbline.declarations import Criterion
from plumbline.declarations.promises.launch_success import launch_row, launch_success
from plumbline.declarations.promises.provisioning_lead_time import judge_lead_time, lead_time_row
from plumbline.declarations.promises.speed_floors import judge_speed, speed_row
from plumbline.declarations.providers.service_level import ServiceLevel
from plumbline.metrics.pooling import pool_measurements


def test_launches_that_prove_nothing_name_those_still_needed() -> None:
    row = launch_row(launch_success({None: 30, "insufficient_capacity": 1, "image_error": 5}, 0.99))
    assert row.sentence == "launch success: promised 99.0 %, measured 30 of 31 launches (84 % … 99 %)"
    assert row.judged == "promised 99.0 %: not shown, needs 381 launches without a failure, or 563 with 1, 532 more"
    assert launch_row(launch_success({None: 31}, 0.99)).needed == "381 launches without a failure, 350 more"
    assert launch_row(launch_success({None: 31}, 1.0)).needed == "an endless record of launches without a failure"
    assert (launch_row(launch_success({None: 31}, None)).promised, launch_row(launch_success({None: 31}, None)).needed) == ("", "")


def test_a_breach_is_marked_and_unproven_failures_are_shown_apart() -> None:
    row = launch_row(launch_success({None: 20, "insufficient_capacity": 6, "unreachable": 2}, 0.99))
    assert (row.verdict_text, row.mark) == ("broken", "bad")
    assert row.measured == "20 of 26 launches; 2 more failed for a cause that is not proven to be the provider's"


def test_a_lead_time_is_promised_for_a_share_of_launches() -> None:
    sla = ServiceLevel.model_validate({"provisioning_lead_time": "15min", "lead_time_share": "90%"})
    row = lead_time_row(judge_lead_time(pool_measurements("provisioning_lead_time", [("t", 80.0), ("u", 1000.0)], ""), sla))
    assert (row.promised, row.measured) == ("15.0 min for 90 % of launches", "1 of 2 within it, median 9.00 min")
    assert row.needed == "36 launches without a late one, or 54 with 1, 52 more"


def test_a_speed_shows_an_interval_only_where_the_repeats_hold_one() -> None:
    floor = Criterion.model_validate("tokens_per_second >= 700tokens/s in steady")
    few, enough = (judge_speed("w", floor, [("t", 640.0 + i) for i in range(n)]) for n in (3, 6))
    assert (speed_row(few).interval, speed_row(few).needed) == ("", "6 repeats without a miss, or 15 with 3, 12 more")
    assert (speed_row(enough).interval, speed_row(enough).mark) == ("640 … 645", "bad")
    assert speed_row(enough).promised == "at least 700 tokens/s"
