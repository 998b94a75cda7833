"""Triton's side of retrieval-augmented generation: four models, of which this one asks the others for each request.

    query → embedding model → search (here) → reranking model, all candidates in one request → documents + query → causal LM, streamed

In    PROMPT_IDS int32 [tokens], or PROMPT uint8 [bytes] (UTF-8; the ids are taken if both come); MAX_TOKENS int32 [1]
Out   what the causal LM answers; with the last response DOCUMENTS int32 [top], the numbers of the documents in the order of the prompt, INPUT_TOKENS
      (for text) of the query alone, and SERVER_TIMES fp64 [9], seconds of:
      tokenization      here
      embedding, reranking   from asking the model until it answered, its queue and the way there included
      search            here
      queue             waiting for a thread here, and for a row of the causal LM
      prefill, decode, post_processing   as the causal LM tells them
      orchestration     what is left of the time from the request's arrival here to the last token: handing over between the models

A request that was given up costs nothing more, here or in the causal LM.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton_python_backend_utils as pb_utils
from torch import Tensor

# The stub imports this file as a member of a package named after the version folder and puts no such folder on the path.
sys.path.insert(0, str(Path(__file__).parent))
from encoder import seeded  # type: ignore[import-not-found]
from journal import Journal  # type: ignore[import-not-found]
from model_client import ModelClient, ModelRequestFailed  # type: ignore[import-not-found]
from retrieval import Index, draw_documents  # type: ignore[import-not-found]
from serving import (  # type: ignore[import-not-found]
    CLOSE_AFTER_S,
    FINAL,
    Text,
    leave_with_server,
    output,
    parameters_of,
    prompt_of,
    refusal,
    tensor_of,
)


class RequestCancelled(Exception):
    """The client waits no longer."""


@dataclass(frozen=True)
class RetrievalRequest:
    """One request. `query` int64 [tokens]; `arrived` in monotonic seconds, `tokenization` in seconds."""

    request_id: str
    sender: Any
    query: Tensor
    wanted: Tensor
    arrived: float
    tokenization: float


class TritonPythonModel:
    """As many requests are under way as the causal LM has rows, each on a thread of its own that mostly waits."""

    def initialize(self, args: dict[str, str]) -> None:
        """Draw the documents and embed them; raises what torch raises if the device is not there."""
        began = time.monotonic()
        parameters = parameters_of(args)
        torch.set_num_threads(int(parameters["threads"]))
        self.embedding, self.reranking, self.generator = (parameters[name] for name in ("embedding", "reranking", "generator"))
        self.top, self.candidates, self.device = int(parameters["top"]), int(parameters["candidates"]), parameters["device"]
        shape = {key: int(parameters[key]) for key in ("layers", "width", "heads", "vocabulary", "context")}
        counts = (int(parameters[key]) for key in ("documents_seed", "documents", "document_tokens"))
        encoder = seeded(int(parameters["seed"]), self.device, task="embedding", **shape)
        self.index = Index(draw_documents(*counts, shape["vocabulary"]), encoder, self.device)
        self.text = Text(Path(__file__).parent / "tokenizer.json") if parameters["text"] == "true" else None
        self.journal = Journal(Path(__file__).parent)
        self.server, self.closer = ModelClient(), _Closer()
        self.threads = ThreadPoolExecutor(int(parameters["sequences"]), thread_name_prefix="retrieve")
        leave_with_server()
        pb_utils.Logger.log_info(f"indexed {len(self.index.documents)} documents in {time.monotonic() - began:.2f}s")

    def execute(self, requests: list[Any]) -> None:
        """Hand requests to the threads and return at once: Triton keeps delivering while earlier ones stream."""
        for request in requests:
            arrived = time.monotonic()
            self.journal.started(request.request_id())
            sender = request.get_response_sender()
            try:
                query = prompt_of(request, self.text)
            except ValueError as error:
                sender.send(refusal(str(error)), flags=FINAL)
                continue
            # The request's own memory is Triton's again once this method has returned.
            max_tokens = tensor_of(request, "MAX_TOKENS").clone()
            tokenization = time.monotonic() - arrived if self.text else 0.0
            self.threads.submit(self._serve, RetrievalRequest(request.request_id(), sender, query, max_tokens, arrived, tokenization))

    def finalize(self) -> None:
        """Wait for what is under way, so that Triton can release its requests."""
        self.threads.shutdown()
        self.closer.end()

    def _serve(self, request: RetrievalRequest) -> None:
        try:
            self._answer(request)
        except ModelRequestFailed as error:
            request.sender.send(refusal(str(error)), flags=FINAL)
        except RequestCancelled:
            self.closer.close(request.sender)
        except BaseException as error:  # noqa: BLE001
            # A thread that dies silently leaves its client waiting for the timeout; a dead stub is an error at once.
            pb_utils.Logger.log_error(f"retrieval failed: {type(error).__name__}: {error}")
            os._exit(1)

    @torch.inference_mode()
    def _answer(self, request: RetrievalRequest) -> None:
        _go_on(request)
        began = time.monotonic()
        queued = began - request.arrived - request.tokenization
        ids = request.query.to(torch.int32)
        vector = self.server.answer(self.embedding, {"IDS": ids[None]})["VECTOR"][0]
        embedded = time.monotonic()
        nearest = self.index.nearest(vector, self.candidates)
        searched = time.monotonic()
        texts = self.index.documents[nearest]
        pairs = torch.cat([ids.expand(len(texts), -1), texts], 1)
        scores = self.server.answer(self.reranking, {"IDS": pairs})["SCORE"].flatten()
        chosen = scores.topk(self.top).indices
        reranked = time.monotonic()
        prompt = torch.cat([texts[chosen].flatten(), ids])
        _go_on(request)
        spent = [request.tokenization, embedded - began, searched - embedded, reranked - searched, queued]
        self._generate(request, prompt, nearest[chosen].to(torch.int32), spent)

    def _generate(self, request: RetrievalRequest, prompt: Tensor, documents: Tensor, spent: list[float]) -> None:
        """Stream the causal LM's answer. `spent`: seconds of the stages until now."""
        stream = self.server.stream(self.generator, {"PROMPT_IDS": prompt, "MAX_TOKENS": request.wanted})
        for tensors in stream:
            server_times = tensors.pop("SERVER_TIMES", None)
            if server_times is not None:
                self._send_last(request, tensors, documents, [*spent, *server_times.tolist()[1:]])
                stream.read_out()
                return
            if request.sender.is_cancelled():
                stream.cancel()
                raise RequestCancelled
            request.sender.send(_response(tensors))
        raise ModelRequestFailed(f"{self.generator}: the answer ended without its last token")

    def _send_last(self, request: RetrievalRequest, tensors: dict[str, Tensor], documents: Tensor, spent: list[float]) -> None:
        """The last response. `spent`: seconds of the stages up to the queue here, then those of the causal LM from its queue on."""
        *until, queued, generator_queued, prefill, decode, post_processing = spent
        stages = [*until, queued + generator_queued, prefill, decode, post_processing]
        times = [*stages, time.monotonic() - request.arrived - sum(stages)]
        if self.text:
            tensors["INPUT_TOKENS"] = torch.tensor([len(request.query)], dtype=torch.int32)
        tensors |= {"DOCUMENTS": documents, "SERVER_TIMES": torch.tensor(times, dtype=torch.float64)}
        request.sender.send(_response(tensors), flags=FINAL)
        self.journal.finished(request.request_id)


class _Closer:
    """Closes what was given up when the server has long dealt with its cancellation."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[tuple[float, Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="close", daemon=True)
        self._thread.start()

    def close(self, sender: Any) -> None:
        self._waiting.put((time.monotonic() + CLOSE_AFTER_S, sender))

    def end(self) -> None:
        """Return once all are closed."""
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (first := self._waiting.get()) is not None:
            due, sender = first
            time.sleep(max(0.0, due - time.monotonic()))
            sender.send(flags=FINAL)


def _go_on(request: RetrievalRequest) -> None:
    """Raises RequestCancelled if nobody waits for the answer any more."""
    if request.sender.is_cancelled():
        raise RequestCancelled


def _response(tensors: dict[str, Tensor]) -> Any:
    return pb_utils.InferenceResponse([output(name, values) for name, values in tensors.items()])
