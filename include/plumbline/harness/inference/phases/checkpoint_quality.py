"""Output quality of a served checkpoint: against a reference on the same engine, and on the user's evaluation set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.workloads.checkpoints import Checkpoint, ServedModel
from plumbline.declarations.workloads.evaluation import Evaluation, Quality
from plumbline.formats.reading.pattern import SlowPattern
from plumbline.harness.inference.checkpoint.fetched import FetchedCheckpoint
from plumbline.harness.inference.load.served_tokenizer import CheckpointTokenizer
from plumbline.harness.inference.phases.outputs import (
    NotReported,
    OutputClient,
    PromptTokens,
    TokenCounts,
    TokenIds,
    TokenScores,
    output_client,
)
from plumbline.harness.inference.phases.trial_record import TrialRecord
from plumbline.harness.inference.server.assembly import ServerPlace, assemble, with_provider_args
from plumbline.harness.inference.server.under_test import all_running
from plumbline.harness.measurement import EvidenceFile, TrialFailed, TrialJudgement, invalid, present
from plumbline.loadclient.transport import Target
from plumbline.metrics import Phase
from plumbline.results import MetricRow, metric_row, share_row

_CONTINUATION = 32
"""Tokens that the reference adds to each prompt at most. It ends where the model ends: a forced token would not be its choice."""
_LONGEST_PROMPT, _WINDOW = 512, 512
_PHASE: Phase = "cold_start"
_SEED = 20240229


@dataclass(frozen=True)
class QualityResult:
    """`rows`: output_agreement and others. `judgements`: one for each limit that is missed. `asked`: requests that the server answered."""

    rows: list[MetricRow]
    judgements: list[TrialJudgement]
    asked: int
    evidence: list[EvidenceFile] = field(default_factory=list)


@dataclass(frozen=True)
class ReferenceOutputs:
    """The reference's answers. `sequences`: each prompt with its continuation; `scores`: of the continuations, of which `continued` are the
    lengths; `passage`: of the windows of the declared text; `right`: of each question. `unreported`: why there are no scores."""

    sequences: tuple[TokenIds, ...] = ()
    continued: tuple[int, ...] = ()
    scores: tuple[TokenScores, ...] = ()
    passage: tuple[TokenScores, ...] = ()
    right: NDArray[np.bool_] | None = None
    unreported: str | None = None


def reference_workload(workload: InferenceWorkload) -> InferenceWorkload:
    """The workload that serves the reference: its checkpoint, or the model's own in the reference precision. Its context is the model's, so that
    both answer the same prompts."""
    assert workload.quality is not None
    reference = workload.quality.reference
    if isinstance(reference, Checkpoint):
        model: ServedModel = reference.model_copy(update={"context": workload.model.context})
    else:
        model = workload.model.model_copy(update={"precision": reference})
    # What quantises the model under test must not quantise its reference.
    arguments = {name: value for name, value in workload.server.engine_args.items() if name != "quantization"}
    server = workload.server.model_copy(update={"engine_args": arguments})
    return workload.model_copy(update={"model": model, "server": server, "replicas": None})


def ask_reference(client: OutputClient, workload: InferenceWorkload, tokens: PromptTokens) -> ReferenceOutputs:
    """The reference's outputs, from its server. TrialFailed as of `OutputClient`."""
    quality = workload.quality
    assert quality is not None
    right = evaluate(client, workload.evaluation) if workload.evaluation is not None else None
    prompts = _prompts(workload, quality, tokens)
    room = int(workload.model.context or _LONGEST_PROMPT) - max(map(len, prompts)) - 1
    try:
        answers = client.continuations(prompts, min(_CONTINUATION, room))
        sequences = [np.concatenate(pair) for pair in zip(prompts, answers, strict=True)]
        continued = tuple(map(len, answers))
        scores = [each.last(n) for each, n in zip(client.scores(sequences), continued, strict=True)]
        passage = client.scores(_windows(workload, quality, tokens))
    except NotReported as error:
        return ReferenceOutputs(right=right, unreported=str(error))
    return ReferenceOutputs(tuple(sequences), continued, tuple(scores), tuple(passage), right)


def check(
    client: OutputClient,
    workload: InferenceWorkload,
    tokens: PromptTokens | None,
    reference: ReferenceOutputs | None,
    workdir: Path,
) -> QualityResult:
    """Rows of phase cold_start, and what makes the trial invalid. `tokens`: needed with a quality only."""
    rows: list[MetricRow] = []
    judgements: list[TrialJudgement | None] = []
    evidence: list[EvidenceFile] = []
    count = 0
    if workload.evaluation is not None:
        right = evaluate(client, workload.evaluation)
        count += len(right)
        before = None if reference is None else reference.right
        rows += _accuracy_rows(right, before)
        judgements += _judge_accuracy(right, before, workload.evaluation)
        evidence.append(_answers(right, before, workdir))
    if workload.quality is not None and reference is not None:
        assert tokens is not None
        try:
            if reference.unreported is not None:
                raise NotReported(reference.unreported)
            comparison = _compare(client, workload, workload.quality, tokens, reference)
        except NotReported as error:
            judgements.append(invalid("quality_unchecked", f"{error}: the speed is measured, the quality of the outputs is not"))
        else:
            rows, judgements, count = rows + comparison.rows, [*judgements, *comparison.judgements], count + comparison.asked
    return QualityResult(rows, present(*judgements), count, evidence)


