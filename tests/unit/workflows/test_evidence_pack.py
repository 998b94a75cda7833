"""A pack holds what a finding rests on, says what it lacks, and its verifier believes nothing but bytes."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.data.result_documents import document, trial
from typer.testing import CliRunner

from plumbline.archive import Archive, FindingRecord, open_archive
from plumbline.cli.app import app
from plumbline.launch import stores
from plumbline.results import Evidence, signing
from plumbline.workflows.evidence_pack import write_evidence_pack
from plumbline.workflows.verify_pack import UNSIGNED, UNUSABLE, VERIFIED, WRONG

RAW = b"step times"
BASE, NEW, OTHER = (trial(campaign=campaign) for campaign in ("2025-10", "2025-11", "2025-12"))
FINDING = FindingRecord(
    finding_id="f1",
    series_key=NEW.series_key,
    campaign_id=NEW.campaign_id,
    provider=NEW.provider.name,
    kind="performance",
    severity="page",
    headline="step_time +7.9 %",
    detail={"baseline_campaigns": [BASE.campaign_id]},
    effect=0.079,
    ci_low=0.068,
    ci_high=0.091,
    metric="step_time",
)


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    """Three campaigns of a series, two of them signed, and a finding on two of them."""
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    item = Evidence(kind="steps", uri="evidence/steps.parquet", sha256=hashlib.sha256(RAW).hexdigest(), bytes=len(RAW))
    with open_archive() as opened:
        for each in (BASE, NEW, OTHER):
            found = document(each, evidence=(item,))
            if each is not OTHER:
                key = signing.KeyPair.generate()
                opened.issue_signing_key(each.campaign_id, each.trial_id, 1, key.public_hex)
                found = signing.verify_collected(signing.sign(found, key), {1: key.public_hex})
            folder = stores.home().folder(each)
            stores.home().put(f"{folder}/{item.uri}", RAW)
            assert opened.record(found, uri=stores.home().uri(folder)) == "inserted"
        opened.save_findings([FINDING])
        yield opened


def verified(pack: Path) -> tuple[int, str]:
    with zipfile.ZipFile(pack) as held:
        script = pack.with_name("verify.py")
        script.write_bytes(held.read("verify.py"))
    done = subprocess.run([sys.executable, "-I", str(script), str(pack)], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_a_findings_pack_holds_its_trials_and_those_of_its_baseline(archive: Archive, tmp_path: Path) -> None:
    done = write_evidence_pack(archive, "f1", tmp_path / "pack.zip")
    assert (done.trials, done.signed, done.problems) == (2, 2, ())
    assert write_evidence_pack(archive, "f1", tmp_path / "again.zip").file.read_bytes() == done.file.read_bytes()
    with zipfile.ZipFile(done.file) as pack:
        index = json.loads(pack.read("index.json"))
        assert {each["campaign_id"] for each in index["trials"]} == {BASE.campaign_id, NEW.campaign_id}
        assert json.loads(pack.read("finding.json"))["effect"] == FINDING.effect
    assert verified(done.file)[0] == VERIFIED


def test_what_is_not_signed_is_never_taken_for_verified(archive: Archive, tmp_path: Path) -> None:
    status, text = verified(write_evidence_pack(archive, OTHER.campaign_id, tmp_path / "pack.zip").file)
    assert status == UNSIGNED and "UNSIGNED  " in text and "VERIFIED" not in text


@pytest.mark.fault(
    "evidence is lost or changed before a pack is made", ends="exit status 4, verify.py: MISSING", keeps="the rest of the pack"
)
@pytest.mark.parametrize("now", [None, b"other times"])
def test_evidence_that_does_not_hold_is_named_and_left_out(archive: Archive, tmp_path: Path, now: bytes | None) -> None:
    path = f"{stores.home().folder(NEW)}/evidence/steps.parquet"
    stores.home().remove(path)
    if now is not None:
        stores.home().put(path, now)
    told = CliRunner().invoke(app, ["evidence", "export", "f1", str(tmp_path / "pack.zip"), "--json"])
    assert told.exit_code == 4 and len(json.loads(told.stdout)["problems"]) == 1
    status, text = verified(tmp_path / "pack.zip")
    assert status == WRONG and "MISSING" in text and "WRONG " not in text


def test_what_cannot_be_exported(archive: Archive, tmp_path: Path) -> None:
    (tmp_path / "there.zip").write_bytes(b"mine")
    for arguments in (["nothing"], ["f1", str(tmp_path / "there.zip")]):
        assert CliRunner().invoke(app, ["evidence", "export", *arguments]).exit_code == 2
    assert (tmp_path / "there.zip").read_bytes() == b"mine" and list(tmp_path.glob(".*.part")) == []


def test_what_is_no_pack(archive: Archive, tmp_path: Path) -> None:
    good = write_evidence_pack(archive, "f1", tmp_path / "pack.zip").file
    script = tmp_path / "verify.py"
    with zipfile.ZipFile(good) as held:
        script.write_bytes(held.read("verify.py"))
    (tmp_path / "text.zip").write_text("no ZIP file")
    for place in (tmp_path / "text.zip", tmp_path / "absent", tmp_path / "home"):
        done = subprocess.run([sys.executable, "-I", str(script), str(place)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (UNUSABLE, ""), place
