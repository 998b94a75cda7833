"""A bundle that somebody forged: what no document backs is refused, deletes nothing, and leaves an entry in the audit log."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import text
from tests.data.result_documents import PLANNED, document, trial

from plumbline.archive import Archive, FindingRecord, QuarantineRecord, open_archive
from plumbline.archive.bundle import BadBundle
from plumbline.archive.bundle.importer import IMPORTED_SUFFIX
from plumbline.archive.bundle.tables import content_hash, read_table, write_table
from plumbline.archive.schema import Base
from plumbline.results import Evidence, InvalidResult, Reason

CAMPAIGN = "2025-11"
STORE = "file:///store"
NAME = trial().trial_id
FOLDER = f"{STORE}/{CAMPAIGN}/{NAME}/attempt-1"
BELOW = f"campaigns/{CAMPAIGN}"
DOCUMENT = f"{BELOW}/documents/000001.json"


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of an archive that holds one simulated attempt, which it rejects."""
    monkeypatch.setenv("PLUMBLINE_RESULTS_URL", STORE)
    with open_archive(f"sqlite:///{tmp_path / 'source.db'}") as source:
        source.record(document(simulated=True), uri=FOLDER, action="reject", quality_reasons=[Reason(code="x", detail="implausible")])
        source.save_findings([FindingRecord("f1", trial().series_key, CAMPAIGN, "lab-2core", "performance", "warn", "slower", {"a": 1})])
        source.set_finding_state("f1", "acknowledged", "ada", "looking")
        source.quarantine(QuarantineRecord(CAMPAIGN, NAME, 1, f"{STORE}/quarantine/x/result.json", "0" * 64, "newer"))
        source.export(tmp_path / "bundle")
    return tmp_path / "bundle"


def put(bundle: Path, name: str, data: bytes | None) -> None:
    """Replace a file of the bundle, and what the manifest says of it."""
    manifest = json.loads((bundle / "manifest.json").read_text())
    if data is not None:
        (bundle / name).write_bytes(data)
    manifest["campaigns"][CAMPAIGN]["files"][name] = hashlib.sha256((bundle / name).read_bytes()).hexdigest()
    (bundle / "manifest.json").write_text(json.dumps(manifest))