def check_questions(declared: Evaluation, context: int, tokens: PromptTokens) -> None:
    """TrialFailed("bad_declaration") for the first question that is too long for the model's context."""
    questions = declared.questions or ()
    for i, ids in enumerate(tokens.read([question.text for question in questions], chat=declared.chat), start=1):
        if len(ids) + declared.output_tokens > context:
            raise TrialFailed(
                "bad_declaration",
                f"question {i} of evaluation.file {declared.file} has {len(ids)} tokens, and up to {declared.output_tokens} out, over the model's "
                f"context of {context}; expected at most the context",
            )


def evaluate(client: OutputClient, declared: Evaluation) -> NDArray[np.bool_]:
    """Whether each question is answered right, bool [questions]."""
    questions = declared.questions or ()
    outputs = client.answers([question.text for question in questions], declared.output_tokens, chat=declared.chat)
    try:
        return np.array([question.accepts(answer) for question, answer in zip(questions, outputs, strict=True)], bool)
    except SlowPattern as error:
        raise TrialFailed("bad_declaration", f"evaluation.file {declared.file}: {error}") from None


def _compare(
    client: OutputClient, workload: InferenceWorkload, quality: Quality, tokens: PromptTokens, reference: ReferenceOutputs
) -> QualityResult:
    served = [each.last(n) for each, n in zip(client.scores(reference.sequences), reference.continued, strict=True)]
    greedy = np.concatenate([each.greedy for each in served])
    agreement, n = float(greedy.mean()), len(greedy)
    difference = float(np.abs(_concatenate(served) - _concatenate(reference.scores)).mean())
    rows = [
        metric_row("output_agreement", agreement, n, phase=_PHASE),
        metric_row("log_probability_difference", difference, n, phase=_PHASE),
    ]
    judgements = [judge_agreement(agreement, quality, workload.model.precision, n)]
    limit = quality.log_probability_difference
    if limit is not None and difference > limit:
        judgements.append(
            invalid("quality_lost", f"log-probabilities differ by {difference:.3g} nats from the reference's; expected at most {limit:g}")
        )
    count = len(served)
    if reference.passage:
        scored = client.scores(_windows(workload, quality, tokens))
        count += len(scored)
        perplexity, before = (float(np.exp(-_concatenate(scores).mean())) for scores in (scored, reference.passage))
        n_scored = len(_concatenate(scored))
        rows += [
            metric_row("perplexity", perplexity, n_scored, phase=_PHASE),
            metric_row("perplexity_ratio", perplexity / before, n_scored, phase=_PHASE),
        ]
        most = quality.perplexity_increase
        if most is not None and perplexity / before - 1 > most:
            detail = f"perplexity is {perplexity:.4g}, the reference's {before:.4g}: {perplexity / before - 1:+.2%}; expected at most {most:+.2%}"
            judgements.append(invalid("quality_lost", detail))
    return QualityResult(rows, present(*judgements), count)


def _concatenate(scores: Sequence[TokenScores]) -> NDArray[np.float64]:
    return np.concatenate([each.log_probability for each in scores])


