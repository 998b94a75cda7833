"""An import under a wrong name is deleted whole, is in the audit log, and takes nothing measured with it."""

from __future__ import annotations

import pytest
from sqlalchemy import func, select
from tests.data.result_documents import document
from tests.unit.results.test_published import result

from plumbline.archive import Archive, Refused
from plumbline.archive.engine import reading
from plumbline.archive.schema import Base
from plumbline.results.published import PublishedResult, SourceFile

FILE = SourceFile(name="run.json", sha256="a" * 64, tool="aiperf", tool_version="0.13.0")


def imported(provider: str = "there", **fields: object) -> PublishedResult:
    return result(campaign_id="aiperf-aaaa", provider=provider, url=None, source=FILE, **fields)


def rows(archive: Archive) -> dict[str, int]:
    with reading(archive.engine) as session:
        counts = {
            name: session.execute(select(func.count()).select_from(table)).scalar_one() for name, table in Base.metadata.tables.items()
        }
    return {name: n for name, n in counts.items() if n and name != "audit"}


def test_an_import_is_deleted_whole_and_audited(archive: Archive) -> None:
    archive.record(document(), uri="file:///x")
    before = rows(archive)
    archive.import_outside([imported(), imported(repeat=2)])
    (listed,) = archive.imports()
    assert (listed.import_id, listed.file, listed.provider, listed.runs) == ("aiperf-aaaa", "run.json", "there", 2)
    assert archive.forget_import("aiperf-aaaa", by="ann", why="wrong provider") == [listed]
    assert rows(archive) == before
    (entry,) = archive.audit("aiperf-aaaa")
    assert (entry.who, entry.what, entry.why) == ("ann", "import_forgotten", "wrong provider")
    assert (entry.detail["provider"], entry.detail["runs"], entry.detail["file"]) == ("there", 2, "run.json")
    assert archive.verify() == [] and archive.imports() == []
    assert archive.import_outside([imported("here")]).inserted == 1


def test_of_a_file_imported_twice_the_wrong_one_is_named(archive: Archive) -> None:
    archive.import_outside([imported(), imported("here")])
    with pytest.raises(Refused, match=r"here .*there .*--provider"):
        archive.forget_import("aiperf-aaaa", by="ann", why="wrong")
    (gone,) = archive.forget_import("aiperf-aaaa", by="ann", why="wrong", provider="there")
    assert gone.provider == "there"
    assert [runs.provider for runs in archive.imports()] == ["here"]
    assert [t.trial_id for t in archive.trials("aiperf-aaaa")] == [imported("here").trial_id]
    assert archive.verify() == []


def test_a_round_of_a_publisher_is_forgotten_at_once(archive: Archive) -> None:
    archive.import_outside([result(), result(provider="another")])
    assert len(archive.forget_import("example-bench-v1", by="ann", why="old")) == 2
    assert rows(archive) == {}


def test_measured_results_and_unknown_ids_are_refused(archive: Archive) -> None:
    archive.record(document(), uri="file:///x")
    before = rows(archive)
    with pytest.raises(Refused, match="measured"):
        archive.forget_import(document().trial.campaign_id, by="ann", why="wrong")
    with pytest.raises(LookupError, match="archive imports"):
        archive.forget_import("aiperf-bbbb", by="ann", why="wrong")
    archive.import_outside([imported()])
    with pytest.raises(LookupError, match="nowhere"):
        archive.forget_import("aiperf-aaaa", by="ann", why="wrong", provider="nowhere")
    with pytest.raises(ValueError, match="why"):
        archive.forget_import("aiperf-aaaa", by="ann", why=" ")
    archive.forget_import("aiperf-aaaa", by="ann", why="wrong")
    assert rows(archive) == before
