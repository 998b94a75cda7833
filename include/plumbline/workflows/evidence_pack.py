"""An evidence pack: the documents and evidence behind a finding or a campaign, as one ZIP file that can be verified without Plumbline.

README.md, verify.py, index.json, finding.json (of a finding), and for each attempt a folder trials/<trial id>-attempt-<n>/ with
document.json     the bytes that were signed
signature.bin     the signature, 64 bytes; openssl pkeyutl -verify -rawin reads it, too
public-key.pem    the key that the launcher issued for the attempt
recorded.json     the archive's record of the attempt: verdict, failure class, the launcher's observations
evidence/…        the raw files that document.json names
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from plumbline.archive import Archive, FindingView, TrialView
from plumbline.results import InvalidResult, ResultDocument, ResultStore, evidence_files, signing
from plumbline.results.stored import FindingRecord
from plumbline.whole_file import whole_file

_VERIFY = Path(__file__).with_name("verify_pack.py")
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the pack, so that the same archive gives the same bytes."""


@dataclass(frozen=True)
class EvidencePack:
    """`problems`: lost or changed evidence and invalid signatures, one sentence each."""

    file: Path
    trials: int
    signed: int
    files: int
    problems: tuple[str, ...] = ()


def write_evidence_pack(archive: Archive, subject: str, file: Path) -> EvidencePack:
    """Write the pack of a finding or a campaign. The same archive and store give the same bytes.

    LookupError for an unknown subject; InvalidResult for an invalid document in the archive; FileExistsError if the file exists; OSError if a
    result store does not answer.
    """
    finding, attempts = _attempts(archive, subject)
    if file.exists():
        raise FileExistsError(f"{file} exists; expected the name of a new file")
    content: dict[str, bytes] = {}
    trials, problems = [], []
    with whole_file(file, durable=True) as draft, zipfile.ZipFile(draft, "w", zipfile.ZIP_STORED) as pack:
        for view in attempts:
            trial, wrong = _trial(archive, view, pack, content)
            trials.append(trial)
            problems += wrong
        if finding is not None:
            _add(pack, content, "finding.json", _json(_finding_fields(finding)))
        index = {"format": 1, "subject": subject, "kind": "campaign" if finding is None else "finding", "trials": trials}
        hashes = {name: digest.hex() for name, digest in sorted(content.items())}
        _write(pack, "index.json", _json({**index, "files": hashes}))
        _write(pack, "verify.py", _VERIFY.read_bytes())
        _write(pack, "README.md", _readme(subject, finding, trials).encode())
    return EvidencePack(file, len(trials), sum(bool(trial["signed"]) for trial in trials), len(content) + 3, tuple(problems))


def _attempts(archive: Archive, subject: str) -> tuple[FindingView | None, list[TrialView]]:
    """The attempts behind the subject, in a fixed order: all of a campaign, or those of a finding's series in the campaigns that show it and in
    its baseline."""
    try:
        finding = archive.finding(subject)
    except LookupError:
        views = archive.trials(campaign_id=subject)
        if not views:
            raise LookupError(f'the archive has no finding and no campaign "{subject}"') from None
        return None, _ordered(archive, views)
    detail = finding.detail
    series = {finding.series_key, *detail.get("series", ())} - {None}
    campaigns = {finding.campaign_id, *detail.get("seen_in", ()), *detail.get("baseline_campaigns", ())} - {None}
    views = [view for campaign in campaigns for view in archive.trials(campaign_id=campaign) if view.series_key in series]
    if not views:  # a finding about a provider, such as a silence or a failed launch
        views = [view for campaign in campaigns for view in archive.trials(campaign_id=campaign, provider=finding.provider)]
    if not views:
        raise LookupError(f'finding "{subject}" has no recorded trial and so no evidence to export')
    return finding, _ordered(archive, views)


def _ordered(archive: Archive, views: list[TrialView]) -> list[TrialView]:
    # An imported result has no document of ours and no evidence.
    own = {(view.trial_id, view.attempt): view for view in views if archive.imported(view.trial_id) is None}
    return [own[key] for key in sorted(own)]


