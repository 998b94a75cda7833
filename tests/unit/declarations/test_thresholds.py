from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from plumbline.declarations.thresholds import EnvironmentRules, ValidityLimits


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
    with pytest.raises(ValidationError, match=r"os\.name .*matters"):
        declared(matters=["os.name"], ignored=["os.name"])


def test_what_cannot_be_a_fact_is_refused() -> None:
    with pytest.raises(ValidationError, match="should match pattern"):
        declared(matters=["GPU product"])


def test_the_documents_example_is_one_that_is_taken() -> None:
    page = (Path(__file__).parents[3] / "docs/compare.md").read_text()
    example = yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])["drift"]["environment"]
    rules = declared(**example)
    assert (rules.says("kubernetes.version"), rules.says("gpu.0.vbios"), rules.says("driver.version")) == (True, False, None)


def test_no_limit_of_recorded_trials_gets_a_default() -> None:
    """`criteria_hash` leaves defaults out: one that is added later would break the hash of each trial recorded with that value."""
    defaults = {name for name, field in ValidityLimits.model_fields.items() if not field.is_required()}
    assert defaults == {"steady_steps_degraded", "steady_steps_invalid", "client_cpu_degraded"}
