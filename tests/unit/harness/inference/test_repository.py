from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.unit.harness.inference.test_arrivals import workload

from plumbline.declarations import InferenceWorkload
from plumbline.harness.inference import repository


def changed(part: str, **values: Any) -> InferenceWorkload:
    data = json.loads(workload().model_dump_json())
    data[part] |= values
    return InferenceWorkload.model_validate_json(json.dumps(data))


def test_the_repository_says_what_to_build(tmp_path: Path) -> None:
    folder = repository.write(workload(), tmp_path / "models") / repository.MODEL
    config = (folder / "config.pbtxt").read_text()
    assert f'name: "{repository.MODEL}"' in config
    assert "decoupled: true" in config
    for key, value in (("layers", 2), ("vocabulary", 2048), ("seed", 7), ("device", "cpu")):
        assert f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}' in config
    assert sorted(p.name for p in (folder / "1").iterdir()) == ["model.py", "transformer.py"]


def test_the_model_runs_on_what_the_workload_needs() -> None:
    assert repository.parameters_of(workload())["device"] == "cpu"
    assert repository.parameters_of(changed("needs", accelerator="nvidia"))["device"] == "cuda"
    assert repository.parameters_of(changed("needs", accelerator="amd"))["device"] == "cuda", "torch calls both so"


def test_the_hash_covers_shape_and_weights() -> None:
    hashes = {repository.model_hash(w) for w in (workload(), changed("model", seed=8), changed("model", layers=3))}
    assert len(hashes) == 3
    assert repository.model_hash(workload(seed=5)) in hashes, "other prompts are the same model"