def _trial(archive: Archive, view: TrialView, pack: zipfile.ZipFile, content: dict[str, bytes]) -> tuple[dict[str, Any], list[str]]:
    name = f"{view.trial_id}#{view.attempt}"
    document = archive.document(view.trial_id, view.attempt)
    if document is None:
        raise InvalidResult(f"{name}: its document is missing in the archive")
    folder = f"trials/{view.trial_id}-attempt-{view.attempt}"
    signature = signing.verify(document, archive.signing_keys(document.trial.campaign_id, view.trial_id))
    problems = [f"{name}: {signature.detail}"] if signature.status == "broken" else []
    _add(pack, content, f"{folder}/document.json", document.signed_bytes())
    if document.signature is not None and signature.key is not None:
        _add(pack, content, f"{folder}/signature.bin", bytes.fromhex(document.signature.value))
        _add(pack, content, f"{folder}/public-key.pem", _pem(signature.key))
    recorded = {
        "validity": document.validity.model_dump(mode="json"),
        "quality_action": view.quality_action,
        "corrected": view.corrected,
        "launch": None if document.launch is None else document.launch.model_dump(mode="json"),
    }
    _add(pack, content, f"{folder}/recorded.json", _json(recorded))
    absent = dict(_evidence(archive, view, document, folder, pack, content))
    problems += [f"{name}: {uri}: {why}" for uri, why in absent.items() if not why.startswith("expired")]
    signed_attempt = (document.signature.attempt if document.signature else None) or view.attempt
    return {
        "folder": folder,
        "campaign_id": document.trial.campaign_id,
        "trial_id": view.trial_id,
        "attempt": view.attempt,
        "attempt_signed": signed_attempt,
        "provider": document.trial.provider.name,
        "workload": document.trial.workload.name,
        "signed": document.signature is not None,
        "signature": signature.detail,
        "absent": absent,
    }, problems


def _evidence(
    archive: Archive, view: TrialView, document: ResultDocument, folder: str, pack: zipfile.ZipFile, content: dict[str, bytes]
) -> Iterator[tuple[str, str]]:
    """Add the evidence files; yields those that are not available, and why."""
    expired: Mapping[str, Any] = archive.expired_files(view.trial_id, view.attempt)
    for item in document.evidence:
        if item.uri in expired:
            yield item.uri, f"expired on {expired[item.uri][0]:%Y-%m-%d} by the rule {expired[item.uri][1]}"
            continue
        try:
            data = ResultStore(evidence_files.check_address(view.uri)).get(item.uri, item.bytes)
        except FileNotFoundError:
            yield item.uri, "missing from the result store"
            continue
        except InvalidResult as error:  # larger than it was, or of an imported trial whose store is not declared here
            yield item.uri, str(error)
            continue
        if hashlib.sha256(data).hexdigest() != item.sha256:
            yield item.uri, "changed in the result store since it was measured"
            continue
        _add(pack, content, f"{folder}/{item.uri}", data)


def _finding_fields(finding: FindingView) -> dict[str, Any]:
    return {name: getattr(finding, name) for name in FindingRecord.__dataclass_fields__ if name != "state"}


def _add(pack: zipfile.ZipFile, content: dict[str, bytes], name: str, data: bytes) -> None:
    content[name] = hashlib.sha256(data).digest()
    _write(pack, name, data)


def _write(pack: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.create_system, info.external_attr = 3, 0o644 << 16
    with pack.open(info, "w", force_zip64=len(data) > 2**31) as file:
        file.write(data)


def _pem(key: str) -> bytes:
    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _json(data: Any) -> bytes:
    return (json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _readme(subject: str, finding: FindingView | None, trials: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    text.write(f"# Evidence pack: {'campaign' if finding is None else 'finding'} {subject}\n\n")
    if finding is not None:
        text.write(f"{finding.headline}\n\n")
    text.write(
        "Verify it with Python 3.10 or later and the package `cryptography`; Plumbline is not needed:\n\n"
        "    pip install cryptography\n    python verify.py\n\n"
        "`RESULT    VERIFIED` and exit status 0: every document is byte for byte what its pod signed, and every evidence file is the one that a\n"
        "signed document names. Exit status 1: something is wrong or missing; 2: the pack cannot be read; 3: nothing is wrong, but some\n"
        "documents are not signed. One document by hand:\n\n"
        "    openssl pkeyutl -verify -pubin -inkey public-key.pem -rawin -in document.json -sigfile signature.bin\n\n"
        "What a signature shows: the document left the pod that measured it as it is here. The key pair was made for that one attempt; its\n"
        "private half existed in the pod and in its Kubernetes Secret only, its public half was kept outside the provider. What it does not\n"
        "show: that the provider's own node, which can read its pods' memory, left the pod alone.\n\n"
        "`finding.json` and each `recorded.json` (verdict, what the launcher saw from outside) are the archive's words and are not signed.\n"
        "`index.json` lists every file with its SHA-256, and where each public key comes from.\n\n"
        "| trial | attempt | provider | workload | signature |\n|---|---|---|---|---|\n"
    )
    for trial in trials:
        text.write(f"| {trial['trial_id']} | {trial['attempt']} | {trial['provider']} | {trial['workload']} | {trial['signature']} |\n")
    return text.getvalue()
