"""An inference engine of another package: its record, its writer and one entry point."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError
from tests.data.repositories.golden import workload
from tests.fakes.installation import install_package

from plumbline.declarations import InferenceWorkload
from plumbline.harness.inference.server import backends
from plumbline.loadclient.prompt import Prompt

ENGINE = """
from plumbline.declarations.workloads.engines import InferenceEngine
ECHO = InferenceEngine(("gpt",), writer="echo_engine.writer", triton_backend="python", reads_text=False)
"""
WRITER = """
from plumbline.harness.inference.load import model_wires
from plumbline.loadclient.wire import SERVER_TIMES
from plumbline.harness.inference.server.backends.repository import Input, Repository, config_of, version_folder

def write(workload, folder, threads):
    outputs = [("TOKEN", "INT32", (1,)), ("INDEX", "INT32", (1,)), (SERVER_TIMES, "FP64", (4,))]
    config = config_of("echo", "python", [Input("PROMPT_IDS", "INT32", (-1,)), Input("MAX_TOKENS", "INT32")], outputs, kind="CPU", decoupled=True)
    (version_folder(folder, config) / "model.py").write_text("class TritonPythonModel: ...")
    responses = model_wires.causal_lm("echo", False)
    return Repository(folder, "echo", "python", responses, lambda number, prompt, tokens: model_wires.lm_inputs(prompt, tokens))
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "echo_engine/__init__.py": ENGINE,
        "echo_engine/writer.py": WRITER,
        "echo_engine-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: echo-engine\nVersion: 1\n",
        "echo_engine-1.dist-info/entry_points.txt": "[plumbline.inference_engines]\necho = echo_engine:ECHO\n",
    }
    install_package(tmp_path, monkeypatch, files)


@pytest.mark.usefixtures("installed")
def test_it_is_declared_and_writes_its_repository(tmp_path: Path) -> None:
    declared = workload(server={"backend": "echo"})
    assert InferenceWorkload.model_validate_json(declared.model_dump_json()) == declared
    repository = backends.write(declared, tmp_path / "models", threads=2)
    assert (tmp_path / "models/echo/1/model.py").is_file() and repository.body(1, Prompt(np.array([3], np.int32)), 7)
    assert backends.model_hash(declared) != backends.model_hash(workload())


def test_an_engine_that_no_package_registers_is_refused() -> None:
    with pytest.raises(ValidationError) as refused:
        workload(server={"backend": "echo"})
    assert [error["loc"] for error in refused.value.errors()] == [("server", "backend")]
