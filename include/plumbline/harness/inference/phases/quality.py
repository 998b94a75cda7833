"""Agreement of a served model's answers with those of the reference precision.

The reference answers a fixed set of prompts beside the server, from the same seed. A causal LM is asked for one token after each prompt, and
after the prompt with the reference's first tokens: one early difference then costs one token (teacher forcing).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.workloads.checkpoints import Checkpoint
from plumbline.declarations.workloads.evaluation import Quality
from plumbline.declarations.workloads.models import Encoder
from plumbline.harness import engine_python, image_requirements
from plumbline.harness.environment.cpu import allotted_cores
from plumbline.harness.inference.analysis import validity
from plumbline.harness.inference.server.backends import Repository
from plumbline.harness.measurement import EvidenceFile, Judgement, TrialFailed, invalid
from plumbline.loadclient.prompt import Prompt
from plumbline.results import MetricRow, metric_row

_SEED = 20240229
_TOKENS = 8
"""Tokens that a causal LM is asked for after each prompt."""
_LONGEST = 512
_REFERENCE_WITHIN_S, _ANSWERS_WITHIN_S = 600.0, 300.0
Values = NDArray[np.float64]
TokenIds = NDArray[np.int32]


@dataclass(frozen=True)
class QualityResult:
    """`rows`: output_agreement and others. `judgements`: one for each limit that is missed. `asked`: requests that the server answered."""

    rows: list[MetricRow]
    judgements: list[Judgement]
    asked: int
    evidence: list[EvidenceFile] = field(default_factory=list)


def check(workload: InferenceWorkload, repository: Repository, *addresses: str) -> QualityResult:
    """Ask the servers at `addresses` and compare; of several, the lowest agreement counts. The workload must declare a `quality`.

    Raises TrialFailed: "server_error" if it does not answer, "harness_error" if the reference cannot be computed, "timeout" if that takes
    over ten minutes.
    """
    quality, model = workload.quality, workload.model
    if quality is None:
        raise ValueError(f"workload {workload.name} declares no quality; expected one to check")
    if (unchecked := validity.quality_unchecked(workload)) is not None:
        return QualityResult([], [unchecked], 0)
    if isinstance(model, Checkpoint):
        raise TypeError(f"workload {workload.name} serves a checkpoint, whose reference is another run of its engine; expected a shape")
    prompts = quality_prompts(model.vocabulary, model.context, quality.prompts)
    tokens = min(_TOKENS, model.context - max(map(len, prompts)))
    reference = _reference(workload, quality, prompts, tokens)
    if isinstance(model, Encoder):
        bodies = [repository.body(i, Prompt(ids), 1) for i, ids in enumerate(prompts)]
        name, exact = next(iter(repository.wire.responses)), np.array(reference, np.float64)

        def agreement_of(address: str) -> float:
            answers = np.array([np.frombuffer(a, "<f4") for a in _unary(address, bodies, name)], np.float64)
            return correlation(exact[:, 0], answers[:, 0]) if model.task == "reranking" else least_cosine(exact, answers)

    else:
        forced = teacher_forced(prompts, [np.array(answer, np.int32) for answer in reference])
        bodies = [repository.body(i, Prompt(ids), 1) for i, ids in enumerate(forced)]

        def agreement_of(address: str) -> float:
            got = [int(np.frombuffer(answer, "<i4")[0]) for answer in _streamed(address, bodies, "TOKEN")]
            return float(np.mean(np.array(got) == np.array(reference).reshape(-1)))

    agreement = min(agreement_of(address) for address in addresses)
    n = len(bodies) * len(addresses)
    rows = [metric_row("output_agreement", agreement, n, phase="cold_start")]
    lost = judge_agreement(agreement, quality, model.precision, n)
    return QualityResult(rows, [lost] if lost else [], n)


def quality_prompts(vocabulary: int, context: int, n: int) -> list[TokenIds]:
    """The fixed set of prompts for a model: random ids, from an eighth to half of the context long."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([_SEED, vocabulary, context])))
    longest = min(context // 2, _LONGEST)
    lengths = np.linspace(max(1, longest // 4), longest, n).astype(int)
    return [rng.integers(0, vocabulary, length, dtype=np.int32) for length in lengths]


def teacher_forced(prompts: Sequence[TokenIds], reference: Sequence[TokenIds]) -> list[TokenIds]:
    """Each prompt followed by none, one, two … of the reference's tokens, in order of the expected tokens."""
    return [np.concatenate([prompt, answer[:k]]) for prompt, answer in zip(prompts, reference, strict=True) for k in range(len(answer))]


def least_cosine(reference: Values, served: Values) -> float:
    """The least cosine similarity of any two rows of [texts, width]; NaN if a vector is none."""
    norms = np.linalg.norm(reference, axis=1) * np.linalg.norm(served, axis=1)
    with np.errstate(invalid="ignore"):
        return float(((reference * served).sum(axis=1) / norms).min())


def correlation(reference: Values, served: Values) -> float:
    """Correlation of two lists of scores [texts]; NaN if one of them does not vary."""
    with np.errstate(invalid="ignore"):
        return float(np.corrcoef(reference, served)[0, 1])


def judge_agreement(agreement: float, quality: Quality, precision: str, n: int) -> Judgement | None:
    if agreement >= quality.agreement:
        return None
    detail = (
        f"the outputs in {precision} agree with {quality.reference_precision} to {agreement:.1%} over {n} answers; "
        f"expected at least {quality.agreement:.1%}: the speed was bought with the answers"
    )
    return invalid("quality_lost", detail)


def _reference(workload: InferenceWorkload, quality: Quality, prompts: Sequence[TokenIds], tokens: int) -> Any:
    question = {
        "shape": workload.model.model_dump(mode="json"),
        "precision": quality.reference_precision,
        "device": "cpu" if workload.needs.accelerator == "cpu" else "cuda",
        "threads": allotted_cores(),
        "prompts": [ids.tolist() for ids in prompts],
        "tokens": tokens,
    }
    command = [engine_python.executable(), "-m", "plumbline.harness.inference.models.reference_worker"]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(question),
            env=engine_python.environment(),
            capture_output=True,
            text=True,
            timeout=_REFERENCE_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TrialFailed("timeout", f"the reference's answers took longer than {_REFERENCE_WITHIN_S:g}s") from error
    if done.returncode:
        raise TrialFailed(
            "image_error" if image_requirements.find_image_fault(done.stderr) else "harness_error",
            f"the reference's answers were not computed: {' | '.join(done.stderr.strip().splitlines()[-3:])}",
        )
    return json.loads(done.stdout)


def _streamed(address: str, bodies: Sequence[bytes], name: str) -> list[bytes]:
    outputs: dict[int, bytes] = {}
    with grpc.insecure_channel(address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        requests = (messages.ModelInferRequest.FromString(body) for body in bodies)
        try:
            for message in stub.ModelStreamInfer(requests, timeout=_ANSWERS_WITHIN_S):
                if message.error_message:
                    raise TrialFailed("server_error", f"the check of the outputs was refused: {message.error_message}")
                if (answer := _output(message.infer_response, name)) is not None:
                    outputs[int(message.infer_response.id)] = answer
        except grpc.RpcError as error:
            raise TrialFailed("server_error", f"the check of the outputs was not answered: {error.code()}") from error
    return _complete(outputs, len(bodies))


def _unary(address: str, bodies: Sequence[bytes], name: str) -> list[bytes]:
    with grpc.insecure_channel(address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        calls = [stub.ModelInfer.future(messages.ModelInferRequest.FromString(body), timeout=_ANSWERS_WITHIN_S) for body in bodies]
        try:
            answers = {i: _output(call.result(), name) for i, call in enumerate(calls)}
        except grpc.RpcError as error:
            raise TrialFailed("server_error", f"the check of the outputs was not answered: {error.code()}, {error.details()}") from error
    return _complete({i: answer for i, answer in answers.items() if answer is not None}, len(bodies))


def _output(response: Any, name: str) -> bytes | None:
    named = {output.name: data for output, data in zip(response.outputs, response.raw_output_contents, strict=False)}
    return named.get(name) or None


def _complete(outputs: dict[int, bytes], n: int) -> list[bytes]:
    if len(outputs) < n:
        raise TrialFailed("server_error", f"the check of the outputs got {len(outputs)} of {n} answers")
    return [outputs[i] for i in range(n)]
