"""lm-eval's stand-in in its own process, against the small server of test_checkpoint_quality."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.fakes import lm_eval_package
from tests.unit.harness.inference.phases.test_checkpoint_quality import TABLE, VOCABULARY, Model, Numbers, server, workload

from plumbline.declarations.workloads.evaluation import Evaluation, TaskEvaluation
from plumbline.harness.inference.phases import checkpoint_quality
from plumbline.harness.inference.phases.outputs import OpenAiOutputs
from plumbline.harness.inference.phases.task_evaluation import TaskEvaluator, task_evaluator
from plumbline.harness.measurement import TrialFailed

__all__ = ["server"]
QUESTIONS = 12


def task(name: str, **fields: Any) -> str:
    return json.dumps({"task": name, "output_type": "multiple_choice", "data": "data.jsonl", **fields})


def files(**more: str) -> dict[str, str]:
    """Whose right choice is the more probable next token, by the exact table, of 0 to 3 after a token."""
    choices = [str(k) for k in range(4)]
    lines = [
        {"text": f"9 {i}", "choices": choices, "answer": str(int(TABLE[i % VOCABULARY, :4].argmax()))} for i in range(10, 10 + QUESTIONS)
    ]
    return {"next.yaml": task("next"), "data.jsonl": "\n".join(map(json.dumps, lines)), **more}


def declared(**fields: Any) -> TaskEvaluation:
    return TaskEvaluation.model_validate_json(json.dumps({"tasks": ["next"], "files": files(), **fields}))


class Words(Numbers):
    def tokenized(self, prompts: Sequence[Any]) -> Any:
        return []


@pytest.fixture(autouse=True)
def lm_eval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = lm_eval_package.install(tmp_path / "packages")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]))


def test_a_task_is_a_metric_with_its_interval(server: OpenAiOutputs, tmp_path: Path) -> None:
    asked = workload(log_probability_difference=10.0)
    evaluation = Evaluation(lm_eval=declared(lost="1%", accuracy={"next": "99%"}))
    assert evaluation.lm_eval is not None
    asked = asked.model_copy(update={"evaluation": evaluation})
    with task_evaluator(evaluation.lm_eval, tmp_path, {}) as tasks:
        reference = checkpoint_quality.ask_reference(server, asked, Words(), tasks)  # type: ignore[arg-type]
        exact = checkpoint_quality.check(server, asked, Words(), reference, tmp_path, tasks)  # type: ignore[arg-type]
        Model.blur = 3.0
        blurred = checkpoint_quality.check(server, asked, Words(), reference, tmp_path, tasks)  # type: ignore[arg-type]
    (row,) = [each for each in exact.rows if each.metric == "task_accuracy_next"]
    assert (row.value, row.n, row.ci_high, row.direction) == (1.0, QUESTIONS, 1.0, "higher_is_better")
    assert row.ci_low is not None and 0.7 < row.ci_low < 1
    assert exact.judgements == [] and exact.asked >= 4 * QUESTIONS
    assert exact.facts["evaluation.lm_eval"] == "0.4.13"
    assert "acc" in str(exact.facts["evaluation.task.next"])
    (row,) = [each for each in blurred.rows if each.metric == "task_accuracy_next"]
    assert row.value is not None and row.value < 0.9
    assert [judged.reason.code for judged in blurred.judgements].count("quality_lost") >= 2
    table = pq.read_table(blurred.evidence[0].path)
    assert table.column_names == ["task", "question", "right", "reference_right"]
    assert set(table["task"].to_pylist()) == {"next"} and all(table["reference_right"].to_pylist())


def test_answers_are_generated_and_cut_at_the_tasks_end(server: OpenAiOutputs, tmp_path: Path) -> None:
    said = declared(tasks=["says"], files=files(**{"says.yaml": task("says", output_type="generate_until")}), chat=True, limit=5)

    class Says(OpenAiOutputs):
        def _post(self, connection: Any, path: str, asked: Any) -> dict[str, Any]:
            assert (path, asked["stop"], asked["max_tokens"]) == ("/chat/completions", ["|"], 4)
            word = asked["messages"][0]["content"].split()[-1]
            return {"choices": [{"message": {"content": f"{int(TABLE[int(word), :4].argmax())} | more"}}]}

    with task_evaluator(said, tmp_path, {}) as tasks:
        (scores,) = tasks.evaluate(Says(server._target), None)
    assert (scores.name, scores.all.tolist()) == ("says", [True] * 5)


@pytest.mark.parametrize(
    ("fields", "failure", "named"),
    [
        ({"tasks": ["nxet"]}, "bad_declaration", ["nxet", "next"]),
        ({"files": files(**{"next.yaml": task("next", output_type="loglikelihood_rolling")})}, "bad_declaration", ["next", "perplexity"]),
        ({"files": files(**{"next.yaml": task("next", metric="bleu")})}, "bad_declaration", ["next", "bleu"]),
        ({"files": files(**{"next.yaml": task("next", broken=1)})}, "unreachable", ["next", "expected"]),
        ({"files": files(**{"next.yaml": task("next", data="none.jsonl")})}, "bad_declaration", ["next", "none.jsonl"]),
    ],
)
def test_a_task_that_cannot_be_used_is_named_before_a_server_starts(
    tmp_path: Path, fields: dict[str, Any], failure: str, named: list[str]
) -> None:
    with pytest.raises(TrialFailed) as failed, task_evaluator(declared(**fields), tmp_path, {}):
        pass
    assert failed.value.failure_class == failure
    assert all(name in failed.value.detail for name in ["evaluation.lm_eval", *named])


def test_an_external_server_is_asked_to_generate_only(tmp_path: Path) -> None:
    with task_evaluator(declared(), tmp_path, {}) as tasks, pytest.raises(TrialFailed, match="next") as failed:
        tasks.require_generation()
    assert failed.value.failure_class == "bad_declaration"


def test_without_lm_eval_the_image_is_at_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [part for part in __import__("sys").path if "packages" not in Path(part).name or "site" in part])
    with pytest.raises(TrialFailed, match="lm_eval") as failed, task_evaluator(declared(), tmp_path, {}):
        pass
    assert failed.value.failure_class == "image_error"


def test_a_server_without_log_probabilities_leaves_the_accuracy_unknown(server: OpenAiOutputs, tmp_path: Path) -> None:
    Model.scored = False
    asked = workload().model_copy(update={"quality": None, "evaluation": Evaluation(lm_eval=declared())})
    with task_evaluator(declared(), tmp_path, {}) as tasks:
        found = checkpoint_quality.check(server, asked, Words(), None, tmp_path, tasks)  # type: ignore[arg-type]
    assert [judged.reason.code for judged in found.judgements] == ["quality_unchecked"]
    assert found.rows == found.evidence == []


def test_a_process_that_ends_is_reported_with_its_last_words(server: OpenAiOutputs, tmp_path: Path) -> None:
    with task_evaluator(declared(), tmp_path, {}) as tasks:
        tasks.process.kill()
        with pytest.raises(TrialFailed, match="-9") as failed:
            tasks.evaluate(server, Words())  # type: ignore[arg-type]
    assert failed.value.failure_class == "harness_error"


class Spaced:
    """A token a character, after one that begins each text."""

    def tokenized(self, prompts: Sequence[Any]) -> Any:
        return []

    def read(self, prompts: Sequence[str], *, chat: bool) -> list[Any]:
        return [np.array([1, *map(ord, text)], np.int32) for text in prompts]


def test_a_long_context_loses_its_beginning(tmp_path: Path) -> None:
    with task_evaluator(declared(), tmp_path, {}) as tasks:
        tasks.context = 8
        found, lengths = tasks._pairs(Spaced(), [["ab ", "cd"], ["0123456789", "xy"], ["", "z"]])  # type: ignore[arg-type]
    assert lengths == [3, 2, 1], "the space goes with the word; without a context the first token has no probability"
    assert [ids.tolist() for ids in found] == [[1, *map(ord, "ab cd")], [*map(ord, "56789xy")], [1, ord("z")]]
    assert tasks.truncated == 1


def test_the_evaluator_is_gone_after_its_block(tmp_path: Path) -> None:
    with task_evaluator(declared(), tmp_path, {}) as tasks:
        assert isinstance(tasks, TaskEvaluator) and tasks.process.poll() is None
        tasks.close()
    assert tasks.process.poll() is not None
