"""Outputs of a served model outside of any load: answers to questions, greedy continuations, log-probabilities of given tokens."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import grpc
import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json
from tokenizers import Tokenizer
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc

from plumbline.harness.inference.load import model_wires
from plumbline.harness.inference.load.served_tokenizer import ServedTokenizer, TemplateFailed, Unread
from plumbline.harness.measurement import TrialFailed
from plumbline.loadclient.http_responses import MAX_INFLATED_BODY
from plumbline.loadclient.openai_responses import usage_counts
from plumbline.loadclient.round_trip import http_connection
from plumbline.loadclient.stated_errors import body_message
from plumbline.loadclient.transport import Target
from plumbline.loadclient.wire import TOKENS, Tensor, Wire

TokenIds = NDArray[np.int32]
_ANSWER_WITHIN_S = 300.0
_AT_ONCE = 16
_QUOTED_BYTES = 300
T = TypeVar("T")
TokenCounts = tuple[int, int, int, int]
"""Token counts of one answer by the server, in the order of request_log.USAGE; -1: not reported."""


class NotReported(Exception):
    """The server does not report log-probabilities of given tokens; the message says what it answered."""


@dataclass(frozen=True)
class TokenScores:
    """Scores of one sequence, for each token after the first: its log-probability (nats), and whether it is the most probable one."""

    log_probability: NDArray[np.float64]
    greedy: NDArray[np.bool_]

    def last(self, n: int) -> TokenScores:
        return TokenScores(self.log_probability[-n:], self.greedy[-n:])


class PromptTokens:
    """Token ids of texts by the tokenizer of the checkpoint in `folder`, and texts of token ids; each text is read once.

    Raises TrialFailed("bad_declaration") for a tokenizer that cannot be loaded and a chat template that fails."""

    def __init__(self, tokenizer: ServedTokenizer, folder: Path) -> None:
        self._tokenizer, self._folder = tokenizer, folder
        self._known: dict[str, TokenIds] = {}

    def read(self, prompts: Sequence[Unread], *, chat: bool) -> list[TokenIds]:
        """The answer to each prompt; `chat`: of each text as a user's message in the chat template."""
        asked = [_message(prompt) if chat else prompt for prompt in prompts]
        keys = [json.dumps(prompt) for prompt in asked]
        new = {key: prompt for key, prompt in zip(keys, asked, strict=True) if key not in self._known}
        try:
            read = self._tokenizer.read(list(new.values())) if new else []
        except ValueError as error:
            raise TrialFailed("bad_declaration", str(error)) from error
        for key, each in zip(new, read, strict=True):
            if isinstance(each, TemplateFailed):
                raise TrialFailed("bad_declaration", f"the checkpoint's chat template fails: {each.reason}")
            self._known[key] = each.ids
        return [self._known[key] for key in keys]

    def text(self, ids: Sequence[int]) -> str:
        return self._decoder.decode(list(ids), skip_special_tokens=True)

    @cached_property
    def _decoder(self) -> Tokenizer:
        return Tokenizer.from_file(str(self._folder / "tokenizer.json"))


def _message(prompt: Unread) -> Unread:
    return ({"role": "user", "content": prompt},) if isinstance(prompt, str) else prompt