def forge(bundle: Path, table: str, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    """Change rows of a table, and every hash that covers them."""
    model = Base.metadata.tables[table]
    rows = read_table(bundle / BELOW / f"{table}.parquet", model)
    change(rows)
    write_table(bundle / BELOW / f"{table}.parquet", model, rows)
    put(bundle, f"{BELOW}/{table}.parquet", None)
    with suppress(InvalidResult):  # what cannot be read has no hash
        _hash(bundle)


def _hash(bundle: Path) -> None:
    measured = ("campaigns", "series", "series_campaigns", "environments", "trials", "metrics", "stages", "telemetry", "evidence")
    found = {name: read_table(bundle / BELOW / f"{name}.parquet", Base.metadata.tables[name]) for name in measured}
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["campaigns"][CAMPAIGN]["content_hash"] = content_hash(
        {name: rows for name, rows in found.items() if rows}, {1: (bundle / DOCUMENT).read_text()}
    )
    (bundle / "manifest.json").write_text(json.dumps(manifest))


def each(**values: Any) -> Callable[[list[dict[str, Any]]], None]:
    return lambda rows: [row.update(values) for row in rows] and None


FORGED: dict[str, tuple[str, Callable[[list[dict[str, Any]]], Any], str]] = {
    "simulated as measured": ("series", each(source="measured"), "source is measured in the bundle; its document says simulated"),
    "another provider": ("series", each(provider="other"), "provider is other in the bundle; its document says lab-2core"),
    "failed as valid": ("trials", each(status="degraded"), "status is degraded in the bundle; its document says valid"),
    "later": ("trials", each(finished_at=PLANNED + timedelta(days=900)), "finished_at is"),
    "no document": ("trials", lambda rows: rows.append({**rows[0], "id": 2, "attempt": 2}), "no document backs its row"),
    "a web page": ("trials", each(uri="http://169.254.169.254/latest"), "is not the address of a result store"),
    "out of the store": ("trials", each(uri=f"{STORE}/../etc"), "is not the address of a result store"),
    "a chain": ("trials", each(uri="file:///a::http://x/"), "is not the address of a result store"),
    "65 bits": ("trials", each(attempt=2**40), "attempt is 1099511627776; expected an integer of 32 bits"),
    "NUL": ("trials", each(slot="a\0b"), "slot holds a NUL character"),
    "no verdict": ("trials", each(quality_action="fine"), "quality_action is 'fine'; expected one of accept, annotate, reject"),
    "another environment": ("environments", each(facts={"cpu.model": "faster"}), "are not those of its documents"),
    "another campaign": ("campaigns", each(planned_at=PLANNED + timedelta(days=1)), "are not those of any document"),
    "deep findings": ("findings", each(detail=json.loads("[" * 60 + "]" * 60)), "is nested too deeply"),
    "findings of others": ("findings", each(campaign_id="2025-01"), "a row is of the campaign 2025-01"),
    "quarantine of others": ("quarantine", each(trial_id="../../x"), "is not the id of"),
    "quarantine elsewhere": ("quarantine", each(uri="http://x/y"), "is not the address of a result store"),
}


@pytest.mark.fault("a forged bundle: rows that no document backs", ends="refused", keeps="the archive as it was, and who tried in its log")
@pytest.mark.parametrize("case", FORGED)
def test_rows_that_no_document_backs_are_refused(archive: Archive, bundle: Path, case: str) -> None:
    table, change, said = FORGED[case]
    forge(bundle, table, change)
    (one,) = archive.import_(bundle, by="ada")
    assert one.refused is not None and said in one.refused and "\n" not in one.refused
    assert (archive.trials(), archive.findings(), archive.quarantined()) == ([], [], [])
    assert [(e.who, e.what, e.why) for e in archive.audit(CAMPAIGN)] == [("ada", "bundle_refused", one.refused)]
    assert archive.verify() == []


def test_the_bundle_as_it_was_is_taken_in(archive: Archive, bundle: Path) -> None:
    (one,) = archive.import_(bundle, by="ada")
    assert (one.new, one.refused) == (1, None)
    (entry,) = [e for e in archive.audit(CAMPAIGN) if e.what == "bundle_imported"]
    sha256 = hashlib.sha256((bundle / "manifest.json").read_bytes()).hexdigest()
    assert (entry.who, entry.detail["folder"], entry.detail["manifest_sha256"]) == ("ada", str(bundle), sha256)
    assert archive.series()[0].source == "simulated" and archive.verify() == []


@pytest.mark.fault("a bundle accepts what this installation rejects", ends="rejected, with a note", keeps="the document")
def test_a_verdict_is_a_claim(archive: Archive, bundle: Path) -> None:
    forge(bundle, "trials", each(quality_action="accept", quality_reasons=[]))
    implausible = ("reject", (Reason(code="implausible", detail="too fast"),))
    for _ in range(2):
        (one,) = archive.import_(bundle, judge=lambda documents: {f"{d.trial.trial_id}#{d.trial.attempt}": implausible for d in documents})
        assert one.refused is None and "#1: rejected" in one.notes[0]
    (held,) = archive.trials()
    assert held.quality_action == "reject" and not held.usable
    assert archive.verify() == []


def test_numbers_of_the_bundle_are_not_read(archive: Archive, bundle: Path) -> None:
    forged = read_table(bundle / BELOW / "metrics.parquet", Base.metadata.tables["metrics"])
    write_table(bundle / BELOW / "metrics.parquet", Base.metadata.tables["metrics"], [{**row, "value": 1e9} for row in forged])
    put(bundle, f"{BELOW}/metrics.parquet", None)
    assert [one.refused for one in archive.import_(bundle)] == [None]
    assert archive.verify() == []


@pytest.mark.fault("a bundle says that evidence expired", ends="no file is deleted", keeps="the evidence in this store")
def test_an_import_deletes_nothing(archive: Archive, bundle: Path) -> None:
    steps = (Evidence(kind="steps", uri="evidence/steps.parquet", sha256="a" * 64, bytes=100),)
    archive.record(document(trial(campaign="ours"), simulated=True, evidence=steps), uri=f"{STORE}/ours/x/attempt-1")
    expired = [{"trial_pk": 1, "position": 0, "expired_at": PLANNED, "rule": "forged", "removed_at": None}]
    write_table(bundle / BELOW / "expired_evidence.parquet", Base.metadata.tables["expired_evidence"], expired)
    put(bundle, f"{BELOW}/expired_evidence.parquet", None)
    forge(bundle, "trials", each(uri=f"{STORE}/ours/x/attempt-1"))
    assert [one.refused for one in archive.import_(bundle)] == [None]
    assert archive.expired_evidence(STORE) == []


def test_what_another_archive_says_of_our_own_store_hides_nothing(archive: Archive, bundle: Path) -> None:
    archive.import_(bundle)
    expired = [{"trial_pk": 1, "position": 0, "expired_at": PLANNED, "rule": "forged", "removed_at": None}]
    write_table(bundle / BELOW / "expired_evidence.parquet", Base.metadata.tables["expired_evidence"], expired)
    put(bundle, f"{BELOW}/expired_evidence.parquet", None)
    assert [(one.known, one.refused) for one in archive.import_(bundle)] == [(1, None)]
    assert archive.expired_files(NAME, 1) == {}


@pytest.mark.fault("a bundle holds a deep document or a huge Parquet file", ends="refused", keeps="the archive as it was")
@pytest.mark.parametrize("case", ["deep document", "huge document", "huge Parquet", "no Parquet", "text for numbers", "no column"])
def test_what_is_too_much_is_refused(archive: Archive, bundle: Path, tmp_path: Path, case: str) -> None:
    if case.endswith("document"):
        put(bundle, DOCUMENT, b"[" * 200_000 if case.startswith("deep") else b" " * (9 * 2**20))
        said = "nested too deeply" if case.startswith("deep") else "larger than 8 MiB"
    else:
        path = bundle / BELOW / "trials.parquet"
        whole = pq.read_table(path)
        if case == "huge Parquet":
            pq.write_table(pa.table({"id": pa.nulls(10**7, pa.int64())}), path)
        elif case == "no Parquet":
            path.write_bytes(b"PAR1")
        elif case == "no column":
            pq.write_table(whole.drop_columns(["status"]), path)
        else:
            pq.write_table(whole.set_column(whole.column_names.index("repeat"), "repeat", pa.array(["x"])), path)
        put(bundle, f"{BELOW}/trials.parquet", None)
        said = {"huge Parquet": "10,000,000 rows", "no Parquet": "cannot be read as Parquet", "no column": "has no column status"}.get(
            case, "repeat is string; expected int64"
        )
    (one,) = archive.import_(bundle)
    assert one.refused is not None and said in one.refused
    assert archive.trials() == []


@pytest.mark.parametrize("name", ["../../etc/passwd", "campaigns/2025-11/../../x.parquet", "/etc/passwd", "campaigns/2025-11/x.py"])
def test_names_are_of_a_pattern(archive: Archive, bundle: Path, name: str) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["campaigns"][CAMPAIGN]["files"][name] = "0" * 64
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BadBundle, match="should match pattern"):
        archive.import_(bundle)
    manifest["campaigns"] = {"../x": {"trials": 0, "content_hash": "0" * 64, "files": {}}}
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BadBundle, match="should match pattern"):
        archive.import_(bundle)
    (bundle / "manifest.json").write_bytes(b"[" * 200_000)
    with pytest.raises(BadBundle, match="nested too deeply"):
        archive.import_(bundle)


