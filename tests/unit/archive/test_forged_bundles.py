"""A bundle that somebody forged: what no document backs is refused, deletes nothing, and leaves an entry in the audit log."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from tests.data.result_documents import PLANNED, document, failed, trial

from plumbline.archive import Archive, FindingRecord, QuarantineRecord, open_archive
from plumbline.archive.bundle import BadBundle, importer, lines
from plumbline.archive.bundle.importer import IMPORTED_SUFFIX
from plumbline.results import Evidence, Reason, Signature, signing

CAMPAIGN = "2025-11"
STORE = "file:///store"
NAME = trial().trial_id
FOLDER = f"{STORE}/{CAMPAIGN}/{NAME}/attempt-1"
BELOW = f"campaigns/{CAMPAIGN}"
AT = PLANNED.isoformat()
EXPIRED = (json.dumps({"document": "000001.json", "position": 0, "expired_at": AT, "rule": "forged"}) + "\n").encode()
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


def put(bundle: Path, name: str, data: bytes) -> None:
    """Replace a file of the bundle, and what the manifest says of it."""
    manifest = json.loads((bundle / "manifest.json").read_text())
    (bundle / name).write_bytes(data)
    manifest["campaigns"][CAMPAIGN]["files"][name] = hashlib.sha256((bundle / name).read_bytes()).hexdigest()
    (bundle / "manifest.json").write_text(json.dumps(manifest))


def forge(bundle: Path, file: str, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    """Change lines of a file, and every hash that covers them."""
    path = bundle / BELOW / f"{file}.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    change(lines)
    put(bundle, f"{BELOW}/{file}.jsonl", "".join(json.dumps(line) + "\n" for line in lines).encode())


def each(**values: Any) -> Callable[[list[dict[str, Any]]], None]:
    return lambda rows: [row.update(values) for row in rows] and None


FORGED: dict[str, tuple[str, Callable[[list[dict[str, Any]]], Any], str]] = {
    "no document": ("attempts", lambda rows: rows.append({**rows[0], "document": "000002.json"}), "no document of this SHA-256"),
    "another document": ("attempts", each(sha256="0" * 64), "no document of this SHA-256"),
    "a web page": ("attempts", each(uri="http://169.254.169.254/latest"), "is not the address of a result store"),
    "out of the store": ("attempts", each(uri=f"{STORE}/../etc"), "is not the address of a result store"),
    "a chain": ("attempts", each(uri="file:///a::http://x/"), "is not the address of a result store"),
    "corrects nothing": (
        "attempts",
        each(correction={"attempt": 1, "at": AT, "by": "x", "why": "y"}),
        "does not correct an earlier attempt",
    ),
    "65 bits": ("quarantine", each(attempt=2**70), "is an integer of 71 bits"),
    "33 bits": ("quarantine", each(attempt=2**32), "attempt: Input should be less than"),
    "NUL": ("findings", each(headline="a\0b"), "holds a NUL character"),
    "text for a number": ("quarantine", each(attempt="1"), "attempt: Input should be a valid integer"),
    "no column": ("findings", lambda rows: rows[0].pop("state"), "state: Field required"),
    "no state": ("findings", each(state="fine"), "ck_findings_state"),
    "no verdict": ("attempts", each(action="fine"), "action: Input should be 'accept', 'annotate' or 'reject'"),
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


@pytest.mark.fault("a bundle adds an attempt to a trial that was launched here", ends="refused", keeps="the attempts of this archive")
@pytest.mark.parametrize("keys", ["issued", "none"])
@pytest.mark.parametrize("signed_by", ["another archive's key", "no key, as failed"])
def test_no_bundle_adds_an_attempt_to_a_trial_that_was_launched_here(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signed_by: str, keys: str
) -> None:
    monkeypatch.setenv("PLUMBLINE_RESULTS_URL", STORE)
    second, own = trial(attempt=2), signing.KeyPair.generate()
    with open_archive(f"sqlite:///{tmp_path / 'source.db'}") as source:
        if signed_by == "another archive's key":
            source.issue_signing_key(CAMPAIGN, NAME, 2, own.public_hex)
            source.record(signing.verify_collected(signing.sign(document(second), own), {2: own.public_hex}), uri=f"{STORE}/x")
        else:
            source.record(failed(second).model_copy(), uri=f"{STORE}/x")
        source.export(tmp_path / "bundle")
    archive.record(document(), uri=FOLDER)
    if keys == "issued":
        archive.issue_signing_key(CAMPAIGN, NAME, 1, signing.KeyPair.generate().public_hex)
    (one,) = archive.import_(tmp_path / "bundle")
    if (signed_by, keys) == ("no key, as failed", "none"):
        assert (one.refused, one.new) == (None, 1), "a trial of this machine is not signed, here or elsewhere"
        return
    assert one.refused is not None and [t.attempt for t in archive.trials()] == [1]


def test_the_bundle_as_it_was_is_taken_in(archive: Archive, bundle: Path) -> None:
    (one,) = archive.import_(bundle, by="ada")
    assert (one.new, one.refused) == (1, None)
    (entry,) = [e for e in archive.audit(CAMPAIGN) if e.what == "bundle_imported"]
    sha256 = hashlib.sha256((bundle / "manifest.json").read_bytes()).hexdigest()
    assert (entry.who, entry.detail["folder"], entry.detail["manifest_sha256"]) == ("ada", str(bundle), sha256)
    assert archive.series()[0].source == "simulated" and archive.verify() == []


@pytest.mark.fault("a bundle accepts what this installation rejects", ends="rejected, with a note", keeps="the document")
def test_a_verdict_is_a_claim(archive: Archive, bundle: Path) -> None:
    forge(bundle, "attempts", each(action="accept", reasons=[]))
    implausible = ("reject", (Reason(code="implausible", detail="too fast"),))
    for _ in range(2):
        (one,) = archive.import_(bundle, judge=lambda documents: {f"{d.trial.trial_id}#{d.trial.attempt}": implausible for d in documents})
        assert one.refused is None and "#1: rejected" in one.notes[0]
    (held,) = archive.trials()
    assert held.quality_action == "reject" and not held.usable
    assert archive.verify() == []


def test_a_document_of_another_campaign_is_refused(archive: Archive, bundle: Path) -> None:
    """Also one that names the series of another provider, or is signed wrongly: nothing vouches for its place."""
    other = document(trial(campaign="2025-12"), simulated=True)
    elsewhere = document(trial().model_copy(update={"series_key": trial().series_key.replace("lab-2core", "lab-9core", 1)}), simulated=True)
    signed = document(simulated=True).model_copy(update={"signature": Signature(value="0" * 128, public_key="0" * 64)})
    for made, said in (
        (other, "is of the campaign 2025-12"),
        (elsewhere, "does not name its workload"),
        (signed, "the signature does not match"),
    ):
        put(bundle, DOCUMENT, made.model_dump_json().encode())
        forge(bundle, "attempts", each(sha256=hashlib.sha256((bundle / DOCUMENT).read_bytes()).hexdigest()))
        (one,) = archive.import_(bundle)
        assert one.refused is not None and said in one.refused
    assert archive.trials() == []


@pytest.mark.fault("a bundle says that evidence expired", ends="no file is deleted", keeps="the evidence in this store")
def test_an_import_deletes_nothing(archive: Archive, bundle: Path) -> None:
    steps = (Evidence(kind="steps", uri="evidence/steps.parquet", sha256="a" * 64, bytes=100),)
    archive.record(document(trial(campaign="ours"), simulated=True, evidence=steps), uri=f"{STORE}/ours/x/attempt-1")
    put(bundle, f"{BELOW}/expired.jsonl", EXPIRED)
    forge(bundle, "attempts", each(uri=f"{STORE}/ours/x/attempt-1"))
    assert [one.refused for one in archive.import_(bundle)] == [None]
    assert archive.expired_evidence(STORE) == []


def test_what_another_archive_says_of_our_own_store_hides_nothing(archive: Archive, bundle: Path) -> None:
    archive.import_(bundle)
    put(bundle, f"{BELOW}/expired.jsonl", EXPIRED)
    assert [(one.known, one.refused) for one in archive.import_(bundle)] == [(1, None)]
    assert archive.expired_files(NAME, 1) == {}


@pytest.mark.fault("a bundle holds a deep document or too many lines", ends="refused", keeps="the archive as it was")
@pytest.mark.parametrize(("name", "data", "said"), [
    (DOCUMENT, b"[" * 200_000, "nested too deeply"),
    (DOCUMENT, b" " * (9 * 2**20), "larger than 8 MiB"),
    (f"{BELOW}/findings.jsonl", b"[" * 200_000, "nested too deeply"),
    (f"{BELOW}/findings.jsonl", b"PAR1", "findings.jsonl:1: not a JSON object"),
])  # fmt: skip
def test_what_is_too_much_is_refused(archive: Archive, bundle: Path, name: str, data: bytes, said: str) -> None:
    put(bundle, name, data)
    if name == DOCUMENT:
        forge(bundle, "attempts", each(sha256=hashlib.sha256(data).hexdigest()))
    (one,) = archive.import_(bundle)
    assert one.refused is not None and said in one.refused
    assert archive.trials() == []


def test_more_lines_than_the_bound_are_refused(archive: Archive, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forge(bundle, "quarantine", lambda rows: rows.extend(rows * 9))
    monkeypatch.setattr(lines, "MAX_ROWS", 9)
    (one,) = archive.import_(bundle)
    assert one.refused is not None and "has more than 9 lines" in one.refused


@pytest.mark.parametrize("name", ["../../etc/passwd", "campaigns/2025-11/../../x.jsonl", "/etc/passwd", "campaigns/2025-11/x.py"])
def test_names_are_of_a_pattern(archive: Archive, bundle: Path, name: str) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["campaigns"][CAMPAIGN]["files"][name] = "0" * 64
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BadBundle, match="should match pattern"):
        archive.import_(bundle)
    manifest["campaigns"] = {"../x": {"trials": 0, "files": {}}}
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
        ("INSERT INTO campaigns SELECT 'planted', reason, planned_at, recorded_at, purpose FROM campaigns", "campaign planted: no trial"),
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
    forge(bundle, "attempts", each(action="accept", reasons=[]))
    (one,) = archive.import_(bundle)
    assert one.refused is None and "#1: rejected here (accept in the bundle)" in one.notes[0]
    assert archive.trials() == before


def test_large_documents_are_read_and_judged_one_after_the_other(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'source.db'}") as source:
        for repeat in (1, 2, 3):
            source.record(document(trial(repeat=repeat)), uri=f"{STORE}/{repeat}")
        source.export(tmp_path / "bundle")
    judged: list[int] = []

    def judge(documents: Any) -> Any:
        judged.append(len(documents))
        return {f"{d.trial.trial_id}#{d.trial.attempt}": ("accept", ()) for d in documents}

    monkeypatch.setattr(importer, "_BATCH_BYTES", 1)
    (one,) = archive.import_(tmp_path / "bundle", judge=judge)
    assert one.new == 3 and judged == [1, 1, 1]
