"""A simulated provider tells its declared prices with the changes that are declared to happen to it."""

from __future__ import annotations

from datetime import datetime, timezone

from tests.fakes.trials import CONFIG, declared

from plumbline.declarations import load
from plumbline.price_sources import read_prices
from plumbline.price_sources.declared import SimulatedPrices


def test_a_declared_price_change_is_told_from_its_day_on() -> None:
    world = load(CONFIG)
    provider = world.providers["simulated-h100"]
    told = [read_prices(provider, world, datetime(2026, month, 15, tzinfo=timezone.utc)) for month in (6, 7)]
    assert [(r.source, r.purchase, r.amount, r.usd_per_gpu_hour) for t in told for r in t.readings] == [
        ("simulated", "on_demand", 49.24, 6.155),
        ("simulated", "on_demand", 39.0, 4.875),
    ]


def test_without_a_price_that_holds_nothing_is_told_and_a_real_provider_is_not_asked() -> None:
    provider = load(CONFIG).providers["simulated-h100"]
    assert SimulatedPrices().read(provider, datetime(2024, 1, 1, tzinfo=timezone.utc)) == []
    world = declared()
    assert read_prices(world.providers["local-1core"], world, datetime(2026, 6, 1, tzinfo=timezone.utc)).readings == ()
