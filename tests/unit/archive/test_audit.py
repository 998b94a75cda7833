"""The audit log keeps order, subject and detail."""

from __future__ import annotations

from plumbline.archive import Archive


def test_entries_come_in_order_and_by_subject(archive: Archive) -> None:
    archive.add_audit(who="ada", what="baseline_kept", subject="series/a", why="noise", detail={"finding": "f1"})
    archive.add_audit(who="bob", what="baseline_kept", subject="series/b", why="noise too")
    archive.add_audit(who="ada", what="baseline_kept", subject="series/a", why="noise again")
    assert [(e.who, e.why) for e in archive.audit("series/a")] == [("ada", "noise"), ("ada", "noise again")]
    assert archive.audit("series/a")[0].detail == {"finding": "f1"}
    assert [e.subject for e in archive.audit()] == ["series/a", "series/b", "series/a"]
    assert all(e.at.tzinfo is not None for e in archive.audit())
