from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.trials import cluster_provider

from plumbline.declarations import Declarations, load
from plumbline.embedded.doctor.machine import pods
from plumbline.launch.leftovers import Leftovers, store_leftovers


@pytest.fixture
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Declarations:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    provider = cluster_provider()
    return replace(load(), providers={provider.name: provider})


def test_a_cluster_without_a_count_is_unknown(declared: Declarations) -> None:
    (line,) = pods(declared)
    assert line.status == "unknown"
    assert list(pods(None)) == []


def test_what_runs_is_counted_and_what_is_past_its_end_has_a_remedy(declared: Declarations) -> None:
    (name,) = declared.providers
    store_leftovers(name, Leftovers({"2026-11": 2}, 0, "2026-11-02T03:00:00+00:00"))
    (line,) = pods(declared)
    assert line.status == "ok" and "2 of 2026-11" in line.found and "2026-11-02T03:00:00" in line.found
    store_leftovers(name, Leftovers({"2026-11": 2}, 1, "2026-11-02T03:00:00+00:00"))
    (line,) = pods(declared)
    assert line.status == "failed" and name in line.remedy
