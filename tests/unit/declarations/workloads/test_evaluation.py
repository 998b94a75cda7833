from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from plumbline.declarations import InferenceWorkload, load
from plumbline.declarations.workloads.evaluation import Evaluation, EvaluationError, Question, load_questions, load_tasks, read_questions

LINES = '{"prompt": "2 + 2 =", "answer": "4"}\n\n{"prompt": "Sky?", "choices": ["blue", "green"], "answer": "A"}\n{"prompt": "Year?", "pattern": "\\\\b20\\\\d\\\\d\\\\b"}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "evaluations"
    folder.mkdir()
    (folder / "own.jsonl").write_text(LINES)
    return folder


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        ({"prompt": "?", "answer": "Paris"}, ["Paris", "paris.", "It is\nParis", "Paris, of course"], ["Parish", "not Paris", ""]),
        ({"prompt": "?", "choices": ["a", "b"], "answer": "B"}, ["B", "B. b", "the answer is (B)"], ["A", "Bb", ""]),
        ({"prompt": "?", "pattern": r"\b7\b"}, ["it is 7", "7"], ["17", "seven"]),
    ],
)
def test_an_answer_is_right_as_its_kind_says(question: dict[str, object], right: list[str], wrong: list[str]) -> None:
    found = Question.model_validate_json(json.dumps(question))
    assert [found.accepts(text) for text in right] == [True] * len(right)
    assert [found.accepts(text) for text in wrong] == [False] * len(wrong)


def test_choices_are_shown_by_letter(folder: Path) -> None:
    shown = read_questions(folder, Evaluation(file="own.jsonl"))[1].text.splitlines()
    assert shown[:3] == ["Sky?", "A. blue", "B. green"]


def test_a_sample_is_the_same_everywhere_and_in_the_files_order(folder: Path) -> None:
    (folder / "many.jsonl").write_text("".join(f'{{"prompt": "{i}", "answer": "{i}"}}\n' for i in range(50)))
    first = [int(q.prompt) for q in read_questions(folder, Evaluation(file="many.jsonl", sample=5, seed=1))]
    assert first == sorted(first) == [1, 16, 32, 35, 47]
    assert first != [int(q.prompt) for q in read_questions(folder, Evaluation(file="many.jsonl", sample=5, seed=2))]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", ["own.jsonl", "expected"]),
        ("{", ["own.jsonl:1"]),
        ('{"prompt": "x", "answer": "y"}\n{"prompt": "x"}', ["own.jsonl:2", "pattern"]),
        ('{"prompt": "x", "answer": 4}', ["own.jsonl:1", "answer"]),
        ('{"prompt": "x", "choices": ["a", "b"], "answer": "C"}', ["own.jsonl:1", "A, B"]),
        ('{"prompt": "x", "pattern": "("}', ["own.jsonl:1", "pattern"]),
        ('{"prompt": "x", "answer": "y", "id": 3}', ["own.jsonl:1", "id"]),
    ],
)
def test_a_wrong_line_is_named(folder: Path, text: str, named: list[str]) -> None:
    (folder / "own.jsonl").write_text(text)
    with pytest.raises(EvaluationError) as caught:
        read_questions(folder, Evaluation(file="own.jsonl"))
    assert [name for name in named if name not in str(caught.value)] == []


def test_questions_travel_in_the_declaration(folder: Path) -> None:
    data = {"evaluation": {"file": "own.jsonl"}}
    assert load_questions(data, folder) == []
    assert [question["prompt"] for question in data["evaluation"]["questions"]] == ["2 + 2 =", "Sky?", "Year?"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("declared", "field"),
    [
        ({"file": "none.jsonl"}, ("evaluation", "file")),
        ({"file": "own.jsonl", "sample": 9}, ("evaluation", "sample")),
        ({"file": "own.jsonl", "questions": []}, ("evaluation", "questions")),
    ],
)
def test_a_problem_names_its_field(folder: Path, declared: dict[str, object], field: tuple[str, ...]) -> None:
    ((found, message),) = load_questions({"evaluation": declared}, folder)
    assert found == field and "expected" in message


