"""An evidence pack: the documents and evidence behind a finding or a campaign, as one ZIP file that can be verified without Plumbline.

README.md, verify.py, index.json with index.sig and index-key.pem (signed by the installation; index-2.sig and index-2-key.pem by its next key while
that is announced), finding.json (of a finding), and for each attempt a folder trials/<trial id>-attempt-<n>/ with
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
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from plumbline.archive import Archive, FindingView, TrialView
from plumbline.results import InvalidResult, ResultDocument, ResultStore, evidence_files, signing
from plumbline.results.installation_keys import installation_keys
from plumbline.results.stored import FindingRecord
from plumbline.whole_file import whole_file

_VERIFY = Path(__file__).with_name("verify_pack.py")
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the pack, so that the same archive gives the same bytes but for `signed_at` of the index."""


@dataclass(frozen=True)
class EvidencePack:
    """`key`: the public half that recipients know; `next_key`: of the one that is announced. `problems`: lost or changed evidence and invalid
    signatures, one sentence each."""

    file: Path
    trials: int
    signed: int
    files: int
    key: str
    problems: tuple[str, ...] = ()
    next_key: str | None = None


def write_evidence_pack(
    archive: Archive, subject: str, file: Path, provider: str | None = None, sheets: Mapping[str, bytes] | None = None
) -> EvidencePack:
    """Write the pack of a finding or a campaign, of one provider: documents hold its prices. The same archive and store give the same files; the index has the time
    of its signature beside them.
    `sheets`: further files by name, which the index signs too.

    LookupError for an unknown subject; ValueError where the attempts are of several providers and none is named; InvalidResult for an invalid document
    in the archive; FileExistsError if the file exists; OSError if a result store does not answer, or the installation's key cannot be read.
    """
    keys = installation_keys()
    finding, attempts = _attempts(archive, subject)
    if not attempts and not sheets:
        raise LookupError(f'finding "{subject}" has no recorded trial and so no evidence to export')
    own = [view for view in attempts if view.provider == (provider or (finding.provider if finding is not None else view.provider))]
    if not own and attempts:
        raise LookupError(f'"{subject}" has no trial of {provider or "its provider"}; its trials are of {_names(attempts)}')
    if len({view.provider for view in own}) > 1:
        raise ValueError(f'"{subject}" has trials of {_names(own)}; expected one of them: a pack holds the prices of its provider')
    if file.exists():
        raise FileExistsError(f"{file} exists; expected the name of a new file")
    content: dict[str, bytes] = {}
    trials, problems = [], []
    with whole_file(file, durable=True) as draft, zipfile.ZipFile(draft, "w", zipfile.ZIP_STORED) as pack:
        for view in own:
            trial, wrong = _trial(archive, view, pack, content)
            trials.append(trial)
            problems += wrong
        if finding is not None:
            # Of several providers its details, which may name prices, stay here.
            left_out = {"state", "detail"} if len({view.provider for view in attempts}) > 1 else {"state"}
            fields = {name: getattr(finding, name) for name in FindingRecord.__dataclass_fields__.keys() - left_out}
            _add(pack, content, "finding.json", _json(fields))
        for name, data in (sheets or {}).items():
            _add(pack, content, name, data)
        kind, at = "campaign" if finding is None else "finding", datetime.now(timezone.utc).isoformat(timespec="seconds")
        index = {"format": 3, "subject": subject, "kind": kind, "signed_at": at, "trials": trials}
        hashes = {name: digest.hex() for name, digest in sorted(content.items())}
        signed = _json({**index, "files": hashes})
        _write(pack, "index.json", signed)
        for ending, key in zip(("", *(f"-{n}" for n in range(2, len(keys) + 1))), keys, strict=True):
            _write(pack, f"index{ending}.sig", key.private.sign(signed))
            _write(pack, f"index{ending}-key.pem", _pem(key.public_hex))
        _write(pack, "verify.py", _VERIFY.read_bytes())
        _write(pack, "README.md", _readme(subject, finding, trials).encode())
    signed_trials, files = sum(bool(trial["signed"]) for trial in trials), len(content) + 3 + 2 * len(keys)
    following = keys[1].public_hex if len(keys) > 1 else None
    return EvidencePack(file, len(trials), signed_trials, files, keys[0].public_hex, tuple(problems), following)


def _names(views: list[TrialView]) -> str:
    return ", ".join(sorted({view.provider for view in views}))


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
        with tempfile.TemporaryFile(prefix="plumbline-evidence-") as copy:
            try:
                sha256, size = ResultStore(evidence_files.check_address(view.uri)).digest(item.uri, item.bytes, copy)
            except FileNotFoundError:
                yield item.uri, "missing from the result store"
                continue
            except InvalidResult as error:  # of an imported trial whose store is not declared here
                yield item.uri, str(error)
                continue
            if (sha256, size) != (item.sha256, item.bytes):
                yield item.uri, "changed in the result store since it was measured"
                continue
            content[f"{folder}/{item.uri}"] = bytes.fromhex(sha256)
            copy.seek(0)
            with pack.open(_entry(f"{folder}/{item.uri}"), "w", force_zip64=size > 2**31) as file:
                shutil.copyfileobj(copy, file, 2**20)


def _add(pack: zipfile.ZipFile, content: dict[str, bytes], name: str, data: bytes) -> None:
    content[name] = hashlib.sha256(data).digest()
    _write(pack, name, data)


def _write(pack: zipfile.ZipFile, name: str, data: bytes) -> None:
    pack.writestr(_entry(name), data)


def _entry(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.create_system, info.external_attr = 3, 0o644 << 16
    return info


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
        "Verify it with Python 3.10 or later and the package `cryptography`; Plumbline is not needed. KEY is the public key of the installation\n"
        "that made the pack: take it from its operator (a mail, a page, a call), not from this pack.\n\n"
        "    pip install cryptography\n    python -I verify.py --key KEY\n\n"
        "`RESULT    VERIFIED` and exit status 0: the installation made this list of trials and files, every document is byte for byte what its pod\n"
        "signed, and every evidence file is the one that a signed document names. Of the same campaign a later pack may say more: the verifier prints\n"
        "when this one was signed, and `--since` refuses an older one. Exit status 1: something is wrong or missing; 2: the pack\n"
        "cannot be read; 3: nothing is wrong, but some documents are not signed or some evidence has expired; 4: no KEY was given.\n"
        "One document by hand:\n\n"
        "    openssl pkeyutl -verify -pubin -inkey public-key.pem -rawin -in document.json -sigfile signature.bin\n\n"
        "What a document's signature shows: it left the pod that measured it as it is here. The key pair was made for that one attempt; its\n"
        "private half existed in the pod and in its Kubernetes Secret only, its public half was kept outside the provider. What it does not\n"
        "show: that the provider's own node, which can read its pods' memory, left the pod alone.\n\n"
        "The installation signs `index.json`, which lists every file with its SHA-256: `finding.json` and each `recorded.json` (verdict, what\n"
        "the launcher saw from outside) are its words.\n\n"
        "| trial | attempt | provider | workload | signature |\n|---|---|---|---|---|\n"
    )
    for trial in trials:
        text.write(f"| {trial['trial_id']} | {trial['attempt']} | {trial['provider']} | {trial['workload']} | {trial['signature']} |\n")
    return text.getvalue()
