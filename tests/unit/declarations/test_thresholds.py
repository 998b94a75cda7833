from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from plumbline.declarations.thresholds import EnvironmentRules


def declared(**fields: list[str]) -> EnvironmentRules:
    return EnvironmentRules.model_validate_json(json.dumps(fields))


def test_a_fact_matters_is_ignored_or_was_not_mentioned() -> None:
    rules = declared(matters=["host.node", "gpu.*.uuid"], ignored=["gpu.*", "os.name"])
    assert [rules.says(fact) for fact in ("host.node", "gpu.0.uuid", "gpu.0.product", "os.name", "os.kernel")] == [
        True,
        True,
        False,
        False,
        None,
    ]
    assert declared().says("os.kernel") is None


def test_a_fact_cannot_be_both() -> None:
    with pytest.raises(ValidationError, match=r"os.name both matters and is ignored"):
        declared(matters=["os.name"], ignored=["os.name"])


def test_what_cannot_be_a_fact_is_refused() -> None:
    with pytest.raises(ValidationError, match="should match pattern"):
        declared(matters=["GPU product"])
