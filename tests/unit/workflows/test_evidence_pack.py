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
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.data.result_documents import document, provider, trial
from typer.testing import CliRunner

from plumbline.archive import Archive, FindingRecord, open_archive
from plumbline.cli.app import app
from plumbline.launch import stores
from plumbline.results import Evidence, installation_keys, signing
from plumbline.workflows.evidence_pack import write_evidence_pack
from plumbline.workflows.verify_pack import NOT_ALL_SHOWN, UNKNOWN_KEY, UNUSABLE, VERIFIED, WRONG

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


def verified(pack: Path, *given: str, folder: bool = False) -> tuple[int, str]:
    """Status and text of the pack's own verifier, on the ZIP file or unpacked, as its README says."""
    place = pack.with_suffix("")
    with zipfile.ZipFile(pack) as held:
        held.extractall(place)
    command = [sys.executable, "-I", str(place / "verify.py"), *([] if folder else [str(pack)]), *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


def contents(pack: Path) -> dict[str, bytes]:
    """What two packs of the same archive have in common: all but the time of the signature, and so the signature."""
    with zipfile.ZipFile(pack) as held:
        files = {name: held.read(name) for name in held.namelist() if name != "index.sig"}
    index = {key: value for key, value in json.loads(files["index.json"]).items() if key != "signed_at"}
    return {**files, "index.json": json.dumps(index).encode()}


def test_an_older_pack_of_the_same_subject_is_not_taken_for_the_newest(archive: Archive, tmp_path: Path) -> None:
    done = write_evidence_pack(archive, "f1", tmp_path / "pack.zip")
    with zipfile.ZipFile(done.file) as held:
        at = json.loads(held.read("index.json"))["signed_at"]
    status, text = verified(done.file, "--key", done.key, "--since", at)
    assert status == VERIFIED and "signed at 20" in text
    status, text = verified(done.file, "--key", done.key, "--since", "2199-01-01")
    assert status == WRONG and "before the given time" in text


def test_a_key_is_rotated_by_overlap(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = write_evidence_pack(archive, "f1", tmp_path / "before.zip")
    old, new = (key.public_hex for key in installation_keys.announce_key())
    during = write_evidence_pack(archive, "f1", tmp_path / "during.zip")
    assert (during.key, during.next_key) == (old, new) == installation_keys.published_keys() and before.key == old
    for known in (old, new):
        assert verified(during.file, "--key", known)[0] == VERIFIED
    assert verified(before.file, "--key", new)[0] == verified(during.file, "--key", "0" * 64)[0] == WRONG
    with pytest.raises(installation_keys.Unchangeable, match="--retire"):
        installation_keys.announce_key()
    (kept,) = installation_keys.retire_key()
    after = write_evidence_pack(archive, "f1", tmp_path / "after.zip")
    assert kept.public_hex == after.key == new and after.next_key is None
    assert verified(after.file, "--key", new)[0] == VERIFIED and verified(after.file, "--key", old)[0] == WRONG
    with pytest.raises(installation_keys.Unchangeable, match="--announce"):
        installation_keys.retire_key()
    assert (tmp_path / "home" / "evidence-key").stat().st_mode & 0o777 == 0o600


def test_a_second_signature_that_does_not_hold_is_found(archive: Archive, tmp_path: Path) -> None:
    installation_keys.announce_key()
    done = write_evidence_pack(archive, "f1", tmp_path / "pack.zip")
    with zipfile.ZipFile(done.file) as held:
        files = {name: held.read(name) for name in held.namelist()}
    files["index-2.sig"] = bytes(64)
    with zipfile.ZipFile(tmp_path / "forged.zip", "w") as forged:
        for name, data in files.items():
            forged.writestr(name, data)
    assert verified(tmp_path / "forged.zip", "--key", done.key)[0] == WRONG


def test_keys_of_a_secret_sign_and_are_not_written_down(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = signing.KeyPair.generate()
    monkeypatch.setenv(installation_keys.VARIABLE, pair.private_hex)
    done = write_evidence_pack(archive, "f1", tmp_path / "pack.zip")
    assert done.key == pair.public_hex == installation_keys.published_keys()[0]
    assert not (tmp_path / "home" / "evidence-key").exists()
    with pytest.raises(installation_keys.Unchangeable, match="Secret"):
        installation_keys.announce_key()
    monkeypatch.setenv(installation_keys.VARIABLE, "not a key")
    with pytest.raises(signing.InvalidKey, match=installation_keys.VARIABLE):
        write_evidence_pack(archive, "f1", tmp_path / "other.zip")


def test_a_findings_pack_holds_its_trials_and_those_of_its_baseline(archive: Archive, tmp_path: Path) -> None:
    done = write_evidence_pack(archive, "f1", tmp_path / "pack.zip")
    assert (done.trials, done.signed, done.problems) == (2, 2, ())
    assert contents(write_evidence_pack(archive, "f1", tmp_path / "again.zip").file) == contents(done.file)
    with zipfile.ZipFile(done.file) as pack:
        index = json.loads(pack.read("index.json"))
        assert {each["campaign_id"] for each in index["trials"]} == {BASE.campaign_id, NEW.campaign_id}
        assert json.loads(pack.read("finding.json"))["effect"] == FINDING.effect
    digest = hashlib.sha256(done.file.read_bytes()).hexdigest()
    for given in (("--key", done.key), ("--sha256", digest)):
        status, text = verified(done.file, *given)
        assert (
            status == VERIFIED
            and f"VERIFIED: 2 documents signed, 0 not signed, 0 files expired, 0 wrong, 0 missing; index signed with the key {done.key}"
            in text
        )
    assert (tmp_path / "home" / "evidence-key").stat().st_mode & 0o777 == 0o600
    status, text = verified(done.file)
    assert status == UNKNOWN_KEY and "VERIFIED" not in text, "the pack does not vouch for itself"
    assert verified(done.file, "--key", "0" * 64)[0] == verified(done.file, "--sha256", "0" * 64)[0] == WRONG


def test_what_is_not_signed_is_never_taken_for_verified(archive: Archive, tmp_path: Path) -> None:
    done = write_evidence_pack(archive, OTHER.campaign_id, tmp_path / "pack.zip")
    status, text = verified(done.file, "--key", done.key)
    assert status == NOT_ALL_SHOWN and "UNSIGNED  " in text and "VERIFIED" not in text


def forge(pack: Path, change: str, again: bool) -> Path:
    """The pack as a forger sends it on. `again`: with an index of his own, signed by a key of his own."""
    with zipfile.ZipFile(pack) as held:
        files = {name: held.read(name) for name in held.namelist()}
    index, key = json.loads(files["index.json"]), signing.KeyPair.generate()
    first, last = (trial["folder"] for trial in (index["trials"][0], index["trials"][-1]))
    if change in ("trials removed", "baseline removed"):
        gone = [trial["folder"] for trial in index["trials"]] if change == "trials removed" else [first]
        files = {name: data for name, data in files.items() if not name.startswith(tuple(f"{folder}/" for folder in gone))}
        index["trials"] = [trial for trial in index["trials"] if trial["folder"] not in gone]
    elif change == "evidence expired":
        del files[f"{last}/evidence/steps.parquet"]
        index["trials"][-1]["absent"] = {"evidence/steps.parquet": "expired on 2026-01-01 by the rule 90d"}
    elif change == "number changed":
        number = json.loads(files[f"{last}/document.json"])
        number["metrics"][0]["value"] *= 2
        files[f"{last}/document.json"] = json.dumps(number).encode()
        files[f"{last}/signature.bin"] = key.private.sign(files[f"{last}/document.json"])
        files[f"{last}/public-key.pem"] = pem(key)
    elif change == "signature dropped":
        del files[f"{last}/signature.bin"], files[f"{last}/public-key.pem"]
        index["trials"][-1]["signed"] = False
    elif change == "module beside it":
        files["json.py"] = b"print('RESULT    VERIFIED'); raise SystemExit(0)"
    elif change == "malformed":
        files["index.json"] = b"[" * 100_000
    own = ("README.md", "verify.py", "index.json", "index.sig", "index-key.pem")
    if again and change != "malformed":
        index["files"] = {name: hashlib.sha256(data).hexdigest() for name, data in files.items() if name not in own}
        files["index.json"] = json.dumps(index).encode()
        files["index.sig"], files["index-key.pem"] = key.private.sign(files["index.json"]), pem(key)
    target = pack.with_name("forged.zip")
    with zipfile.ZipFile(target, "w") as made:
        for name, data in files.items():
            made.writestr(name, data)
    return target


def pem(key: signing.KeyPair) -> bytes:
    return key.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


CHANGES = (
    *("trials removed", "baseline removed", "evidence expired", "number changed", "signature dropped", "module beside it", "malformed"),
)


@pytest.mark.fault(
    "an evidence pack is forged and signed by another key", ends="verify.py: never VERIFIED", keeps="the pack as it was sent"
)
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_forged_pack_is_never_verified(archive: Archive, tmp_path: Path, change: str, again: bool) -> None:
    done = write_evidence_pack(archive, "f1", tmp_path / "pack.zip")
    forged = forge(done.file, change, again)
    for given in ((), ("--key", done.key)):
        for folder in (False, True):
            status, text = verified(forged, *given, folder=folder)
            assert status in (WRONG, UNUSABLE, NOT_ALL_SHOWN, UNKNOWN_KEY) and "VERIFIED" not in text, (given, text)
            assert not given or status in (WRONG, UNUSABLE), "the key shows it"
    place = forged.with_suffix("")
    plain = subprocess.run([sys.executable, str(place / "verify.py")], capture_output=True, text=True, check=False)
    assert plain.returncode != VERIFIED and "VERIFIED" not in plain.stdout, "nor by a call without -I"


def test_a_pack_is_of_one_provider_whose_prices_its_documents_hold(archive: Archive, tmp_path: Path) -> None:
    rival = trial(campaign=NEW.campaign_id, where=provider("lab-1core"))
    archive.record(document(rival), uri="file:///elsewhere")
    with pytest.raises(ValueError, match="expected one of them"):
        write_evidence_pack(archive, NEW.campaign_id, tmp_path / "pack.zip")
    done = write_evidence_pack(archive, NEW.campaign_id, tmp_path / "pack.zip", rival.provider.name)
    with zipfile.ZipFile(done.file) as pack:
        assert {each["provider"] for each in json.loads(pack.read("index.json"))["trials"]} == {rival.provider.name}
    with pytest.raises(LookupError, match="its trials are of"):
        write_evidence_pack(archive, NEW.campaign_id, tmp_path / "other.zip", "no-such")


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
    status, text = verified(tmp_path / "pack.zip", "--key", json.loads(told.stdout)["key"])
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
