"""Sizes of tables, on both databases."""

from __future__ import annotations

from tests.data.result_documents import document

from plumbline.archive import Archive


def test_every_table_has_rows_and_bytes(archive: Archive) -> None:
    before = {one.table: one for one in archive.table_sizes()}
    archive.record(document(), uri="file:///store")
    after = {one.table: one for one in archive.table_sizes()}
    assert before["trials"].rows == 0 and after["trials"].rows == 1
    assert after["metrics"].rows > 1 and (after["metrics"].bytes or 0) > 0
    assert {"audit", "findings", "snapshots", "quarantine"} <= after.keys()
    sizes = [one.bytes or 0 for one in archive.table_sizes()]
    assert sizes == sorted(sizes, reverse=True)
