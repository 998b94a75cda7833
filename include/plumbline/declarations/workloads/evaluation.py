"""Checks of a served model beside the load: a user's own questions, and the required share of a reference's quality."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from plumbline.declarations.base import Declared, DeclaredPattern
from plumbline.declarations.workloads.checkpoints import Checkpoint
from plumbline.declarations.workloads.models import ServingPrecision
from plumbline.declarations.workloads.text_file import add_content, read_text
from plumbline.declarations.workloads.workload import Seed
from plumbline.declarations.yaml_source import FieldPath
from plumbline.formats.reading.pattern import compiled
from plumbline.formats.reading.text_file import UnusableFile, json_lines
from plumbline.metrics.units import Percent

MAX_TEXT_BYTES = 256 * 2**10


class Quality(Declared):
    """How much of the reference's output a served checkpoint must keep, on a fixed set of prompts.

    `reference`: a precision of the same model, or a checkpoint that the same engine serves.
    `agreement`: share of tokens that are the reference's, each predicted after the reference's own tokens (teacher forcing).
    `log_probability_difference`, the mean over the reference's tokens (nats, absolute), and `perplexity_increase` on
    the text file `text` in `evaluations/` beside the declarations, whose content travels in the trial as `passage`.
    """

    reference: ServingPrecision | Checkpoint = "fp32"
    agreement: Percent = Field(gt=0, le=1)
    prompts: int = Field(16, ge=4, le=1024)
    log_probability_difference: float | None = Field(None, gt=0, description="at most so many nats")
    text: str | None = Field(None, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)*\.txt$")
    perplexity_increase: Percent | None = Field(None, gt=0, description="at most so much above the reference's")
    passage: str | None = None

    @property
    def reference_precision(self) -> ServingPrecision:
        """Precision of the reference's weights."""
        return self.reference if isinstance(self.reference, str) else self.reference.precision

    @model_validator(mode="after")
    def _with_text(self) -> Quality:
        if self.perplexity_increase is not None and self.text is None:
            raise ValueError("perplexity_increase without text; expected the name of a .txt file in evaluations/")
        return self


def load_passage(data: Any, folder: Path) -> list[tuple[FieldPath, str]]:
    """Add the content of `quality.text` to an inference workload's data; its problems, by field."""

    def read(quality: Quality) -> dict[str, Any]:
        if quality.text is None:
            return {}
        content = read_text(folder, quality.text)
        if not content.strip() or len(content.encode()) > MAX_TEXT_BYTES:
            raise UnusableFile(f"{quality.text} has {len(content.encode()):,} bytes of text; expected some, at most {MAX_TEXT_BYTES:,}")
        return {"passage": content}

    return add_content(data, ("quality",), Quality, "text", ("passage",), read)


MAX_QUESTIONS = 10_000
MAX_BYTES = 2**20
"""Most bytes of a trial's questions, as JSON: its document carries them."""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Question(Declared):
    """A prompt and exactly one of `answer` (text), `choices` with `answer` (the right one's letter, from A on), `pattern` (a regular expression
    that is searched in the model's answer)."""

    prompt: str = Field(min_length=1)
    answer: str | None = Field(None, min_length=1)
    choices: tuple[str, ...] | None = Field(None, min_length=2, max_length=len(LETTERS))
    pattern: DeclaredPattern | None = Field(None, min_length=1)

    @model_validator(mode="after")
    def _check_expected_answer(self) -> Question:
        if (self.answer is None) == (self.pattern is None) or (self.choices is not None and self.pattern is not None):
            raise ValueError("expected answer, or choices and answer, or pattern")
        if self.choices is not None and self.answer not in tuple(LETTERS[: len(self.choices)]):
            raise ValueError(f"answer is not a letter of its choices; expected one of {', '.join(LETTERS[: len(self.choices)])}")
        return self

    @property
    def text(self) -> str:
        """The prompt for the model, with its choices by letter."""
        if self.choices is None:
            return self.prompt
        listed = "\n".join(f"{letter}. {choice}" for letter, choice in zip(LETTERS, self.choices, strict=False))
        return f"{self.prompt}\n{listed}\nAnswer with the letter of the right choice."

    def accepts(self, output: str) -> bool:
        """Whether the model's output is right. An expected text must begin the output, or be all of one of its lines, regardless of case and
        of spaces; of choices the first letter that stands alone counts."""
        if self.pattern is not None:
            return compiled(self.pattern).search(output) is not None
        assert self.answer is not None
        if self.choices is not None:
            letter = re.search(rf"(?<![A-Za-z])[{LETTERS[: len(self.choices)]}](?![A-Za-z])", output)
            return letter is not None and letter[0] == self.answer
        expected = _normalize(self.answer)
        lines = [_normalize(line) for line in output.splitlines()]
        return expected in lines or re.match(rf"{re.escape(expected)}(?!\w)", _normalize(output)) is not None


