from __future__ import annotations

import json
from pathlib import Path

import pytest

from plumbline.declarations.workloads.evaluation import Evaluation, Question, load_questions, read_questions
from plumbline.formats.reading.text_file import UnusableFile

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
    with pytest.raises(UnusableFile) as caught:
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
