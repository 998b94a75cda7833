"""Twenty questions of three users are answered on a page within three clicks, and on the command line; docs/measurements/questions.md lists them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.browser.questions import QUESTIONS, asked, installation

from plumbline.dashboard.app import create_app

ROOT = Path(__file__).resolve().parents[2]
PAGE_ONLY = {"Who still runs the old driver?"}
"""What no command lists."""


@pytest.mark.full
def test_every_question_is_answered_where_it_is_asked(tmp_path: Path) -> None:
    with installation(tmp_path), TestClient(create_app()) as client:
        wrong = []
        for question in QUESTIONS:
            answer = asked(client, question)
            wrong += [f"{answer.path}: {question.text}"] if not answer.page else []
            wrong += [f"{question.command}: {question.text}"] if answer.command is (question.text in PAGE_ONLY) else []
    assert wrong == []


def test_three_users_ask_twenty_questions_within_three_clicks_as_the_page_lists_them() -> None:
    assert len(QUESTIONS) == 20 and min(Counter(question.who for question in QUESTIONS).values()) >= 6
    assert max(len(question.clicks) for question in QUESTIONS) <= 3
    listed = (ROOT / "docs" / "measurements" / "questions.md").read_text(encoding="utf-8")
    missing = [q.text for q in QUESTIONS if f"| {q.text} | {' → '.join(q.clicks)} |" not in listed]
    assert missing == []
