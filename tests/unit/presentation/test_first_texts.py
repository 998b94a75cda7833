"""What is said of an archive that shows nothing yet: no good news from nothing."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.data.result_documents import PLANNED
from tests.fakes.first_texts import texts
from tests.fakes.labs import CHEAP, FAST, measure, spread, world, write

from plumbline.alerts.digest import render_digest
from plumbline.analysis.conclusions import conclude
from plumbline.archive import Archive, open_archive
from plumbline.cli import output
from plumbline.cli import verdict as shown
from plumbline.declarations import Declarations
from plumbline.presentation.html.report import write_report
from plumbline.presentation.overview import overview
from plumbline.presentation.tiles import Tile
from plumbline.presentation.verdicts import campaign_verdict
from plumbline.workflows.alert import build_digest
from plumbline.workflows.report import campaign_data

NEWS = re.compile(
    r"nothing changed|cheapest sufficient|no drift|healthy|\bon time|nothing to do|all good|no regression|every team|0 regressions"
    r"|no (open )?findings?\b(?! ?: nothing was compared)|none meets|no provider meets|is a clear winner|changed between the campaigns",
    re.IGNORECASE,
)
"""True only of what was compared."""


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
    assert [text[max(m.start() - 60, 0) : m.end() + 40] for m in NEWS.finditer(text)] == []
    assert [tile for tile in tiles if tile.tone == "good"] == []


def test_the_strip_and_the_digest(archive: Archive, declared: Declarations, tmp_path: Path) -> None:
    found = overview(archive, declared, (), PLANNED + timedelta(days=1))
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


def test_no_page_command_report_mail_or_message_brings_news_from_nothing(
    archive: Archive, declared: Declarations, providers: tuple[str, ...], tmp_path: Path
) -> None:
    said = texts(archive, declared, tmp_path, PLANNED + timedelta(days=1))
    pages = [name for name in said if name.startswith("page ")]
    assert {"page /", "page /findings", "page /changes", "page /decisions", "page /providers/{provider}", "page /spend"} <= set(pages)
    assert len(pages) >= (16 if providers else 13) and ("mail" in said) is bool(providers)
    for name, text in said.items():
        assert_no_news(text)
        # That one of two providers is cheaper, at half the price an hour, was measured.
        assert len(providers) > 1 or not re.search(r"no clear winner|\d % sure", text), f"{name}: one provider is no choice"
    if providers:
        assert "nothing was compared with a baseline yet; nothing to send" in said["plumbline alerts preview --all"]
        assert "Nothing to compare yet" in said["page /changes"]


def test_one_repeat_of_each_provider_has_no_winner(declared: Declarations, tmp_path: Path) -> None:
    with open_archive() as opened:
        measure(opened, declared, {FAST: [0.1], CHEAP: [0.1]})
        said = texts(opened, declared, tmp_path, PLANNED + timedelta(days=1))
    for name in ("plumbline scorecard", "plumbline decide", "mail", "report"):
        assert "a probability needs two repeats of each" in " ".join(said[name].split()), name
    assert "probability unknown" not in " ".join(said.values())
    assert "too close to call with 1 other" in said["page /workloads/{workload}"]
