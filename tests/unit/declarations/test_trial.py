"""A trial is never changed after it was planned, and hashes change with what they stand for and with nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.fakes.trials import CONFIG, a_trial, declared

from plumbline.declarations import ContainerWorkload, Trial, criteria_hash, digest, load, series_key, spec_hash
from plumbline.declarations.providers.provider import Place, Provider, Terms
from plumbline.declarations.trials import flatten, specification, without_defaults

TRIAL = a_trial()
SHIPPED = load(CONFIG)
DATA: dict[str, Any] = json.loads(TRIAL.model_dump_json())


def test_from_json_and_back() -> None:
    assert Trial.model_validate_json(TRIAL.model_dump_json()) == TRIAL


@pytest.mark.parametrize("workload", sorted(SHIPPED.workloads))
def test_every_shipped_workload_reads_back_from_its_brief_form(workload: str) -> None:
    asked = SHIPPED.workloads[workload].of_trial()
    hashes = {"spec_hash": spec_hash(asked), "criteria_hash": criteria_hash(asked, TRIAL.validity)}
    trial = TRIAL.model_copy(update={"workload": asked, "provider": SHIPPED.providers["example-eks-p5"].of_trial(), **hashes})
    short = without_defaults(trial)
    assert Trial.model_validate_json(json.dumps(short)) == trial
    # What a harness from before these fields would refuse as unknown.
    assert not {"rates", "overhead", "invoices", "manual_steps", "price_sources"} & set(short["provider"])
    assert "primary" not in short["workload"] or isinstance(asked, ContainerWorkload), "checks of containers require it"


@pytest.mark.parametrize("name", sorted(SHIPPED.providers))
def test_a_trial_carries_the_place_alone(name: str) -> None:
    declared = SHIPPED.providers[name]
    carried = declared.of_trial()
    assert {field: getattr(carried, field) for field in Place.model_fields} == {
        field: getattr(declared, field) for field in Place.model_fields
    }
    assert set(without_defaults(TRIAL.model_copy(update={"provider": carried}))["provider"]) <= {*Place.model_fields, "sla"}
    assert set(carried.sla.model_dump(exclude_defaults=True)) <= {"launch_success", "provisioning_lead_time"}


def test_a_field_of_a_provider_is_of_its_place_or_of_its_terms() -> None:
    place, terms = set(Place.model_fields), set(Terms.model_fields)
    assert place | terms == set(Provider.model_fields) and not place & terms
    assert not any(field.is_required() for field in Terms.model_fields.values()), "a trial has none of them"


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("workload", "steps", "measure"), 121, "spec_hash"),
        (("workload", "acceptance"), [], "criteria_hash"),
        (("validity", "step_time_cv_invalid"), "101%", "criteria_hash"),
        (("trial_id",), "Not An Id", "trial_id"),
        (("campaign_id",), "2026/11", "campaign_id"),
        (("planned_at",), "2026-11-01T02:00:00", "planned_at"),
        (("attempt",), 0, "attempt"),
        (("surprise",), 1, "surprise"),
    ],
)
@pytest.mark.fault("a trial's specification was changed", ends="refused (hash)", keeps="nothing is measured")
def test_a_changed_trial_is_refused(path: tuple[str, ...], value: object, said: str) -> None:
    data = json.loads(json.dumps(DATA))
    inner = data
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    with pytest.raises(ValueError, match=said):
        Trial.model_validate_json(json.dumps(data))


def test_what_each_hash_stands_for() -> None:
    shipped = declared()
    gpt = shipped.workloads["gpt-tiny-cpu"]
    validity = shipped.thresholds.validity

    def changed(**values: object) -> Any:
        return type(gpt).model_validate_json(json.dumps({**json.loads(gpt.model_dump_json()), **values}))

    prose = changed(description="other words", repeats={"per_slot": 9, "slots": ["03:00"]})
    assert (spec_hash(prose), criteria_hash(prose, validity)) == (spec_hash(gpt), criteria_hash(gpt, validity))
    stricter = changed(acceptance=[])
    assert spec_hash(stricter) == spec_hash(gpt)
    assert criteria_hash(stricter, validity) != criteria_hash(gpt, validity)
    other = changed(seed=2)
    assert spec_hash(other) != spec_hash(gpt)
    assert criteria_hash(other, validity) == criteria_hash(gpt, validity)


def test_series_keys_tell_series_apart() -> None:
    shipped = declared()
    keys = {series_key(w, p) for w in shipped.workloads.values() for p in shipped.providers.values()}
    assert len(keys) == len(shipped.workloads) * len(shipped.providers)
    assert series_key(shipped.workloads["gpt-tiny-cpu"], shipped.providers["local-1core"]) == (
        "training/gpt-tiny-cpu@1/h6/torch/local-1core/here/host-1core"
    )


def test_a_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": [1.5, None]}) == digest({"b": [1.5, None], "a": 1})
    assert digest({"a": 1}) != digest({"a": 1.0})
    with pytest.raises(ValueError, match="not JSON compliant"):
        digest({"a": float("nan")})


def test_every_field_of_a_specification_can_be_compared_and_hashed() -> None:
    for workload in SHIPPED.workloads.values():
        assert len(set(flatten(specification(workload)))) > 5
    assert dict(flatten({"a": {}, "b": [], "c": [{"d": 1}]})) == {"a": None, "b": None, "c[0].d": 1}