class Evaluation(Declared):
    """Questions of the JSONL file `file` in `evaluations/` beside the declarations, which the model answers greedily, through its chat template
    if `chat`. What a trial asks becomes `questions` when declarations are read, so that a trial carries its questions and their hash."""

    file: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)*\.jsonl$")
    sample: int | None = Field(None, ge=1, le=MAX_QUESTIONS, description="questions, drawn by seed; all if omitted")
    seed: Seed = 7
    output_tokens: int = Field(64, ge=1, le=65536, description="limit of an answer")
    chat: bool = Field(True, description="false: the prompt is continued as it is")
    accuracy: Percent | None = Field(None, gt=0, le=1, description="share of right answers below which a trial is invalid")
    lost: Percent | None = Field(
        None, ge=0, le=1, description="percentage points below the reference's accuracy beyond which a trial is invalid"
    )
    questions: tuple[Question, ...] | None = Field(None, min_length=1, max_length=MAX_QUESTIONS)


def read_questions(folder: Path, declared: Evaluation) -> tuple[Question, ...]:
    """The declared questions of the file, in the order of the file. UnusableFile."""
    name = declared.file
    questions = [_question(where, record) for where, _, record in json_lines(read_text(folder, name), name, _EXAMPLE)]
    if not questions:
        raise UnusableFile(f"{name} holds no question; expected lines such as {_EXAMPLE}")
    if declared.sample is not None and declared.sample > len(questions):
        raise UnusableFile(
            f"sample {declared.sample} of {name}, which holds {len(questions)} questions; expected at most {len(questions)}", "sample"
        )
    if declared.sample is not None:
        # By a hash: the same questions on every machine and in every version of Python.
        order = sorted(range(len(questions)), key=lambda i: hashlib.sha256(f"{declared.seed} {i}".encode()).digest())
        questions = [questions[i] for i in sorted(order[: declared.sample])]
    if len(questions) > MAX_QUESTIONS or (size := sum(len(each.model_dump_json(exclude_none=True)) for each in questions)) > MAX_BYTES:
        taken = f"{len(questions):,} questions" if len(questions) > MAX_QUESTIONS else f"{size:,} bytes of questions"
        raise UnusableFile(f"{name} has {taken}; expected at most {MAX_QUESTIONS:,} and {MAX_BYTES:,} bytes in all: set sample")
    return tuple(questions)


def load_questions(data: Any, folder: Path) -> list[tuple[FieldPath, str]]:
    """Add the questions of `evaluation` to an inference workload's data; its problems, by field."""

    def read(evaluation: Evaluation) -> dict[str, Any]:
        return {"questions": [each.model_dump(mode="json", exclude_none=True) for each in read_questions(folder, evaluation)]}

    return add_content(data, ("evaluation",), Evaluation, "file", ("questions",), read)


_EXAMPLE = '{"prompt": "2 + 2 =", "answer": "4"}'


def _question(where: str, record: object) -> Question:
    try:
        return Question.model_validate_json(json.dumps(record))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))
        reason = first["msg"].removeprefix("Value error, ")
        raise UnusableFile(f"{where}{f', {field}' if field else ''}: {reason}; expected a question such as {_EXAMPLE}") from None


def _normalize(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".!")
