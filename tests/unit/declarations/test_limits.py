"""What stops or limits is found by walking the models: a new field of the kind needs no line here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import Field

from plumbline.declarations import Budget, Provider
from plumbline.declarations.base import Declared
from plumbline.declarations.limits import AT_MOST, ENABLED, rule_of, stricter
from plumbline.declarations.providers.provider import CapacityWatch, MonitoringConfig, UptimeWatch


def models_in(annotation: Any) -> Iterator[type[Declared]]:
    if isinstance(annotation, type) and issubclass(annotation, Declared):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


def parts(model: type[Declared], seen: set[type[Declared]]) -> set[type[Declared]]:
    if model not in seen:
        seen.add(model)
        for field in model.model_fields.values():
            for part in models_in(field.annotation):
                parts(part, seen)
    return seen


def marked() -> list[tuple[type[Declared], str]]:
    return [(m, n) for m in sorted(parts(Provider, set()), key=lambda m: m.__name__) for n in m.model_fields if rule_of(m, n) is not None]


def test_every_switch_and_every_limit_of_a_provider_has_a_rule() -> None:
    found = {f"{model.__name__}.{name}" for model, name in marked()}
    assert len(found) >= 13, sorted(found)
    said = re.compile(r"\b(hard limit|never if omitted|false: no|ask the API alone)\b")
    for model in parts(Provider, set()):
        for name, field in model.model_fields.items():
            if name == "enabled" or said.search(field.description or "") or said.search(model.__doc__ or ""):
                assert f"{model.__name__}.{name}" in found
    for model in (m for m in parts(Provider, set()) if m.only_limits):
        assert all(rule_of(model, name) is AT_MOST for name in model.model_fields)


class _Toy(Declared):
    class Caps(Declared):
        only_limits = True
        trials_per_day: int | None = None

    enabled: bool = True
    name: str = ""
    caps: Caps | None = None
    watch: MonitoringConfig = MonitoringConfig()


def test_a_new_field_of_the_kind_is_covered_by_itself() -> None:
    assert rule_of(_Toy, "enabled") is ENABLED and rule_of(_Toy.Caps, "trials_per_day") is AT_MOST
    valid, now = _Toy(name="a"), _Toy(name="b", enabled=False, caps=_Toy.Caps(trials_per_day=3))
    assert stricter(valid, now) == _Toy(name="a", enabled=False, caps=_Toy.Caps(trials_per_day=3))
    assert stricter(now, valid) == now, "what starts more waits"
    assert stricter(valid, valid) is valid


@pytest.mark.parametrize(
    ("valid", "now", "expected"),
    [
        (Budget(usd_per_month=500), Budget(usd_per_month=100), Budget(usd_per_month=100)),
        (Budget(usd_per_month=100), Budget(usd_per_month=500), Budget(usd_per_month=100)),
        (Budget(usd_per_month=100), Budget(gpu_hours_per_month=5), Budget(usd_per_month=100, gpu_hours_per_month=5)),
        (MonitoringConfig(probe="25h"), MonitoringConfig(), MonitoringConfig()),
        (MonitoringConfig(), MonitoringConfig(probe="25h"), MonitoringConfig()),
        (MonitoringConfig(probe="25h"), MonitoringConfig(probe="26h"), MonitoringConfig(probe="26h")),
        (
            MonitoringConfig(capacity=CapacityWatch(every="20min", gpus=8)),
            MonitoringConfig(capacity=CapacityWatch(every="3h", gpus=4, dry_run=True)),
            MonitoringConfig(capacity=CapacityWatch(every="3h", gpus=8, dry_run=True)),
        ),
        (MonitoringConfig(uptime=UptimeWatch(every="60s")), MonitoringConfig(enabled=False), MonitoringConfig(enabled=False)),
        (MonitoringConfig(workloads=("a", "b")), MonitoringConfig(workloads=("b", "c")), MonitoringConfig(workloads=("b",))),
    ],
)
def test_the_stricter_one_counts(valid: Declared, now: Declared, expected: Declared) -> None:
    assert stricter(valid, now) == expected


def test_a_field_without_a_rule_waits() -> None:
    class Place(Declared):
        price: float = Field(1.0)

    assert stricter(Place(), Place(price=0.5)) == Place()
