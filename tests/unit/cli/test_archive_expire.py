"""`plumbline archive expire`: nothing goes unasked, what goes is what was shown, and why the rest stays is said."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.data.result_documents import document, trial
from tests.fakes.installation import declare_upkeep
from typer.testing import Result

from plumbline.archive import open_archive
from plumbline.results import Evidence

Said = Callable[..., tuple[Any, int]]
SERIES = trial().series_key


@pytest.fixture
def files(home: Path) -> dict[str, Path]:
    """Three campaigns with a raw file each: a baseline, one that nothing cites, and today's."""
    found = {}
    with open_archive() as archive:
        for name, days in (("base", 400), ("old", 300), ("now", 0)):
            asked = trial(campaign=name, planned_at=datetime.now(timezone.utc) - timedelta(days=days))
            folder = home / "results" / name / asked.trial_id / "attempt-1"
            (folder / "evidence").mkdir(parents=True)
            found[name] = folder / "evidence" / "steps"
            found[name].write_bytes(b"rows")
            entry = Evidence(kind="steps", uri="evidence/steps", sha256="0" * 64, bytes=4)
            archive.record(document(asked, evidence=(entry,), timeline=()), uri=folder.as_uri())
        archive.accept_baseline(SERIES, "base", "ada", "good")
    return found


def test_unasked_nothing_goes(files: dict[str, Path], plumbline: Callable[..., Result]) -> None:
    for words in ((), ("--yes", "--dry-run")):
        result = plumbline("archive", "expire", *words)
        assert result.exit_code == 2
        assert "expected --dry-run" in result.stderr
    assert all(file.exists() for file in files.values())


def test_a_dry_run_says_what_would_go_and_why_the_rest_stays(files: dict[str, Path], plumbline: Callable[..., Result], said: Said) -> None:
    shown = plumbline("archive", "expire", "--dry-run").stdout
    assert "would go" in shown and "baseline" in shown
    told, code = said("archive", "expire", "--dry-run")
    assert ([one["campaign_id"] for one in told["due"]], told["cited"], told["removed"], code) == (["old"], {"baseline": 1}, None, 0)
    assert all(file.exists() for file in files.values())


def test_what_was_shown_goes(files: dict[str, Path], said: Said, plumbline: Callable[..., Result]) -> None:
    told, code = said("archive", "expire", "--yes")
    assert (told["removed"], code) == ({"attempts": 1, "files": 1, "bytes": 4}, 0)
    assert {name: file.exists() for name, file in files.items()} == {"base": True, "old": False, "now": True}
    assert "nothing is due" in plumbline("archive", "expire", "--yes").stdout


def test_where_evidence_is_kept_for_ever_nothing_goes(
    files: dict[str, Path], plumbline: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(declare_upkeep(tmp_path)))
    result = plumbline("archive", "expire", "--yes")
    assert (result.exit_code, files["old"].exists()) == (2, True)
    assert "never expires" in result.stderr
