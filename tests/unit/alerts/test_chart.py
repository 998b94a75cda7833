"""The chart of a finding: what it shows, in pixels and in words."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from PIL import Image
from tests.golden import Golden

from plumbline.alerts.chart import ALT_LIMIT, HIGH_PX, WIDE_PX, alt_text, draw, picture
from plumbline.presentation.metric_history import History, HistoryPoint

CHANGE, BASELINE = (196, 72, 14), (0, 121, 92)
SLOWER = History(
    title="local-2core · gpt · step time",
    unit="ms",
    points=tuple(
        HistoryPoint(f"2026-{m:02d}", tuple(v + 0.1 * m for v in (v - 1, v, v + 1)), m in (8, 9))
        for m, v in enumerate([105.0] * 9 + [113.0] * 2, 1)
    ),
    since=9,
    change="+7.9 % (95 %: +6.8 … +9.1)",
    level=105.0,
    band=(112.1, 114.6),
)


def pixels(history: History) -> dict[tuple[int, ...], int]:
    """How many pixels have which colour."""
    image = Image.open(io.BytesIO(draw(history))).convert("RGB")
    assert image.size == (WIDE_PX, HIGH_PX)
    return {colour: n for n, colour in image.getcolors(1 << 24)}  # type: ignore[union-attr, misc]


def test_it_marks_the_change_the_baseline_and_the_interval() -> None:
    whole = pixels(SLOWER)
    assert whole[CHANGE] > 500 and whole[BASELINE] > 500
    without = pixels(replace(SLOWER, level=None, band=None, points=tuple(replace(p, baseline=False) for p in SLOWER.points)))
    assert BASELINE not in without
    assert len(draw(replace(SLOWER, band=None))) != len(draw(SLOWER))


def test_the_same_history_gives_the_same_bytes() -> None:
    assert draw(SLOWER) == draw(SLOWER)
    assert draw(SLOWER) != draw(replace(SLOWER, since=8))


def test_its_ground_is_its_own() -> None:
    """Slack shows it before white and before near black: ink and quiet letters stand against a ground that is painted."""
    image = Image.open(io.BytesIO(draw(SLOWER)))
    assert image.getchannel("A").getextrema() == (255, 255) if image.mode == "RGBA" else image.mode == "RGB"


def test_a_price_is_a_step_line_with_its_change_alone_marked() -> None:
    price = replace(
        SLOWER,
        steps=True,
        level=None,
        band=None,
        points=tuple(HistoryPoint(f"2026-03-{d:02d}", (12.29 if d < 20 else 6.88,)) for d in range(1, 31)),
        since=19,
    )
    marked, unmarked = pixels(price)[CHANGE], pixels(replace(price, steps=False))[CHANGE]
    assert 0 < marked < unmarked


@pytest.mark.parametrize(("count", "value"), [(2, 0.0), (3, 1e-6), (6, -5.0), (30, 3e9), (400, 1.0)])
def test_any_length_and_size_is_drawn(count: int, value: float) -> None:
    points = tuple(HistoryPoint(f"{i}", (value,)) for i in range(count))
    assert draw(replace(SLOWER, points=points, since=count - 1, level=value, band=None)).startswith(b"\x89PNG")


def test_a_long_heading_is_written_smaller_instead_of_cut() -> None:
    """Nothing of it reaches the right edge."""
    image = Image.open(io.BytesIO(draw(replace(SLOWER, title="m" * 140, change="+1 % " * 40)))).convert("RGB")
    edge = image.crop((WIDE_PX - 12, 0, WIDE_PX, 110))
    assert edge.getcolors() == [(12 * 110, (247, 248, 250))]


def test_in_words(golden: Golden) -> None:
    words = alt_text(SLOWER)
    golden("alerts.chart_alt_text", words)
    assert alt_text(replace(SLOWER, simulated=True)).startswith("Simulated. ")
    assert len(alt_text(replace(SLOWER, title="x" * 5000))) == ALT_LIMIT
    made = picture(SLOWER, "a.png")
    assert (made.name, made.title, made.alt_text) == ("a.png", SLOWER.title, words)


@pytest.mark.parametrize("since", [0, 11, -1])
def test_a_change_has_a_before_and_an_after(since: int) -> None:
    with pytest.raises(ValueError, match=f"{since} of 11"):
        replace(SLOWER, since=since)
