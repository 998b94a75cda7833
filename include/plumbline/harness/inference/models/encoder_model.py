"""Triton's side of the encoder: whatever waits while a batch is computed is the next batch, padded to its longest text.

In    IDS int32 [texts, tokens], or TEXT_IN uint8 [1, bytes] (UTF-8; the ids are taken if both come); vision: PIXELS uint8 [images, patches, bytes]
Out   VECTOR fp32 [texts, width] (embedding, vision) or SCORE fp32 [texts, 1] (reranking); SERVER_TIMES fp64 [texts, 5]: seconds of tokenization, queue
      (0: the server's own statistics have it), prefill (the whole batch's computation), decode (0), post-processing (0: pooling is in the model)
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import torch
import triton_python_backend_utils as pb_utils
from torch import Tensor
from torch.utils.dlpack import from_dlpack

# The stub imports this file as a member of a package named after the version folder and puts no such folder on the path.
sys.path.insert(0, str(Path(__file__).parent))
from encoder import Encoder, seeded  # type: ignore[import-not-found]
from journal import Journal  # type: ignore[import-not-found]
from precision import in_precision, weight_bytes  # type: ignore[import-not-found]
from serving import Text, introduce, leave_with_server, output, parameters_of, tensor_of, weights_of  # type: ignore[import-not-found]


class TritonPythonModel:
    """One call, one batch."""

    def initialize(self, args: dict[str, str]) -> None:
        """Build the model as config.pbtxt's parameters say; raises what torch raises if the device is not there."""
        began = time.monotonic()
        parameters = parameters_of(args)
        torch.set_num_threads(int(parameters["threads"]))
        shape = {key: int(parameters[key]) for key in ("layers", "width", "heads", "vocabulary", "context")}
        model: Encoder = seeded(int(parameters["seed"]), parameters["device"], task=parameters["task"], **shape)
        count = sum(p.numel() for p in model.parameters())
        self.model: Encoder = in_precision(model, parameters["precision"])
        self.device, self.answer = parameters["device"], "SCORE" if parameters["task"] == "reranking" else "VECTOR"
        self.asked = "PIXELS" if parameters["task"] == "vision" else "IDS"
        self.text: Any = Text(Path(__file__).parent / "tokenizer.json") if parameters["text"] == "true" else None
        self.journal = Journal(Path(__file__).parent)
        leave_with_server()
        if parameters.get("part") != "true":  # of a pipeline, whose causal LM is the workload's model
            introduce(
                **weights_of(self.model),
                precision=parameters["precision"],
                parameters=count,
                weight_bytes=weight_bytes(self.model),
                build_s=time.monotonic() - began,
            )

    @torch.inference_mode()
    def execute(self, requests: list[Any]) -> list[Any]:
        """One response for each request; those that cannot be answered do not hold up the others."""
        responses: list[Any] = [None] * len(requests)
        texts: list[tuple[int, Tensor, float]] = []
        for i, request in enumerate(requests):
            self.journal.started(request.request_id())
            began = time.monotonic()
            try:
                ids = self._ids(request)
            except ValueError as error:
                responses[i] = pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error)))
            else:
                texts.append((i, ids, time.monotonic() - began if self.text else 0.0))
        if texts:
            began = time.monotonic()
            answers = self._computed([row for _, ids, _ in texts for row in ids])
            took = time.monotonic() - began
            end = 0
            for i, ids, tokenization in texts:
                answer = answers[end : (end := end + len(ids))]
                times = torch.tensor([[tokenization, 0.0, took, 0.0, 0.0]] * len(ids), dtype=torch.float64)
                responses[i] = pb_utils.InferenceResponse([output(self.answer, answer), output("SERVER_TIMES", times)])
                self.journal.finished(requests[i].request_id())
        return responses

    def _ids(self, request: Any) -> Tensor:
        """The texts of a request, all equally long: int64 [texts, tokens]; or its images, uint8 [images, patches, bytes]."""
        tensor = pb_utils.get_input_tensor_by_name(request, self.asked)
        if tensor is not None:
            ids = from_dlpack(tensor.to_dlpack())
        else:
            text = tensor_of(request, "TEXT_IN") if self.text else None
            if text is None:
                raise ValueError(f"a request without a text or an image; expected {self.asked}" + (" or TEXT_IN" if self.text else ""))
            ids = self.text.ids(text)[None]
        if not 0 < ids.shape[1] <= self.model.context:
            raise ValueError(f"a text of {ids.shape[1]} tokens; expected 1…{self.model.context}")
        return Tensor.long(ids) if self.asked == "IDS" else ids

    def _computed(self, texts: list[Tensor]) -> Tensor:
        """Vectors or scores of the texts, in their order: float32 on the CPU, [texts, width] or [texts, 1]."""
        lengths = torch.tensor([len(ids) for ids in texts], device=self.device)
        padded = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True).to(self.device)
        equal = all(len(ids) == len(texts[0]) for ids in texts)
        computed: Tensor = self.model(padded, None if equal else lengths)
        return computed.to("cpu", torch.float32)
