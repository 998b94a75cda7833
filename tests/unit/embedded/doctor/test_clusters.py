from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.trials import cluster_provider

from plumbline.declarations import Declarations, load
from plumbline.embedded.doctor.machine import pods
from plumbline.launch.leftovers import Leftovers, store_leftovers
from plumbline.workflows import sweep


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


@pytest.mark.parametrize(("enabled", "said"), [(False, "it is disabled"), (None, "no longer declared")])
def test_what_is_left_of_a_provider_without_trials_is_named(declared: Declarations, enabled: bool | None, said: str) -> None:
    (provider,) = declared.providers.values()
    left = Leftovers({"2026-11": 2}, 0, "2026-11-02T03:00:00+00:00", where="connection k8s_a: kubectl get pods --namespace benchmarks")
    store_leftovers(provider.name, left)
    providers = {} if enabled is None else {provider.name: provider.model_copy(update={"enabled": False})}
    (line,) = pods(replace(declared, providers=providers))
    assert line.status == "failed" and said in line.found
    assert ("plumbline cluster sweep" in line.remedy) is (enabled is False) and ("kubectl get pods" in line.remedy) is (enabled is None)
    store_leftovers(provider.name, Leftovers({}, 0, "2026-11-02T04:00:00+00:00"))
    assert list(pods(replace(declared, providers=providers))) == []


def test_a_disabled_cluster_is_swept_as_long_as_something_is_left(declared: Declarations, monkeypatch: pytest.MonkeyPatch) -> None:
    (provider,) = declared.providers.values()
    disabled = replace(declared, providers={provider.name: provider.model_copy(update={"enabled": False})})
    monkeypatch.setattr(sweep, "load_in_force", lambda: disabled)
    assert sweep.cluster_providers() == []
    store_leftovers(provider.name, Leftovers({"2026-11": 1}, 0, "2026-11-02T03:00:00+00:00"))
    assert sweep.cluster_providers() == [provider.name]
