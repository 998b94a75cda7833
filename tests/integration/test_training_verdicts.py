"""What is wrong with a training ends in its document as a verdict that says what, where and what would be right, never in a traceback alone."""

from __future__ import annotations

import json
import math
import resource
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.fakes.trials import CONFIG, H100, a_trial, cluster_provider

from plumbline.declarations import DeclarationError, Trial, criteria_hash, load, spec_hash
from plumbline.harness.run import run
from plumbline.results import ResultDocument

TINY: dict[str, Any] = {
    "model": {"architecture": "gpt", "layers": 1, "width": 16, "heads": 2, "vocabulary": 64, "context": 16},
    "data": {"source": "synthetic", "tokens": 4096},
    "batch": {"micro": 2, "sequence": 16},
    "steps": {"discard": 2, "measure": 8},
    "checkpoint": {"every": 5},
    "fault": None,
    "loss": None,
    "acceptance": [],
    "deterministic": True,
}


def tiny(**changed: Any) -> Trial:
    return a_trial("training", declare=TINY | changed)


def changed(trial: Trial, **parts: Any) -> Trial:
    """The trial with other parts, planned anew: its hashes are theirs."""
    other = trial.model_copy(update=parts)
    hashes = {"spec_hash": spec_hash(other.workload), "criteria_hash": criteria_hash(other.workload, other.validity)}
    return other.model_copy(update=hashes)


def measured(trial: Trial, folder: Path) -> ResultDocument:
    """The trial's document; without the hardware probes, which have nothing to do with it."""
    return run(trial, (folder / "results").as_uri(), probe=lambda *_: [])


def reasons(document: ResultDocument) -> dict[str, str]:
    return {reason.code: reason.detail for reason in document.validity.reasons}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))


@pytest.mark.full
def test_run_twice_the_losses_are_the_same_and_a_wrong_one_is_invalid(tmp_path: Path) -> None:
    first = measured(tiny(loss={"low": 3.0, "high": 5.0, "at_step": 4}), tmp_path / "a")
    assert not {"loss_out_of_range", "loss_not_finite"} & set(reasons(first))
    assert first.reproducibility is not None and "deterministic_algorithms" in first.reproducibility.guarantees
    strict = tiny(loss={"low": 0.1, "high": 0.2, "at_step": 4})
    nothing_varies = strict.validity.model_copy(update={"step_time_cv_degraded": 1e-9, "step_time_cv_invalid": 1e3})
    second = measured(changed(strict, validity=nothing_varies), tmp_path / "b")
    assert second.validity.status == "invalid"
    assert all(named in reasons(second)["loss_out_of_range"] for named in ("step 4", "0.1", "0.2"))
    assert "degraded above" in reasons(second)["step_time_unsteady"]
    assert second.reproducibility is not None
    assert second.reproducibility.hashes["losses"] == first.reproducibility.hashes["losses"]
    assert {(curve.metric, curve.along) for curve in first.curves} == {
        ("training_loss", "step"),
        ("effective_tokens_per_second", "run_time"),
    }
    points = [point for curve in first.curves if curve.along == "step" for point in curve.points]
    assert [point.at for point in points] == list(range(10)) and all(math.isfinite(point.value or math.nan) for point in points)


@pytest.mark.full
def test_losses_that_are_no_numbers_and_too_few_steps_to_say_more(tmp_path: Path) -> None:
    diverging = {"name": "adamw", "learning_rate": 9.9, "weight_decay": 9.9}
    steps = {"discard": 40, "measure": 5}
    found = measured(tiny(optimizer=diverging, steps=steps, checkpoint={"every": 45}), tmp_path)
    assert found.validity.status == "invalid"
    assert "loss_not_finite" in reasons(found)
    assert "more steps.measure" in reasons(found)["too_few_steps"]
    assert any(point.value is None for curve in found.curves if curve.along == "step" for point in curve.points)
    assert found.value("final_loss") is None


@pytest.mark.full
def test_a_model_that_does_not_fit(tmp_path: Path) -> None:
    huge = {"architecture": "gpt", "layers": 1, "width": 65536, "heads": 1, "vocabulary": 1_000_000, "context": 16}
    limit = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (64 << 30, limit[1]))
    try:
        found = measured(tiny(model=huge), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)
    failed(found, "out_of_memory", "ran out of memory")


def test_a_precision_that_the_hardware_does_not_have(tmp_path: Path) -> None:
    trial = tiny()
    # A declaration that asks for it of a CPU is refused before anything runs; a GPU that turns out too old is not known until then.
    found = measured(changed(trial, workload=trial.workload.model_copy(update={"precision": "tf32"})), tmp_path)
    failed(found, "bad_declaration", "fp32 and bf16 work")


def test_another_number_of_gpus_than_declared(tmp_path: Path) -> None:
    where = cluster_provider(accelerator=H100)
    found = measured(a_trial("training", provider=where, declare=TINY | {"needs": {"accelerator": "nvidia", "count": 8}}), tmp_path)
    failed(found, "wrong_hardware", "8")


def test_data_that_is_not_there(tmp_path: Path) -> None:
    gone = {"source": "file", "url": str(tmp_path / "gone.tokens"), "sha256": "a" * 64, "width": 2, "tokens": 4096}
    found = measured(tiny(data=gone), tmp_path)
    failed(found, "bad_declaration", "gone.tokens")
    assert "data.url" in reasons(found)["bad_declaration"]


def failed(document: ResultDocument, failure_class: str | None, words: str) -> None:
    """The document says so in a sentence; a traceback is for what nobody foresaw."""
    assert (document.validity.status, document.validity.failure_class) == ("failed", failure_class)
    assert words in document.validity.reasons[0].detail
    assert "Traceback" not in document.validity.reasons[0].detail
    assert not [item for item in document.evidence if item.kind == "traceback"]


@pytest.mark.parametrize(
    ("changed", "field", "expected"),
    [
        ({"batch": {"micro": 8, "sequence": 64, "total": 12}}, "batch.total", "expected 8"),
        ({"steps": {"discard": 1, "measure": 4}}, "steps.measure", "at least 5"),
        ({"precision": "fp8"}, "precision", "needs a GPU"),
    ],
)
def test_what_cannot_be_split_measured_or_computed_is_refused_where_it_is_declared(
    changed: dict[str, Any], field: str, expected: str, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    shutil.copytree(CONFIG, config)
    file = config / "workloads" / "training" / "gpt-tiny-cpu.yaml"
    declared = yaml.safe_load(file.read_text())
    file.write_text(json.dumps(declared | changed, indent=1))
    with pytest.raises(DeclarationError) as caught:
        load(config)
    (line,) = [line for line in str(caught.value).splitlines() if field in line]
    assert "gpt-tiny-cpu.yaml:" in line and expected in line
