"""Watches of uptime and capacity: where they fit, and their bounds."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.data.result_documents import provider
from tests.fakes.trials import cluster_provider

ENDPOINT = {"kind": "endpoint", "url": "http://127.0.0.1:8000/v1", "protocol": "openai", "model": "chat"}
UPTIME, CAPACITY = {"uptime": {"every": "5min"}}, {"capacity": {"every": "6h", "gpus": 1}}


def test_each_kind_fits_where_it_can_be_seen() -> None:
    assert provider(launcher=ENDPOINT, watch=UPTIME).watch.of("uptime") is not None
    assert cluster_provider().watch.of("capacity") is None
    both = provider(launcher={"kind": "simulated"}, watch={**UPTIME, **CAPACITY})
    assert both.watch.of("uptime") is not None and both.watch.of("capacity") is not None
    off = provider(launcher={"kind": "simulated"}, watch={**UPTIME, "enabled": False})
    assert off.watch.of("uptime") is None


@pytest.mark.parametrize(
    ("launcher", "watch", "expected"),
    [
        ({"kind": "local", "cpus": [0, 1]}, UPTIME, "expected an endpoint"),
        ({"kind": "local", "cpus": [0, 1]}, CAPACITY, "expected a cluster"),
        (ENDPOINT, CAPACITY, "expected a cluster"),
        ({"kind": "simulated"}, {"capacity": {"every": "6h", "gpus": 3}}, "expected those of one node"),
        ({"kind": "simulated"}, {"capacity": {"every": "1min"}}, "capacity.every"),
        ({"kind": "simulated"}, {"uptime": {"every": "2h"}}, "uptime.every"),
        (
            {"kind": "simulated", "outages": [{"begin": "2026-01-02T00:00:00Z", "end": "2026-01-01T00:00:00Z"}]},
            UPTIME,
            "expected a later time",
        ),
    ],
)
def test_others_are_refused(launcher: dict[str, Any], watch: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        provider(launcher=launcher, watch=watch)
