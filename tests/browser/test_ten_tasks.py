"""Ten tasks of a stranger who follows visible links only: each is done in at most three clicks. docs/pages.md lists the same paths."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.full  # simulates months of a fleet first
DOCUMENTED = (Path(__file__).resolve().parents[2] / "docs" / "pages.md").read_text(encoding="utf-8")
CLICKS = 3


@dataclass(frozen=True)
class Task:
    """`clicks`: visible link texts, from the overview; `answer`: a pattern of what is then on the page."""

    question: str
    clicks: tuple[str, ...]
    answer: str


TASKS = (
    Task("What drifted?", ("Open findings",), r"aurora-us-h100: pretrain-1b-gpu trains [\d.]+ % slower"),
    Task("Why did it become slower?", ("Open findings", "driver 550.90.07"), r"matmul"),
    Task("Who is cheapest for each workload?", ("cost",), r"USD per million\s+aurora-us-h100"),
    Task(
        "Where should team product serve its model?",
        ("product · inference",),
        r"cirrus-eu-h100, \d+ % sure; aurora-us-h100 is \d+ % cheaper",
    ),
    Task("How sure is that?", ("product · inference",), r"Probability of being first"),
    Task("How did a provider develop over the year?", ("aurora-us-h100",), r"speed index"),
    Task("When did a price rise?", ("Prices", "borealis-eu-h100"), r"2026-09-01"),
    Task("How fast is my workload on each provider?", ("chat-1b-gpu",), r"cirrus-eu-h100[\s\S]*borealis-eu-h100"),
    Task("Which run is behind a number, and how do I repeat it?", ("chat-1b-gpu", "Trials", "02:00 r1"), r"plumbline replay "),
    Task("Where is the month's report?", ("report",), r"October 2026"),
)


@pytest.fixture(scope="module")
def address(fleet_address: str) -> str:
    return fleet_address


def follow(page: Page, text: str) -> None:
    """Click the first visible link with that text, or whose text begins with it, else whose text contains it; else unfold what has it as its title."""
    for pattern in (rf"^\s*{re.escape(text)}\s*$", rf"^\s*{re.escape(text)}", re.escape(text)):
        found = page.get_by_role("link", name=re.compile(pattern)).filter(visible=True)
        if found.count():
            found.first.click()
            page.wait_for_load_state("load")
            return
    folded = page.locator("summary").filter(has_text=text, visible=True)
    if folded.count():
        folded.first.click()
        return
    raise AssertionError(f"no visible link {text!r} on {page.url}")


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.question)
def test_a_task_takes_at_most_three_clicks(address: str, chromium: Browser, task: Task) -> None:
    assert len(task.clicks) <= CLICKS
    page = chromium.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"{address}/")
    for text in task.clicks:
        follow(page, text)
    assert re.search(task.answer, page.locator("body").inner_text()), page.url
    page.close()


def test_the_page_on_pages_lists_these_paths() -> None:
    missing = [task.question for task in TASKS if f"| {task.question} | {' → '.join(task.clicks)} |" not in DOCUMENTED]
    assert missing == []
