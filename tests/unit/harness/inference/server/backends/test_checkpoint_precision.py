"""A checkpoint in a precision that neither its files nor the engine have is refused: else bf16 would be measured under another name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.data.repositories.golden import workload

from plumbline.harness.inference.phases.checkpoint_quality import reference_workload
from plumbline.harness.inference.server.backends import generation, vllm
from plumbline.harness.measurement import TrialFailed

INT8 = {"quantization_config": {"quant_method": "compressed-tensors"}}


def folder(tmp_path: Path, **config: Any) -> Path:
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": 256, **config}))
    return tmp_path


def declared(path: Path, precision: str, **server: Any) -> Any:
    model = {"source": "folder", "path": str(path), "precision": precision, "context": 256, "vocabulary": 512}
    return workload(model=model, server={"backend": "vllm", **server}, quality={"reference": "bf16", "agreement": "90%"})


@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_files_that_nobody_quantises_are_refused(tmp_path: Path, precision: str) -> None:
    path = folder(tmp_path)
    with pytest.raises(TrialFailed) as caught:
        generation.weights_of(declared(path, precision), path, ("fp8",))
    assert caught.value.failure_class == "bad_declaration" and precision in caught.value.detail


def test_vllm_quantises_to_fp8_itself_but_not_what_is_quantised_already(tmp_path: Path) -> None:
    plain, files = folder(tmp_path), {}
    for name, config in (("plain", {}), ("quantised", INT8)):
        asked = declared(plain, "fp8")
        files[name] = vllm.engine_args(asked, generation.weights_of(asked, folder(tmp_path, **config), ("fp8",))).get("quantization")
    assert files == {"plain": "fp8", "quantised": None}


def test_the_reference_is_not_quantised_by_an_argument_of_the_engine(tmp_path: Path) -> None:
    arguments = {"quantization": "bitsandbytes", "block_size": 32}
    asked = declared(folder(tmp_path), "int4", engine_args=arguments)
    assert generation.weights_of(asked, tmp_path).context == 256
    reference = reference_workload(asked)
    assert (reference.model.precision, reference.server.engine_args) == ("bf16", {"block_size": 32})
