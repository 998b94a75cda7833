"""A simulated provider's declaration: what it refuses, when an event is in force, and how much of it."""

import json
import math
from datetime import datetime, timezone
from typing import Any

import pytest
from pydantic import ValidationError
from tests.data.result_documents import inference_workload, provider, training_workload

from plumbline.declarations import Provider, SimulatedLauncher
from plumbline.declarations.compatibility import incompatibility


def launcher(**fields: Any) -> SimulatedLauncher:
    return SimulatedLauncher.model_validate_json(json.dumps({"kind": "simulated", **fields}))


def at(day: str) -> datetime:
    return datetime.fromisoformat(f"{day}T02:00:00").replace(tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"drift": [{"kind": "step", "since": "2026-05"}]}, "exactly one of worse and better"),
        ({"drift": [{"kind": "step", "since": "2026-05", "worse": "5%", "better": "5%"}]}, "exactly one of worse and better"),
        ({"drift": [{"kind": "step", "since": "May", "worse": "5%"}]}, '"May"'),
        ({"drift": [{"kind": "step", "since": "2026-05", "worse": "5%", "metrics": ["speed"]}]}, "speed"),
        (
            {"drift": [{"kind": "spike", "since": "2026-05", "until": "2026-05", "worse": "5%"}]},
            r"drift\[0\].until 2026-05-01 is not after",
        ),
        ({"drift": [{"kind": "ramp", "since": "2026-05", "full": "2026-04", "worse": "5%"}]}, "is not after since"),
        ({"drift": [{"kind": "driver_change", "since": "2026-05", "facts": {}}]}, "facts"),
        (
            {"drift": [{"kind": "driver_change", "since": "2026-05", "facts": {"a.b": 1}, "probes": ["matmul_tflops"]}]},
            "has metrics or probes",
        ),
        ({"nodes": 2, "drift": [{"kind": "bimodal_node", "since": "2026-05", "worse": "5%", "nodes": 2}]}, "all 2 nodes"),
        ({"failures": {"interrupted": "60%", "timeout": "60%"}}, "failures add up to 120%"),
        ({"failures": {"bored": "1%"}}, "bored"),
        ({"levels": {"matmul_tflops": "7 apples"}}, "apples"),
        ({"noise": {"training": {"run": "-1%"}}}, "at least 0"),
    ],
)
def test_what_it_refuses(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        launcher(**fields)


def test_a_declaration_survives_being_written_back() -> None:
    declared = launcher(
        noise={"training": {"run": "0.1%"}},
        levels={"matmul_tflops": "400TFLOP/s"},
        drift=[{"kind": "ramp", "since": "2026-05", "full": "2026-08-15", "worse": "5%"}],
    )
    assert SimulatedLauncher.model_validate_json(declared.model_dump_json()) == declared


def test_an_event_is_in_force_from_its_first_day_to_the_day_before_its_last() -> None:
    declared = launcher(drift=[{"kind": "step", "since": "2026-05", "until": "2026-07", "worse": "5%", "workloads": ["gpt-test"]}])
    assert [bool(declared.events("gpt-test", at(day))) for day in ("2026-04-30", "2026-05-01", "2026-06-30", "2026-07-01")] == [
        False, True, True, False,
    ]  # fmt: skip
    assert not declared.events("chat-test", at("2026-05-02"))


def test_a_ramp_creeps_in() -> None:
    (event,) = launcher(drift=[{"kind": "ramp", "since": "2026-05-01", "full": "2026-05-11", "worse": "10%"}]).drift
    half, whole, long_after = (event.shift(at(day), 0) for day in ("2026-05-06", "2026-05-11", "2026-12-01"))  # type: ignore[union-attr]
    assert whole == long_after == pytest.approx(math.log(1.1))
    assert half == pytest.approx(whole * (5 + 2 / 24) / 10)


def test_only_the_first_nodes_of_a_bimodal_provider_are_bad() -> None:
    (event,) = launcher(nodes=3, drift=[{"kind": "bimodal_node", "since": "2026-05", "worse": "10%"}]).drift
    assert [event.shift(at("2026-05-02"), node) > 0 for node in range(3)] == [True, False, False]  # type: ignore[union-attr]


def test_silence_is_of_its_time_and_workload() -> None:
    declared = launcher(drift=[{"kind": "silence", "since": "2026-05", "until": "2026-06", "workloads": ["gpt-test"]}])
    assert declared.skips("gpt-test", at("2026-05-01")) and not declared.skips("chat-test", at("2026-05-01"))
    assert not declared.skips("gpt-test", at("2026-06-01"))


def _simulated(**fields: Any) -> Provider:
    return provider(
        "sim",
        launcher={"kind": "simulated", **fields},
        prices=[{"purchase": "on_demand", "price": "10 USD/h", "since": "2026-01-01", "source": "made up"}],
    )


def test_a_simulated_price_holds_over_the_declared_one_from_its_day_on() -> None:
    place = _simulated(
        drift=[
            {"kind": "price_change", "since": "2026-05", "price": "8 USD/h"},
            {"kind": "price_change", "since": "2026-07", "price": "9 USD/h"},
        ]
    )
    found = [place.price_on(at(day).date()) for day in ("2026-04-30", "2026-05-01", "2026-07-01")]
    assert [price.price for price in found if price] == [10.0, 8.0, 9.0]
    assert [price.price for price in _simulated().price_list] == [10.0]


def test_it_runs_whatever_its_accelerator_fits_and_gangs_that_are_not_larger_than_it() -> None:
    place = _simulated(nodes=2)
    assert place.simulated and not provider().simulated
    assert incompatibility(inference_workload(server={"backend": "external", "client_placement": "other_region"}), place) is None
    assert incompatibility(training_workload(parallelism={"nodes": 2}), place) is None
    assert "3 nodes" in str(incompatibility(training_workload(parallelism={"nodes": 3}), place))
    assert "needs 1 nvidia" in str(incompatibility(training_workload(needs={"accelerator": "nvidia"}), place))
