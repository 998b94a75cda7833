"""A real Triton as somebody else's: the client over KServe's HTTP and gRPC finds what the server says of itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fakes.trials import a_trial
from tests.integration.test_inference_hosted import drive, endpoint_at, load_of

from plumbline.declarations import InferenceWorkload
from plumbline.harness.inference.endpoint import classify_failure
from plumbline.harness.inference.server import backends, tritonserver
from plumbline.harness.inference.server.triton import Triton

SMALL = {
    "gpt": {"model": {"architecture": "gpt", "layers": 2, "width": 32, "heads": 2, "vocabulary": 256, "context": 64}},
    "encoder": {
        "model": {"architecture": "encoder", "task": "embedding", "layers": 1, "width": 16, "heads": 2, "vocabulary": 256, "context": 64},
        "requests": {"input_tokens": {"constant": 5}, "output_tokens": {"constant": 1}, "seed": 1},
    },
}


@pytest.fixture(scope="module", params=["gpt", pytest.param("encoder", marks=pytest.mark.full)])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Triton]]:
    """A model of the repository's own behind all of Triton's doors."""
    folder: Path = tmp_path_factory.mktemp(request.param)
    workload = a_trial("inference", declare={**SMALL[request.param], "acceptance": []}).workload
    assert isinstance(workload, InferenceWorkload)
    repository = backends.write(workload, folder / "models", threads=1)
    with Triton(tritonserver.find_installation(), repository.folder, repository.model, folder, ready_within_s=120, http=True) as triton:
        yield request.param, triton


@pytest.mark.parametrize("protocol", ["kserve_http", "kserve_grpc"])
def test_both_protocols_give_the_same_load(served: tuple[str, Triton], protocol: str) -> None:
    kind, triton = served
    url = f"http://{triton.http_address}" if protocol == "kserve_http" else f"grpc://{triton.address}"
    declare: dict[str, Any] = {**SMALL[kind], "acceptance": []}
    endpoint = endpoint_at(url, protocol, model_name=triton.model, **declare)
    log = drive(endpoint, load_of(20, rate=20, tokens=8 if kind == "gpt" else 1))
    assert log.errors() == {}, log.first_error()
    assert log.finished == 20
    assert (np.diff(log.token_at.reshape(20, -1), axis=1) >= 0).all()
    assert str(endpoint.facts()["endpoint.server"]).startswith("triton 2.")


@pytest.mark.full
def test_a_model_that_is_not_there_is_said_to_be(served: tuple[str, Triton]) -> None:
    kind, triton = served
    for protocol, url in (("kserve_http", f"http://{triton.http_address}"), ("kserve_grpc", f"grpc://{triton.address}")):
        endpoint = endpoint_at(url, protocol, model_name="nobody", **{**SMALL[kind], "acceptance": []})
        failure_class, detail = classify_failure(drive(endpoint, load_of(2, rate=50, tokens=8 if kind == "gpt" else 1)))
        assert failure_class == "bad_declaration", detail
        assert "nobody" in detail
