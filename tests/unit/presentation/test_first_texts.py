"""What is said of an archive that shows nothing yet: no good news from nothing."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.data.result_documents import PLANNED
from tests.fakes.labs import CHEAP, FAST, measure, spread, world, write

from plumbline.alerts.digest import render_digest
from plumbline.analysis.conclusions import conclude
from plumbline.archive import Archive, open_archive
from plumbline.cli import output
from plumbline.cli import verdict as shown
from plumbline.dashboard.pages.overview import overview
from plumbline.declarations import Declarations
from plumbline.presentation.html.report import write_report
from plumbline.presentation.tiles import Tile
from plumbline.presentation.verdicts import campaign_verdict
from plumbline.workflows.alert import build_digest
from plumbline.workflows.report import campaign_data

NEWS = ("nothing changed", "cheapest sufficient", "no open finding", "no drift", "healthy", "on time", "nothing to do")
"""In lower case: true only of what was compared."""


@pytest.fixture
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Declarations:
    known = world()
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(write(known, tmp_path / "config")))
    for name in ("PLUMBLINE_ARCHIVE_URL", "PLUMBLINE_RESULTS_URL"):
        monkeypatch.delenv(name, raising=False)
    return known


@pytest.fixture(params=[(), (FAST,), (FAST, CHEAP)], ids=["empty", "one provider", "one campaign"])
def providers(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def archive(declared: Declarations, providers: tuple[str, ...]) -> Iterator[Archive]:
    with open_archive() as opened:
        measure(opened, declared, {name: spread(0.1) for name in providers})
        yield opened


def assert_no_news(text: str, tiles: tuple[Tile, ...] = ()) -> None:
    assert [phrase for phrase in NEWS if phrase in text.lower()] == []
    assert [tile for tile in tiles if tile.tone == "good"] == []


def test_the_strip_and_the_digest(archive: Archive, declared: Declarations, tmp_path: Path) -> None:
    found = overview(archive, declared, tmp_path, PLANNED + timedelta(days=1))
    assert_no_news(" ".join(f"{tile.value} {tile.note}" for tile in found.tiles), found.tiles)
    digest = build_digest(archive, declared, "2025-11", PLANNED + timedelta(days=30))
    assert_no_news(render_digest(digest).text)


def test_the_verdict_the_command_and_the_report(
    archive: Archive, providers: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not providers:
        pytest.skip("an empty archive has no campaign")
    data = campaign_data(archive, "2025-11")
    verdict = campaign_verdict(conclude(data))
    assert verdict.headline.endswith("first measurement, nothing to compare with")
    assert any(action.title == "Run the campaign again" for action in verdict.actions)
    assert len(providers) > 1 or {row.verdict for row in verdict.choices} <= {"only", "none"}
    console = output._Console(file=io.StringIO(), width=200)
    monkeypatch.setattr(shown, "out", console)
    shown.show_verdict(verdict)
    # That one of two providers is better was measured.
    tiles = tuple(tile for tile in verdict.tiles if len(providers) < 2 or tile.name != "Certainty")
    assert_no_news(console.file.getvalue(), tiles)  # type: ignore[attr-defined]
    assert_no_news((write_report(data, tmp_path / "reports").parent / "report.md").read_text())
