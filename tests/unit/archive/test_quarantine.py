"""The list of what could not be believed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plumbline.archive import Archive, QuarantineRecord

RECORD = QuarantineRecord(
    "2025-11", "x", 1, "file:///store/quarantine/2025-11/x/attempt-1/result.json", "0" * 64, "schema_version 2 is newer"
)


def test_a_document_is_listed_once_with_its_reason(archive: Archive) -> None:
    assert [archive.quarantine(RECORD) for _ in range(2)] == [True, False]
    assert archive.quarantine(replace(RECORD, sha256="1" * 64))
    assert archive.quarantine(replace(RECORD, campaign_id="2025-12"))
    assert len(archive.quarantined()) == 3
    first, *_ = archive.quarantined(campaign_id="2025-11")
    assert (first.reason, first.state, first.uri) == (RECORD.reason, "kept", RECORD.uri)
    assert archive.quarantined_one(first.quarantine_id) == first
    assert [e.what for e in archive.audit(first.quarantine_id)] == ["document_quarantined"]


def test_what_is_released_is_out_of_the_list_and_not_listed_anew(archive: Archive) -> None:
    archive.quarantine(RECORD)
    (held,) = archive.quarantined()
    for _ in range(2):
        assert archive.release(held.quarantine_id, "ada", "it holds now").state == "released"
    assert archive.quarantined() == []
    assert not archive.quarantine(RECORD)
    assert [q.state for q in archive.quarantined(everything=True)] == ["released"]
    assert [e.what for e in archive.audit(held.quarantine_id)] == ["document_quarantined", "document_released"]


def test_an_unknown_id(archive: Archive) -> None:
    for ask in (archive.quarantined_one, lambda name: archive.release(name, "ada", "why")):
        with pytest.raises(LookupError, match='"nothing"'):
            ask("nothing")
