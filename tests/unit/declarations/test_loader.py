"""What a right folder becomes, and which workload a provider gets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from plumbline.declarations import DeclarationError, Declarations, load
from plumbline.declarations.yaml_source import format_path, read_yaml
from plumbline.metrics import METRICS

SHIPPED = Path(__file__).resolve().parents[3] / "include" / "config"


def test_the_shipped_declarations_are_right() -> None:
    declared = load(SHIPPED)
    assert {"local-1core", "local-2core"} <= {p.name for p in declared.enabled_providers()}
    assert {w.kind for w in declared.workloads.values()} == {"training", "inference"}


def test_scalars_are_those_of_yaml_1_2(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(
        "off: off\nyes: yes\nslot: 02:00\ndate: 2026-01-01\noctal: 010\nnumber: 10\nreal: 1.0e-3\nbig: 1e3\nnothing: ~\nempty:\ntrue: true\n"
    )
    data, lines = read_yaml(file)
    assert data == {
        "off": "off",
        "yes": "yes",
        "slot": "02:00",
        "date": "2026-01-01",
        "octal": "010",
        "number": 10,
        "real": 0.001,
        "big": 1000.0,
        "nothing": None,
        "empty": None,
        "true": True,
    }
    assert lines[("slot",)] == 3


def test_an_alias_that_is_finite_is_used(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("a: &one {n: 1}\nb: *one\nc: [*one, *one]\n")
    assert read_yaml(file)[0] == {"a": {"n": 1}, "b": {"n": 1}, "c": [{"n": 1}, {"n": 1}]}


def test_a_file_is_read_as_it_is_now_and_what_a_reader_changes_is_its_own(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("a: {n: [1]}\n")
    read_yaml(file)[0]["a"]["n"].append(2)
    assert read_yaml(file)[0] == {"a": {"n": [1]}}
    file.write_text("a: {n: [3]}\n")
    assert read_yaml(file)[0] == {"a": {"n": [3]}}


def test_paths_as_people_read_them() -> None:
    assert format_path(("phases", 1, "arrivals", "rate")) == "phases[1].arrivals.rate"
    assert format_path(()) == ""


def names(declared: Declarations, kind: str | None = None) -> list[str]:
    return [w.name for w in declared.workloads_for(declared.providers["here"], kind)]


def test_a_provider_gets_what_fits(broken: Callable[[str, str, str], Path], config: Path) -> None:
    assert names(load(config)) == ["chat", "gpt"]
    assert names(load(config), "training") == ["gpt"]
    broken("workloads/training/gpt.yaml", "{accelerator: cpu}", "{accelerator: cpu, count: 2}")
    assert names(load(config)) == ["chat"]
    broken("workloads/inference/chat.yaml", "{accelerator: cpu}", "{accelerator: nvidia}")
    assert names(load(config)) == []


def test_a_disabled_provider_takes_no_part(broken: Callable[[str, str, str], Path]) -> None:
    declared = load(broken("providers/here.yaml", "region: here", "region: here\nenabled: false"))
    assert declared.enabled_providers() == ()
    assert "here" in declared.providers


def test_thresholds_the_workload_the_file_the_catalogue(broken: Callable[[str, str, str], Path]) -> None:
    declared = load(broken("workloads/training/gpt.yaml", "precision:", "drift: {tokens_per_second: {warn: 7%, page: 8%}}\nprecision:"))
    gpt, thresholds = declared.workloads["gpt"], declared.thresholds
    for metric, expected in (("tokens_per_second", (0.07, 0.08)), ("step_time", (0.02, 0.05)), ("goodput", (0.05, 0.10))):
        limits = thresholds.drift_limits(gpt, METRICS[metric])
        assert limits is not None
        assert (limits.warn, limits.page) == pytest.approx(expected)
    assert thresholds.drift_limits(gpt, METRICS["final_loss"]) is None


def test_declarations_never_change(config: Path) -> None:
    with pytest.raises(ValueError, match="frozen"):
        load(config).providers["here"].enabled = False


def test_what_a_change_measures_again_must_run_there(broken: Callable[[str, str, str], Path]) -> None:
    declared = load(broken("providers/here.yaml", "region: here", "region: here\nwatch: {workloads: [gpt], debounce: 0s}"))
    assert declared.providers["here"].watch.workloads == ("gpt",)
    with pytest.raises(DeclarationError) as raised:
        load(broken("workloads/training/gpt.yaml", "{accelerator: cpu}", "{accelerator: cpu, count: 2}"))
    assert [(problem.file, problem.field) for problem in raised.value.problems] == [("config/providers/here.yaml", "watch.workloads[0]")]
