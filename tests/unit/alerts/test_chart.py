"""The chart of a finding: what it shows, in pixels and in words."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from PIL import Image
from tests.golden import Golden

from plumbline.alerts.chart import ALT_LIMIT, alt_text, picture
from plumbline.presentation.charts.static import light_colours
from plumbline.presentation.metric_history import History, HistoryPoint

COLOURS = light_colours()
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


def drawn(history: History) -> Image.Image:
    return Image.open(io.BytesIO(picture(history, "a.png").data)).convert("RGB")


def pixels(history: History, name: str) -> int:
    """How many pixels have a colour of the style sheet."""
    colour = tuple(bytes.fromhex(COLOURS[name][1:]))
    return {tuple(c): n for n, c in drawn(history).getcolors(1 << 24)}.get(colour, 0)  # type: ignore[union-attr, misc, arg-type]


def test_it_marks_the_change_the_baseline_and_the_interval() -> None:
    assert pixels(SLOWER, "p1") > 500 and pixels(SLOWER, "p2") > 500
    without = replace(SLOWER, level=None, band=None, points=tuple(replace(p, baseline=False) for p in SLOWER.points))
    assert pixels(without, "p2") == 0
    assert drawn(replace(SLOWER, band=None)).tobytes() != drawn(SLOWER).tobytes()


def test_the_same_history_gives_the_same_bytes() -> None:
    assert picture(SLOWER, "a").data == picture(SLOWER, "a").data != picture(replace(SLOWER, since=8), "a").data


def test_its_ground_is_its_own() -> None:
    """Slack shows it before white and before near black."""
    image = Image.open(io.BytesIO(picture(SLOWER, "a.png").data))
    assert image.getchannel("A").getextrema() == (255, 255) if image.mode == "RGBA" else image.mode == "RGB"


@pytest.mark.parametrize(("count", "value"), [(2, 0.0), (3, 1e-6), (6, -5.0), (30, 3e9), (400, 1.0)])
def test_any_length_and_size_is_drawn(count: int, value: float) -> None:
    points = tuple(HistoryPoint(f"{i}", (value,)) for i in range(count))
    assert drawn(replace(SLOWER, points=points, since=count - 1, level=value, band=None)).size == (1200, 750)


def test_in_words(golden: Golden) -> None:
    words = alt_text(SLOWER)
    golden("alerts.chart_alt_text", words)
    assert alt_text(replace(SLOWER, simulated=True)).startswith("Simulated. ")
    assert len(alt_text(replace(SLOWER, title="x" * 5000))) == ALT_LIMIT
    made = picture(SLOWER, "a.png")
    assert (made.name, made.title, made.alt_text) == ("a.png", f"{SLOWER.title}: {SLOWER.change} since 2026-10", words)


@pytest.mark.parametrize("since", [0, 11, -1])
def test_a_change_has_a_before_and_an_after(since: int) -> None:
    with pytest.raises(ValueError, match=f"{since} of 11"):
        replace(SLOWER, since=since)