@pytest.mark.fault("another archive's log takes an entry's place", ends="marked as imported", keeps="the entries of this archive")
def test_entries_of_another_log_are_marked(archive: Archive, bundle: Path, tmp_path: Path) -> None:
    archive.import_(bundle)
    theirs = [e for e in archive.audit() if e.what != "bundle_imported"]
    assert theirs and all(e.who.endswith(IMPORTED_SUFFIX) for e in theirs)
    archive.export(tmp_path / "again")
    with open_archive(f"sqlite:///{tmp_path / 'third.db'}") as third:
        third.import_(tmp_path / "again")
        assert not [e for e in third.audit() if e.who.endswith(IMPORTED_SUFFIX * 2)]
    with open_archive(f"sqlite:///{tmp_path / 'source.db'}") as source:
        before = source.audit("f1")
        source.import_(tmp_path / "again")
        assert source.audit("f1") == before, "what comes back is the archive's own"


@pytest.mark.fault("a row is added that no document backs", ends="verify names it", keeps="all other rows")
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "INSERT INTO metrics VALUES (1, 'steady', 'peak_memory', 'value', 1, 'B', 1, 'lower_is_better', NULL, NULL)",
            "no document backs it",
        ),
        ("INSERT INTO campaigns SELECT 'planted', reason, planned_at, recorded_at FROM campaigns", "campaign planted: no trial"),
        ("INSERT INTO environments SELECT 'planted', facts, recorded_at FROM environments", "environment planted: no trial"),
        ("INSERT INTO stages VALUES (1, 9, 'steady', 'forward', 0.1, 1)", "its rows of stages are not those of its document"),
    ],
)
def test_verify_finds_rows_that_no_document_backs(archive: Archive, statement: str, said: str) -> None:
    archive.record(document(), uri=FOLDER)
    assert archive.verify() == []
    with archive.engine.begin() as connection:
        connection.execute(text(statement))
    assert any(said in problem for problem in archive.verify()), archive.verify()


def test_a_campaign_that_is_known_is_not_changed_by_a_forged_one(archive: Archive, bundle: Path) -> None:
    archive.import_(bundle)
    before = [replace(one) for one in archive.trials()]
    forge(bundle, "trials", each(quality_action="accept", quality_reasons=[]))
    (one,) = archive.import_(bundle)
    assert one.refused is not None and "quality_action" in one.refused
    assert archive.trials() == before
