"""Tasks of lm-eval on a served model: lm-eval runs in a process of its own, and the trial answers what it asks."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.declarations.workloads.evaluation import TaskEvaluation, metric_of
from plumbline.harness import engine_python
from plumbline.harness.inference.load.served_tokenizer import Unread
from plumbline.harness.inference.phases.outputs import OutputClient, PromptTokens, TokenIds
from plumbline.harness.measurement import Judgement, TrialFailed, invalid
from plumbline.metrics import Phase
from plumbline.metrics.proportions import wilson_interval
from plumbline.results import FailureClass, MetricRow, Scalar, metric_row

_FIELD = "evaluation.lm_eval"
_REMEDY = f"{_FIELD} needs it; expected an image whose engine Python has it (pip install lm-eval, version 0.4.13 or later)"
_ENDS_WITHIN_S = 10.0
_LAST_BYTES = 400
_PHASE: Phase = "cold_start"


@dataclass(frozen=True)
class TaskScores:
    """Of one declared task. `right`: of each question of each of its parts, bool."""

    name: str
    right: Mapping[str, NDArray[np.bool_]]

    @property
    def all(self) -> NDArray[np.bool_]:
        return np.concatenate(list(self.right.values()))


@dataclass
class TaskEvaluator:
    """A running lm-eval that has loaded its tasks. `context`: the model's, once it is known. `asked`, `truncated`: prompts that servers have
    answered, and those that lost their beginning."""

    declared: TaskEvaluation
    log: Path
    process: subprocess.Popen[str]
    context: int | None = None
    version: str = ""
    tasks: list[dict[str, Any]] = field(default_factory=list)
    asked: int = 0
    truncated: int = 0

    def evaluate(self, client: OutputClient, tokens: PromptTokens | None) -> list[TaskScores]:
        """Ask one server all questions. NotReported, and TrialFailed as of `client`; "bad_declaration" for a task that turns out to be none."""
        self._send({"evaluate": True})
        while "right" not in (message := self._receive()):
            if "score" in message:
                assert tokens is not None
                self._send({"scores": self._scores(client, tokens, message["score"])})
            else:
                self._send({"texts": self._texts(client, tokens, message["generate"])})
        right = {part: np.array(values, bool) for part, values in message["right"].items()}
        return [TaskScores(task["name"], {part["task"]: right[part["task"]] for part in task["parts"]}) for task in self.tasks]

    def facts(self, scores: Sequence[TaskScores]) -> dict[str, Scalar]:
        facts: dict[str, Scalar] = {"evaluation.lm_eval": self.version, "evaluation.truncated": self.truncated}
        for task, each in zip(self.tasks, scores, strict=True):
            first = task["parts"][0]
            parts = "" if len(task["parts"]) == 1 else f", {len(task['parts'])} tasks"
            about = f"version {first['version']}, {first['metric']}, {first['few_shot']} examples, {len(each.all)} questions{parts}"
            facts[f"evaluation.task.{task['name']}"] = about
        return facts

    def _load(self) -> None:
        loaded = self._receive()["loaded"]
        self.version, self.tasks = loaded["version"], loaded["tasks"]

    def require_generation(self) -> None:
        """TrialFailed("bad_declaration") for a task that compares log-probabilities of given answers."""
        for part in (part for task in self.tasks for part in task["parts"]):
            if part["kind"] != "generate_until":
                raise TrialFailed(
                    "bad_declaration",
                    f"{_FIELD}.tasks: {part['task']} compares log-probabilities of given answers, which an external server does not report; "
                    "expected a task whose answers are generated, such as gsm8k",
                )

    def _scores(self, client: OutputClient, tokens: PromptTokens, pairs: Sequence[Sequence[Any]]) -> list[tuple[float, bool]]:
        """Of each continuation after its context: its log-probability (nats), and whether it is the greedy one."""
        sequences, lengths = self._pairs(tokens, pairs)
        self.asked += len(sequences)
        scored = client.scores(sequences)
        scores = [(each.log_probability[-n:], each.greedy[-n:]) for each, n in zip(scored, lengths, strict=True)]
        return [(float(values.sum()), bool(greedy.all())) for values, greedy in scores]

    def _pairs(self, tokens: PromptTokens, pairs: Sequence[Sequence[Any]]) -> tuple[list[TokenIds], list[int]]:
        """Token ids of each context with its continuation, and how many of them are the continuation's, at least one."""
        conversations = iter(tokens.tokenized([tuple(context) for context, _ in pairs if not isinstance(context, str)]))
        contexts = [context if isinstance(context, str) else next(conversations).text for context, _ in pairs]
        # Spaces at the end of a context belong to the next word's token.
        before = [text.rstrip() if isinstance(context, str) else text for text, (context, _) in zip(contexts, pairs, strict=True)]
        whole = [text + continuation for text, (_, continuation) in zip(contexts, pairs, strict=True)]
        read = tokens.read([*before, *whole], chat=False)
        token_pairs, lengths = [], []
        for first, both in zip(read[: len(pairs)], read[len(pairs) :], strict=True):
            # Without a context there is no probability of the first token.
            n = min(max(len(both) - len(first), 1), len(both) - 1)
            ids = self._fitting(both, 1)
            token_pairs.append(ids)
            lengths.append(min(n, len(ids) - 1))
        return token_pairs, lengths

    def _texts(self, client: OutputClient, tokens: PromptTokens | None, requests: Sequence[Sequence[Any]]) -> list[str]:
        self.asked += len(requests)
        prompts: list[Unread] = [context if isinstance(context, str) else tuple(context) for context, _, _ in requests]
        prompts = self._fitting_prompts(tokens, prompts, [limit for _, _, limit in requests])
        options = [(limit, tuple(stops)) for _, stops, limit in requests]
        texts = [""] * len(requests)
        for (limit, stops), group in groupby(sorted(range(len(requests)), key=options.__getitem__), key=options.__getitem__):
            numbers = list(group)
            answers = client.answers([prompts[i] for i in numbers], limit, chat=False, stop=stops)
            for i, answer in zip(numbers, answers, strict=True):
                texts[i] = answer
        return texts

    def _fitting_prompts(self, tokens: PromptTokens | None, prompts: list[Unread], limits: Sequence[int]) -> list[Unread]:
        """Those that the context has no room for without their beginning; a conversation has none to lose."""
        if tokens is None or self.context is None:
            return prompts
        fitting = []
        for prompt, limit, ids in zip(prompts, limits, tokens.read(prompts, chat=False), strict=True):
            if len(ids) + limit <= self.context:
                fitting.append(prompt)
            elif not isinstance(prompt, str) or limit >= self.context:
                raise TrialFailed(
                    "bad_declaration",
                    f"{_FIELD}: a question has {len(ids)} tokens, and up to {limit} out, over the model's context of {self.context}; "
                    "expected fewer examples (few_shot), or other tasks",
                )
            else:
                fitting.append(tokens.text(self._fitting(ids, limit).tolist()))
        return fitting

    def _fitting(self, ids: TokenIds, room: int) -> TokenIds:
        if self.context is None or len(ids) + room <= self.context:
            return ids
        self.truncated += 1
        return ids[-(self.context - room) :]

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
        except OSError as error:
            raise self._failure() from error

    def _receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise self._failure()
        message: dict[str, Any] = json.loads(line)
        if "failed" in message:
            failure: FailureClass = "unreachable" if message["unreachable"] else "bad_declaration"
            expected = "; expected a machine that reaches the dataset's hub, or tasks of a folder" if message["unreachable"] else ""
            raise TrialFailed(failure, f"{_FIELD}: {message['failed']}{expected}")
        return message

    def _failure(self) -> TrialFailed:
        self.process.wait(_ENDS_WITHIN_S)
        last = self.log.read_text(encoding="utf-8", errors="replace").strip()[-_LAST_BYTES:]
        return TrialFailed("harness_error", f"lm-eval ended with exit status {self.process.returncode}: {' '.join(last.split())}")

    def close(self) -> None:
        """End the process; a second time does nothing."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # what it did not read is of no use
                pipe.close()


@contextmanager
def task_evaluator(declared: TaskEvaluation, workdir: Path, variables: Mapping[str, str]) -> Iterator[TaskEvaluator]:
    """lm-eval with its tasks loaded, until the block ends. `variables`: for its environment. TrialFailed: "image_error" without lm-eval,
    "bad_declaration" for unknown or unusable tasks, "unreachable" if their datasets cannot be fetched."""
    python = engine_python.describe()
    python.require("lm_eval", _REMEDY)
    folder = workdir / "lm-eval"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (declared.files or {}).items():
        path = folder / "tasks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    own = folder / "tasks" if declared.files else None
    job = {**declared.model_dump(include={"tasks", "limit", "few_shot", "chat"}, mode="json"), "folder": None if own is None else str(own)}
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [engine_python.executable(), "-m", "plumbline.harness.inference.phases.lm_eval_worker", str(folder / "job.json")],
            cwd=own or folder,
            env={**engine_python.environment(), "TOKENIZERS_PARALLELISM": "false", **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            encoding="utf-8",
        )
    evaluator = TaskEvaluator(declared, folder / "log", process)
    try:
        evaluator._load()
        yield evaluator
    finally:
        evaluator.close()


def accuracy_rows(scores: Sequence[TaskScores], version: str) -> list[MetricRow]:
    """One of each task, with Wilson's interval."""
    rows = []
    for each in scores:
        n, right = len(each.all), int(each.all.sum())
        share = wilson_interval(right, n)
        ci = None if share.low is None or share.high is None else (share.low, share.high)
        rows.append(metric_row(metric_of(each.name), share.ratio, n, phase=_PHASE, ci=ci, method=f"lm-eval {version}, {each.name}"))
    return rows


def judge_tasks(declared: TaskEvaluation, scores: Sequence[TaskScores], before: Sequence[TaskScores] | None) -> list[Judgement]:
    """What makes a trial invalid: a task below its declared accuracy, or too far below the reference's."""
    judged = []
    for i, each in enumerate(scores):
        accuracy, least = float(each.all.mean()), declared.accuracy.get(each.name)
        if least is not None and accuracy < least:
            detail = f"{each.name}: {int(each.all.sum())} of {len(each.all)} questions are answered right ({accuracy:.1%})"
            judged.append(invalid("quality_lost", f"{detail}; expected at least {least:.1%}"))
        if declared.lost is not None and before is not None and (was := float(before[i].all.mean())) - accuracy > declared.lost:
            detail = f"{each.name}: {accuracy:.1%} of {len(each.all)} questions are answered right, by the reference {was:.1%}"
            judged.append(invalid("quality_lost", f"{detail}; expected at most {100 * declared.lost:g} points less"))
    return judged
