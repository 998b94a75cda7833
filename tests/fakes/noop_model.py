"""The smallest model that a real tritonserver can serve: it hands its 16 floats back. Loads in a fraction of a second, without torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tritonclient.grpc import InferenceServerClient, InferInput

NAME = "noop"
_CONFIG = """\
name: "noop"
backend: "python"
max_batch_size: 0
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 16 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 16 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
_SOURCE = """\
import os
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        {first}
        family = pb_utils.MetricFamily(name="plumbline_prefix_cache_hits", description="hits", kind=pb_utils.MetricFamily.COUNTER)
        self.hits = family.Metric(labels={{"model": "noop"}})
        self.family = family
        pb_utils.Logger.log_info('plumbline-model {{"cpus": %s}}' % sorted(os.sched_getaffinity(0)))

    def execute(self, requests):
        answers = []
        for request in requests:
            self.hits.increment(3)
            given = pb_utils.get_input_tensor_by_name(request, "IN")
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUT", given)]))
        return answers
"""


def write(folder: Path, first: str = "pass") -> Path:
    """The model's repository in `folder`; `first` is a statement with which the model begins to load."""
    version = folder / NAME / "1"
    version.mkdir(parents=True, exist_ok=True)
    (folder / NAME / "config.pbtxt").write_text(_CONFIG)
    (version / "model.py").write_text(_SOURCE.format(first=first))
    return folder


def ask(address: str) -> None:
    """One request; raises what tritonclient raises, or AssertionError if the answer is not what was sent."""
    sent = np.arange(16, dtype=np.float32)
    tensor = InferInput("IN", [16], "FP32")
    tensor.set_data_from_numpy(sent)
    client = InferenceServerClient(address)
    try:
        answer = client.infer(NAME, [tensor], client_timeout=10)
        assert answer is not None
        assert answer.as_numpy("OUT").tolist() == sent.tolist()
    finally:
        client.close()
