"""Repositories of the project's own models on Triton's Python backend: a causal LM that streams, an encoder that answers once."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.models import Encoder
from plumbline.harness.inference import models, wire
from plumbline.harness.inference.repositories.repository import Config, Input, Repository, config_of, hash_of, version_folder
from plumbline.harness.inference.requestlog import STAGES

CHAT, ENCODER = "chat", "encoder"
_TIMES = len(STAGES)


def write(workload: InferenceWorkload, folder: Path, threads: int) -> Repository:
    """The repository of the workload's model; it computes on `threads` cores."""
    text, shape = workload.requests.text, workload.model
    if isinstance(shape, Encoder):
        config = _encoder(workload, shape, threads)
        asked = wire.encoder(ENCODER, shape.task, shape.width)
        found = Repository(folder, ENCODER, "python", asked, lambda number, prompt, _: wire.encoder_body(asked, number, prompt))
    else:
        config = _causal_lm(workload, threads)
        streamed = wire.causal_lm(CHAT, text)
        found = Repository(folder, CHAT, "python", streamed, lambda number, prompt, tokens: wire.lm_body(streamed, number, prompt, tokens))
    version = version_folder(folder, config)
    for name, source in models.sources_of(workload).items():
        shutil.copyfile(source, version / name)
    return found


def model_hash(workload: InferenceWorkload) -> str:
    """Hash of the model's source, shape and weights."""
    sources = sorted(models.sources_of(workload).items())
    return hash_of(workload, **{name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in sources})


def _causal_lm(workload: InferenceWorkload, threads: int) -> Config:
    text = workload.requests.text
    # The instance is of kind CPU also for a model on a GPU: the model places itself, Triton only has to start it once.
    return config_of(
        CHAT,
        "python",
        [
            Input("PROMPT_IDS", "INT32", (-1,), optional=text),
            *([Input("PROMPT", "UINT8", (-1,), optional=True)] if text else []),
            Input("MAX_TOKENS", "INT32"),
        ],
        [
            ("TOKEN", "INT32", (1,)),
            ("INDEX", "INT32", (1,)),
            *([("TEXT", "UINT8", (-1,)), (wire.INPUT_TOKENS, "INT32", (1,))] if text else []),
            (wire.SERVER_TIMES, "FP64", (_TIMES,)),
        ],
        kind="CPU",
        decoupled=True,
        parameters=models.parameters_of(workload, threads),
    )


def _encoder(workload: InferenceWorkload, shape: Encoder, threads: int) -> Config:
    text = workload.requests.text
    answer = ("VECTOR", "FP32", (shape.width,)) if shape.task == "embedding" else ("SCORE", "FP32", (1,))
    return config_of(
        ENCODER,
        "python",
        [
            Input("IDS", "INT32", (-1,), optional=text, ragged=True),
            *([Input("TEXT_IN", "UINT8", (-1,), optional=True, ragged=True)] if text else []),
        ],
        [answer, (wire.SERVER_TIMES, "FP64", (_TIMES,))],
        kind="CPU",
        batch=workload.server.sequences,
        parameters=models.parameters_of(workload, threads),
    )
