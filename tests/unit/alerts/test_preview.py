"""A message without Slack."""

from __future__ import annotations

from typing import Any

import pytest
from tests.parsed import Parsed

from plumbline.alerts.chart import Picture
from plumbline.alerts.message import Message
from plumbline.alerts.preview import lines, page
from plumbline.alerts.slack.mrkdwn import StyledSpan, parse_spans

MESSAGE = Message(
    "WARN: first line\nsecond",
    (
        {"type": "header", "text": {"type": "plain_text", "text": "WARN: <b> step_time +4.0 %"}},
        {
            "type": "section",
            "text": {"type": "mrkdwn", "text": "*bold &lt;script&gt;* `code`\n<https://a.example/?a=1&amp;b=2|the page>"},
        },
        {"type": "section", "fields": [{"type": "mrkdwn", "text": "*Provider*\nlocal-2core"}, {"type": "mrkdwn", "text": "*State*\nopen"}]},
        {"type": "divider"},
        {"type": "context", "elements": [{"type": "mrkdwn", "text": "finding a1b2"}]},
    ),
)


@pytest.mark.parametrize(
    ("mrkdwn", "parts"),
    [
        ("plain", [StyledSpan("plain")]),
        ("*a b*: c", [StyledSpan("a b", bold=True), StyledSpan(": c")]),
        ("2*3*4 and snake_case", [StyledSpan("2*3*4 and snake_case")]),
        ("`a *b*` &lt;c&gt; &amp;lt;", [StyledSpan("a *b*", code=True), StyledSpan(" <c> &lt;")]),
        (
            "<@U0123456789> <!subteam^S0123456789> <!here>",
            [
                StyledSpan("@U0123456789", mention=True),
                StyledSpan(" "),
                StyledSpan("@S0123456789", mention=True),
                StyledSpan(" "),
                StyledSpan("@here", mention=True),
            ],
        ),
        ("<https://a.example|words>", [StyledSpan("words", link="https://a.example")]),
        ("<https://a.example>", [StyledSpan("https://a.example", link="https://a.example")]),
        ("", []),
    ],
)
def test_markup_is_taken_apart(mrkdwn: str, parts: list[StyledSpan]) -> None:
    assert parse_spans(mrkdwn) == parts


def test_lines_for_a_terminal() -> None:
    found = lines(MESSAGE)
    assert [line.kind for line in found] == ["header", "text", "text", "text", "text", "divider", "context"]
    assert ["".join(s.text for s in line.spans) for line in found[1:5]] == [
        "bold <script> code",
        "the page",
        "Provider: local-2core",
        "State: open",
    ]


def test_a_page_shows_everything_and_runs_nothing() -> None:
    read = Parsed(page(MESSAGE))
    assert MESSAGE.blocks[0]["text"]["text"] in read.text and "bold <script> code" in read.text
    assert "https://a.example/?a=1&b=2" in read.values("a", "href")
    assert read.all("script, link, iframe, img") == []


@pytest.mark.parametrize(
    "block", [{"type": "actions", "elements": []}, {"type": "section", "text": {"type": "mrkdwn", "text": "x"}, "accessory": {}}]
)
def test_what_it_cannot_show_is_said(block: dict[str, Any]) -> None:
    for shown in (page, lines):
        with pytest.raises(ValueError, match=str(block["type"])):
            shown(Message("x", (block,)))


def test_the_chart_stands_in_the_thread() -> None:
    picture = Picture("a.png", "step time", 'slower "now"', b"\x89PNG")
    assert Parsed(page(MESSAGE, picture)).one("img").tag.attrs == {"src": "data:image/png;base64,iVBORw==", "alt": 'slower "now"'}