class TritonOutputs:
    """A model on Triton that takes and gives token ids (backends/generation.py). Each method, as of OpenAiOutputs, raises
    TrialFailed("server_error") if the server refuses, fails or does not answer."""

    def __init__(self, address: str, model: str, tokens: PromptTokens) -> None:
        self._address, self._model, self._tokens = address, model, tokens

    def answers(self, prompts: Sequence[Unread], output_tokens: int, *, chat: bool) -> list[str]:
        """Greedy answers that end where the model ends them, after `output_tokens` at the latest. `chat`: a text goes through the chat template,
        as conversations always do."""
        read = self._tokens.read(prompts, chat=chat)
        requests = [self._request(i, ids, output_tokens, NATURAL=1) for i, ids in enumerate(read)]
        return [self._tokens.text(np.concatenate(tensors[TOKENS]).tolist()) for tensors in self._streamed(requests)]

    def continuations(self, prompts: Sequence[TokenIds], output_tokens: int) -> list[TokenIds]:
        """Greedy tokens after each prompt until the model ends, its end of text included, at most `output_tokens`. NotReported if the server
        reports no token ids."""
        requests = [self._request(i, ids, output_tokens, NATURAL=1) for i, ids in enumerate(prompts)]
        return [np.concatenate(tensors[TOKENS]).astype(np.int32) for tensors in self._streamed(requests)]

    def scores(self, sequences: Sequence[TokenIds]) -> list[TokenScores]:
        """Scores of sequences of at least two tokens. NotReported if the server gives none."""
        answered = self._streamed([self._request(i, ids, 1, SCORE=1) for i, ids in enumerate(sequences)])
        if answered and model_wires.LOG_PROBABILITIES not in answered[0]:
            raise NotReported(f"the model {self._model} answers without {model_wires.LOG_PROBABILITIES}")
        return [
            TokenScores(
                np.concatenate(tensors[model_wires.LOG_PROBABILITIES]).astype(np.float64), np.concatenate(tensors[model_wires.GREEDY]) != 0
            )
            for tensors in answered
        ]

    def _request(self, number: int, ids: TokenIds, output_tokens: int, **flags: int) -> Any:
        numbers = {"PROMPT_IDS": ids, "MAX_TOKENS": np.array([output_tokens]), **{name: np.array([value]) for name, value in flags.items()}}
        tensors = [Tensor(name, "INT32", value.astype(np.int32)) for name, value in numbers.items()]
        return messages.ModelInferRequest.FromString(Wire("stream", self._model, {}).body(number, tensors))

    def _streamed(self, requests: Sequence[Any]) -> list[dict[str, list[NDArray[Any]]]]:
        """All values of each request's outputs, in the order of its responses."""
        tensors: list[dict[str, list[NDArray[Any]]]] = [{} for _ in requests]
        with grpc.insecure_channel(self._address) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            try:
                for message in stub.ModelStreamInfer(iter(requests), timeout=_ANSWER_WITHIN_S + len(requests)):
                    if message.error_message:
                        raise TrialFailed("server_error", f"the check of the outputs was refused: {message.error_message}")
                    response = message.infer_response
                    for output, data in zip(response.outputs, response.raw_output_contents, strict=False):
                        kind = {"INT32": "<i4", "FP32": "<f4"}.get(output.datatype)
                        if kind is not None:
                            tensors[int(response.id)].setdefault(output.name, []).append(np.frombuffer(data, kind))
            except grpc.RpcError as error:
                raise TrialFailed("server_error", f"the check of the outputs was not answered: {error.code()}") from error
        if missing := sum(TOKENS not in each for each in tensors):
            raise TrialFailed("server_error", f"the check of the outputs got {len(tensors) - missing} of {len(tensors)} answers")
        return tensors


