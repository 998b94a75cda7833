"""Identifiers that were typed in part: exact before longer, one before several."""

from __future__ import annotations

import pytest
from tests.data.result_documents import document, trial

from plumbline.archive import Archive


@pytest.fixture
def recorded(archive: Archive) -> Archive:
    for campaign in ("2026-1", "2026-10", "2026-11", "50.off"):
        archive.record(document(trial(campaign=campaign)), uri="file:///results")
    return archive


@pytest.mark.parametrize(("typed", "whole"), [("2026-1", "2026-1"), ("2026-11", "2026-11"), ("2026-10", "2026-10"), ("50.", "50.off")])
def test_the_only_one_that_begins_so(recorded: Archive, typed: str, whole: str) -> None:
    assert recorded.complete_identifier("campaign", typed=typed) == whole


@pytest.mark.parametrize(
    ("typed", "message"),
    [("2026", "2026-1, 2026-10 and 2026-11"), ("%", "no campaign"), ("", "no campaign"), ("2062-11", "such as 2026-11")],
)
def test_several_or_none(recorded: Archive, typed: str, message: str) -> None:
    with pytest.raises(LookupError, match=message):
        recorded.complete_identifier("campaign", typed=typed)
