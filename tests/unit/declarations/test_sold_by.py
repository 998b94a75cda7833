"""How a provider sells its instances, as it is declared."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.data.result_documents import provider

GPU: dict[str, Any] = {"accelerator": {"kind": "nvidia", "count": 8}, "launcher": {"kind": "simulated", "seed": 1}}
ENDPOINT: dict[str, Any] = {
    "accelerator": {"kind": "nvidia", "count": 8},
    "launcher": {"kind": "endpoint", "url": "https://models.example.com", "protocol": "openai", "model": "m"},
}


def test_an_instance_is_sold_whole_unless_it_is_declared() -> None:
    assert provider(**GPU).sold_by == "instance" and provider(**GPU, sold_by="gpu").sold_by == "gpu"


def test_trials_do_not_carry_how_an_instance_is_sold() -> None:
    assert provider(**GPU, sold_by="gpu").of_trial() == provider(**GPU).of_trial()


@pytest.mark.parametrize(("changed", "named"), [({}, "accelerator.kind is cpu"), (ENDPOINT, "the launcher is an endpoint")])
def test_what_a_trial_takes_whole_is_not_sold_by_the_gpu(changed: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        provider(**changed, sold_by="gpu")