class OpenAiOutputs:
    """An OpenAI-compatible server. Token ids and log-probabilities of given tokens are vLLM's and SGLang's extensions of the protocol.

    `on_usage` gets each answer's count, from any thread."""

    def __init__(self, target: Target, on_usage: Callable[[TokenCounts], object] = lambda _: None) -> None:
        self._target, self._model, self._on_usage = target, target.wire.model, on_usage

    def answers(self, prompts: Sequence[Unread], output_tokens: int, *, chat: bool) -> list[str]:
        limits: dict[str, Any] = {self._target.limit: output_tokens, "temperature": 0}

        def one(connection: http.client.HTTPConnection, prompt: Unread) -> str:
            messages = _message(prompt) if chat else prompt
            as_text = isinstance(messages, str)
            question = {"prompt": messages} if as_text else {"messages": list(messages)}
            choice = self._choice(self._post(connection, "/completions" if as_text else "/chat/completions", {**question, **limits}))
            text = choice.get("text") if as_text else (choice.get("message") or {}).get("content")
            return text if isinstance(text, str) else ""  # a model may think until its limit and say nothing

        return self._in_threads(one, prompts)

    def continuations(self, prompts: Sequence[TokenIds], output_tokens: int) -> list[TokenIds]:
        limits = {self._target.limit: output_tokens, "temperature": 0, "return_token_ids": True}

        def one(connection: http.client.HTTPConnection, ids: TokenIds) -> TokenIds:
            choice = self._choice(self._post(connection, "/completions", {"prompt": ids.tolist(), **limits})).get("token_ids")
            if not isinstance(choice, list) or not choice:
                raise NotReported("the server answers /completions without choices[0].token_ids")
            return np.array(choice, np.int32)

        return self._in_threads(one, prompts)

    def scores(self, sequences: Sequence[TokenIds]) -> list[TokenScores]:
        def one(connection: http.client.HTTPConnection, ids: TokenIds) -> TokenScores:
            body = {"prompt": ids.tolist(), self._target.limit: 1, "temperature": 0, "prompt_logprobs": 0}
            reported = self._choice(self._post(connection, "/completions", body)).get("prompt_logprobs")
            if not isinstance(reported, list) or len(reported) != len(ids):
                raise NotReported("the server answers /completions without choices[0].prompt_logprobs")
            own = [position.get(str(token)) for position, token in zip(reported[1:], ids[1:].tolist(), strict=True)]
            if any(each is None or "logprob" not in each or "rank" not in each for each in own):
                raise NotReported("choices[0].prompt_logprobs lacks tokens of the prompt, or their rank")
            return TokenScores(np.array([each["logprob"] for each in own], np.float64), np.array([each["rank"] == 1 for each in own]))

        return self._in_threads(one, sequences)

    def _in_threads(self, one: Callable[[http.client.HTTPConnection, T], Any], items: Sequence[T]) -> list[Any]:
        """Some requests at a time, each thread on a connection of its own."""
        width = min(_AT_ONCE, len(items))

        def some(k: int) -> list[Any]:
            with self._connection() as connection:
                return [one(connection, each) for each in items[k::width]]

        with ThreadPoolExecutor(width or 1, "outputs") as pool:
            parts = list(pool.map(some, range(width)))
        return [parts[i % width][i // width] for i in range(len(items))]

    @contextmanager
    def _connection(self) -> Iterator[http.client.HTTPConnection]:
        connection = http_connection(self._target, _ANSWER_WITHIN_S)
        try:
            yield connection
        except (OSError, http.client.HTTPException) as error:
            raise TrialFailed("server_error", f"the check of the outputs was not answered: {_line(error)}") from error
        finally:
            connection.close()

    def _post(self, connection: http.client.HTTPConnection, path: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        body = json.dumps({"model": self._model, **fields})
        connection.request("POST", self._target.url(path), body, {**self._target.headers, "Content-Type": "application/json"})
        response = connection.getresponse()
        content = response.read(MAX_INFLATED_BODY + 1)
        if len(content) > MAX_INFLATED_BODY:
            raise TrialFailed("server_error", f"the check of the outputs got more than {MAX_INFLATED_BODY:,} bytes; expected an answer")
        if response.status != 200:
            quote = self._target.quoted(body_message(content).message)
            raise TrialFailed("server_error", f"the check of the outputs was refused: HTTP {response.status}: {quote}")
        try:
            parsed = from_json(content)
        except ValueError as error:
            raise TrialFailed("server_error", f"the check of the outputs got no JSON: {_line(error)}") from error
        if not isinstance(parsed, dict):
            raise TrialFailed("server_error", "the check of the outputs got no JSON object")
        usage = parsed.get("usage")
        self._on_usage(usage_counts(usage if isinstance(usage, dict) else {}))
        return parsed

    @staticmethod
    def _choice(answer: Mapping[str, Any]) -> dict[str, Any]:
        choices = answer.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            raise TrialFailed("server_error", "the check of the outputs got an answer without choices")
        return choices[0]


OutputClient = TritonOutputs | OpenAiOutputs


def output_client(target: Target, tokens: PromptTokens | None, on_usage: Callable[[TokenCounts], object] = lambda _: None) -> OutputClient:
    """A client of the server. `tokens`: of a Triton, which takes token ids. `on_usage`: see `OpenAiOutputs`. ValueError for a server whose
    answers are not text."""
    if target.protocol.startswith("openai"):
        return OpenAiOutputs(target, on_usage)
    if target.protocol != "kserve_grpc" or tokens is None:
        raise ValueError(f"outputs of a server over {target.protocol} cannot be checked; expected openai or openai_chat")
    return TritonOutputs(target.address, target.wire.model, tokens)


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:_QUOTED_BYTES]