def _prompts(workload: InferenceWorkload, quality: Quality, tokens: PromptTokens) -> list[TokenIds]:
    """The evaluation set's questions, else parts of the declared text, else random ids; each leaves half of the context free."""
    context, vocabulary = int(workload.model.context or 2 * _LONGEST_PROMPT), int(workload.model.vocabulary or 0)
    longest = min(_LONGEST_PROMPT, context // 2)
    if workload.evaluation is not None:
        texts = [question.text for question in (workload.evaluation.questions or ())[: quality.prompts]]
        return [ids[-longest:] for ids in tokens.read(texts, chat=workload.evaluation.chat)]
    if quality.passage is not None:
        (ids,) = tokens.read([quality.passage], chat=False)
        size = max(1, min(longest, len(ids) // quality.prompts))
        return [ids[k * size : (k + 1) * size] for k in range(quality.prompts) if len(ids) >= (k + 1) * size]
    return quality_prompts(vocabulary, context, quality.prompts)


def quality_prompts(vocabulary: int, context: int, n: int) -> list[TokenIds]:
    """The fixed set of prompts for a model: random ids, from an eighth to half of the context long."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([_SEED, vocabulary, context])))
    longest = min(context // 2, _LONGEST_PROMPT)
    lengths = np.linspace(max(1, longest // 4), longest, n).astype(int)
    return [rng.integers(0, vocabulary, length, dtype=np.int32) for length in lengths]


def judge_agreement(agreement: float, quality: Quality, precision: str, n: int) -> TrialJudgement | None:
    if agreement >= quality.agreement:
        return None
    detail = (
        f"the outputs in {precision} agree with {quality.reference_precision} to {agreement:.1%} over {n} answers; "
        f"expected at least {quality.agreement:.1%}: the speed was bought with the answers"
    )
    return invalid("quality_lost", detail)


def _windows(workload: InferenceWorkload, quality: Quality, tokens: PromptTokens) -> list[TokenIds]:
    """The declared text in pieces that overlap by one token, so that each token but the first is scored once."""
    if quality.passage is None:
        return []
    (ids,), size = tokens.read([quality.passage], chat=False), min(_WINDOW, int(workload.model.context or _WINDOW) - 1)
    return [piece for k in range(0, len(ids) - 1, size - 1) if len(piece := ids[k : k + size]) > 1]


def _accuracy_rows(right: NDArray[np.bool_], before: NDArray[np.bool_] | None) -> list[MetricRow]:
    answered = (("answer_accuracy", right), ("reference_accuracy", before))
    return [share_row(name, int(each.sum()), len(each), phase=_PHASE) for name, each in answered if each is not None]


def _judge_accuracy(right: NDArray[np.bool_], before: NDArray[np.bool_] | None, declared: Evaluation) -> list[TrialJudgement | None]:
    accuracy, n, judged = float(right.mean()), len(right), []
    if declared.accuracy is not None and accuracy < declared.accuracy:
        detail = f"{int(right.sum())} of {n} questions are answered right ({accuracy:.1%}); expected at least {declared.accuracy:.1%}"
        judged.append(invalid("quality_lost", detail))
    if declared.lost is not None and before is not None and float(before.mean()) - accuracy > declared.lost:
        detail = f"{accuracy:.1%} of {n} questions are answered right, by the reference {float(before.mean()):.1%}; "
        judged.append(invalid("quality_lost", f"{detail}expected at most {100 * declared.lost:g} points less"))
    return [*judged]


def _answers(right: NDArray[np.bool_], before: NDArray[np.bool_] | None, folder: Path) -> EvidenceFile:
    """Which questions of the evaluation set were answered right; no text of question or answer."""
    columns = {"question": np.arange(len(right)), "right": right} | ({} if before is None else {"reference_right": before})
    return EvidenceFile.of_table("evaluation", pa.table(columns), folder)


Reference = tuple[FetchedCheckpoint, InferenceWorkload]
"""The reference's files, and the workload that serves them."""


@dataclass
class OutputCheck:
    """The output check of the workload, as its checkpoint resolved it. `tokens`: by the checkpoint's tokenizer; None: an external server reads text."""

    workload: InferenceWorkload
    tokens: PromptTokens | None = None
    reference: Reference | None = None
    answered: ReferenceOutputs | None = None

    @classmethod
    def of(cls, workload: InferenceWorkload, folder: Path, reference: Reference | None) -> OutputCheck | None:
        """None if the workload declares neither quality nor evaluation. `folder`: of the served checkpoint.

        TrialFailed("bad_declaration") for a question that is too long for the model."""
        if workload.quality is None and workload.evaluation is None:
            return None
        tokens = PromptTokens(CheckpointTokenizer(folder, workload.model.context), folder)
        if workload.evaluation is not None and workload.model.context is not None:
            check_questions(workload.evaluation, workload.model.context, tokens)
        return cls(workload, tokens, reference)

    def ask_reference(self, record: TrialRecord, place: ServerPlace) -> None:
        """Start the reference, if there is one, on the same engine, ask it, and stop it. TrialFailed as of a server under test."""
        if self.reference is None:
            return
        assert self.tokens is not None
        fetched, model = self.reference[0], with_provider_args(self.reference[1], record.trial.provider)
        folder = place.workdir / "reference"
        folder.mkdir(parents=True, exist_ok=True)
        served = assemble(model, replace(place, workdir=folder, cpus=place.cpus[:1], variables=place.variables[:1]), fetched.folder)
        record.report("cold_start", 0.0, f"starting {served.servers[0].program} with the reference in {model.model.precision}")
        try:
            with all_running(served.servers):
                record.event("reference_ready")
                client = output_client(served.target(), self.tokens)
                self.answered = ask_reference(client, model, self.tokens)
        finally:
            log = served.servers[0].log
            if log.exists() and not record.private_texts:
                record.result.evidence.append(EvidenceFile("reference_log", log.rename(place.workdir / "reference.log")))
        record.event("reference_stopped")

    def check(self, record: TrialRecord, target: Target) -> int:
        """Ask the server under test and record what its outputs are worth; the number of requests that it answered."""
        record.report("cold_start", 0.0, "checking the outputs")
        counted: list[TokenCounts] = []
        client = output_client(target, self.tokens, counted.append)
        try:
            result = check(client, self.workload, self.tokens, self.answered, record.workdir)
        finally:
            if record.workload.server.backend == "external":
                for counts in counted:  # a hosted model bills them as it bills the load's
                    record.usage.add_answer("cold_start", counts)
        record.event("outputs_checked")
        record.result.metrics += result.rows
        record.result.judgements += result.judgements
        record.result.evidence += result.evidence
        return result.asked
