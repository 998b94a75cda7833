"""`replicas: fill`: one server for each accelerator of a node, or a clear refusal."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.data.result_documents import inference_workload, provider, training_workload
from tests.fakes.trials import a_trial

from plumbline.declarations import InferenceWorkload, spec_hash
from plumbline.declarations.compatibility import incompatibility
from plumbline.declarations.trials import without_defaults

STEADY: dict[str, Any] = {"name": "steady", "arrivals": {"poisson": {"rate": "6/s"}}, "duration": "10s"}
NODE: dict[str, Any] = {"accelerator": {"kind": "nvidia", "count": 8}, "launcher": {"kind": "simulated", "seed": 1}}


def filling(count: int = 1, **changed: Any) -> InferenceWorkload:
    return inference_workload(**{"needs": {"accelerator": "nvidia", "count": count}, "replicas": "fill", **changed})


@pytest.mark.parametrize(
    ("needed", "of", "servers"), [(1, 8, 8), (2, 8, 4), (3, 8, 2), (8, 8, 1), (1, 1, 1)], ids=["1of8", "2of8", "rest", "all", "one"]
)
def test_as_many_servers_as_the_node_holds(needed: int, of: int, servers: int) -> None:
    assert filling(needed).replicas_on(of) == servers
    assert inference_workload(needs={"accelerator": "nvidia", "count": needed}).replicas_on(of) == 1


def test_a_trial_that_fills_its_node_holds_all_accelerators() -> None:
    assert filling(2).gpus is None
    assert inference_workload(needs={"accelerator": "nvidia", "count": 2}).gpus == 2
    assert training_workload().gpus == 1


def test_it_is_part_of_what_is_measured_and_its_absence_of_nothing() -> None:
    plain = inference_workload(needs={"accelerator": "nvidia"})
    assert spec_hash(filling()) != spec_hash(plain)
    assert "replicas" not in without_defaults(a_trial("inference"))["workload"], (
        "a harness that does not know the field is not asked for it"
    )


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"server": {"backend": "external"}}, "replicas fill of an external server"),
        ({"phases": [STEADY, {"name": "context", "input_tokens": [4, 8], "requests": 2, "each": "1s"}]}, "context with replicas fill"),
        ({"phases": [STEADY, {**STEADY, "name": "fault", "inject": "server_kill", "at": "1s"}]}, "injects server_kill with replicas"),
        ({"replicas": 4}, "Input should be 'fill'"),
    ],
    ids=["external", "context", "kill", "number"],
)
def test_what_measures_one_server_is_refused(changed: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        filling(**changed)
    assert inference_workload(**{**changed, "replicas": None}).replicas is None


def test_a_fault_of_the_load_goes_with_it() -> None:
    overload = {**STEADY, "name": "fault", "inject": "overload", "at": "1s", "lasts": "1s", "factor": 2}
    assert filling(phases=[STEADY, overload]).replicas == "fill"


def test_fewer_users_than_servers_do_not_fit() -> None:
    def of(users: int) -> InferenceWorkload:
        return filling(phases=[{**STEADY, "arrivals": {"closed": {"users": users, "requests": 100}}}])

    eight = provider(**NODE)
    assert incompatibility(of(8), eight) is None
    assert (why := incompatibility(of(7), eight)) is not None and "phase steady" in why and "expected 8" in why