TASK = "task: own\ndataset_path: json\ndataset_kwargs: {data_files: {test: data.jsonl}}\nprocess_docs: !function utils.clean\n"


def tasks(folder: Path, **fields: object) -> tuple[list[tuple[tuple[str | int, ...], str]], dict[str, object]]:
    lm_eval: dict[str, object] = {"tasks": ["own"], "folder": "own", **fields}
    return load_tasks({"evaluation": {"lm_eval": lm_eval}}, folder), lm_eval


def test_a_trial_carries_the_files_of_its_own_tasks(folder: Path) -> None:
    (folder / "own" / "__pycache__").mkdir(parents=True)
    for name, text in (("own.yaml", TASK), ("data.jsonl", "{}\n"), ("utils.py", "def clean(docs): ..."), ("__pycache__/x.py", "")):
        (folder / "own" / name).write_text(text)
    problems, found = tasks(folder)
    assert problems == []
    assert found["files"] == {"data.jsonl": "{}\n", "own.yaml": TASK, "utils.py": "def clean(docs): ..."}
    evaluation = Evaluation.model_validate_json(json.dumps({"lm_eval": found}))
    assert Evaluation.model_validate_json(evaluation.model_dump_json()) == evaluation
    assert evaluation.file is None and evaluation.lm_eval is not None and evaluation.lm_eval.files == found["files"]


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({}, ["own", "folder"]),
        ({"data.jsonl": ""}, [".yaml"]),
        ({"own.yaml": "task: ["}, ["own/own.yaml", "YAML"]),
        ({"own.yaml": "- task"}, ["own/own.yaml", "mapping"]),
        ({"own.yaml": TASK}, ["own/own.yaml", "data.jsonl"]),
        ({"own.yaml": "task: own", "more.txt": "x" * 2**20}, ["bytes"]),
    ],
)
def test_a_folder_that_holds_no_tasks_is_refused_when_read(folder: Path, files: dict[str, str], named: list[str]) -> None:
    for name, text in files.items():
        (folder / "own").mkdir(exist_ok=True)
        (folder / "own" / name).write_text(text)
    (problem,) = tasks(folder)[0]
    assert problem[0] == ("evaluation", "lm_eval", "folder")
    assert all(name in problem[1] for name in [*named, "expected"])


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({}, ["file", "lm_eval"]),
        ({"lm_eval": {"tasks": []}}, ["lm_eval.tasks"]),
        ({"lm_eval": {"tasks": ["a_b", "a-b"]}}, ["a_b", "a-b", "task_accuracy_a_b"]),
        ({"lm_eval": {"tasks": ["a"], "accuracy": {"b": "50%"}}}, ["accuracy", "b"]),
        ({"sample": 3, "lm_eval": {"tasks": ["a"]}}, ["sample", "file"]),
    ],
)
def test_an_evaluation_asks_something(fields: dict[str, object], named: list[str]) -> None:
    with pytest.raises(ValidationError) as refused:
        Evaluation.model_validate_json(json.dumps(fields))
    (error,) = refused.value.errors()
    assert all(name in f"{'.'.join(map(str, error['loc']))} {error['msg']}" for name in named)


def test_a_criterion_can_name_a_declared_task_only() -> None:
    base = load().workloads["chat-hosted"].model_dump(mode="json", exclude_defaults=True) | {"kind": "inference"}

    def made(criterion: str) -> InferenceWorkload:
        fields = {"evaluation": {"lm_eval": {"tasks": ["arc_easy"], "limit": 200}}, "acceptance": [criterion]}
        return InferenceWorkload.model_validate_json(json.dumps(base | fields))

    assert made("task_accuracy_arc_easy >= 60% in cold_start").acceptance[0].limit == 0.6
    with pytest.raises(ValidationError, match="task_accuracy_arc_easy"):
        made("task_accuracy_arc >= 60% in cold_start")
