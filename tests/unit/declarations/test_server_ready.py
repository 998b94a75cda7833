"""How long a server may take until it answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError
from tests.fakes.trials import CONFIG

from plumbline.declarations import InferenceWorkload, load, spec_hash
from plumbline.declarations.trials import specification

DECLARED = load(CONFIG).workloads


def with_server(name: str, **server: Any) -> InferenceWorkload:
    data = json.loads(DECLARED[name].model_dump_json())
    data["server"] |= server
    return InferenceWorkload.model_validate_json(json.dumps(data))


@pytest.mark.parametrize(
    ("name", "declared", "seconds"), [("chat-8b", None, 1200), ("chat-tiny-cpu", None, 300), ("chat-8b", "45min", 2700)]
)
def test_the_limit_is_the_declared_one_or_fits_the_hardware(name: str, declared: str | None, seconds: float) -> None:
    assert with_server(name, ready_timeout=declared).ready_timeout_s == seconds


def test_a_longer_limit_starts_no_new_series() -> None:
    plain, patient = with_server("chat-8b"), with_server("chat-8b", ready_timeout="1h")
    assert spec_hash(plain) == spec_hash(patient) and specification(plain) == specification(patient)
    assert spec_hash(plain) != spec_hash(with_server("chat-8b", sequences=7)), "the rest of the server is part of what is measured"


def test_an_external_server_is_not_waited_for() -> None:
    with pytest.raises(ValidationError, match=r"server\.ready_timeout"):
        with_server("chat-hosted", ready_timeout="5min")
