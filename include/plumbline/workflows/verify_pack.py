"""Verifies an evidence pack: python -I verify.py [FOLDER | PACK.zip] (--key KEY | --sha256 SUM) [--since TIME]. Needs Python 3.10 and the package `cryptography`.

Default: the folder that this file is in. KEY: the installation's public key, 64 hexadecimal digits, as its operator gave it to you outside of the pack;
SUM: the SHA-256 of PACK.zip, likewise. TIME: 2026-11-30 or 2026-11-30T14:00Z; a pack that was signed before is refused, such as an older sheet of the
same campaign. Checks that the installation signed index.json, that each file is the one that it lists, that each document.json is
what the holder of public-key.pem signed (Ed25519), and that each evidence file is the one that the signed document names.

Exit status: 0 verified; 1 something is wrong or missing; 2 the pack or this computer cannot be used; 3 nothing is wrong, but some documents are not
signed or some evidence is not shown; 4 nothing is wrong, but the key is unknown: give --key or --sha256.
"""

import sys

if __name__ == "__main__" and not sys.flags.isolated:
    del sys.path[0]  # the pack's own folder: a json.py beside this file must not run

import argparse
import hashlib
import json
import zipfile
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path, PurePosixPath
from typing import Any

Root = Path | zipfile.Path
MAX_FILE = 256 << 20
"""Bytes that a file of a pack becomes: raw evidence of a trial takes tens of millions."""
VERIFIED, WRONG, UNUSABLE, NOT_ALL_SHOWN, UNKNOWN_KEY = 0, 1, 2, 3, 4
_OWN = frozenset({"README.md", "index.json", "verify.py"})
_SIGNATURES = (("index.sig", "index-key.pem"), ("index-2.sig", "index-2-key.pem"))
"""By the installation's key; by its next one too, while that is announced."""
_BAD = ("WRONG", "MISSING")
_RESULTS = {VERIFIED: "VERIFIED", WRONG: "FAILED", NOT_ALL_SHOWN: "NOT ALL SHOWN", UNKNOWN_KEY: "KEY UNKNOWN"}


class Unusable(Exception):
    """The given file is no evidence pack."""


def main(arguments: list[str]) -> int:
    """Print a line for each file and a result; the exit status."""
    parser = argparse.ArgumentParser(description="Verify an evidence pack.")
    parser.add_argument("pack", nargs="?", type=Path, default=Path(__file__).resolve().parent, help="its folder or ZIP file")
    parser.add_argument("--key", help="the installation's public key, which you did not take from the pack")
    parser.add_argument("--since", type=_moment, help="the index must be signed at this time or later: such as 2026-11-30")
    parser.add_argument("--sha256", help="the SHA-256 of the ZIP file, which you did not take from the pack")
    given = parser.parse_args(arguments)
    try:
        from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: F401
    except ImportError:
        print("UNUSABLE  the Python package cryptography is not installed; expected: pip install cryptography")  # noqa: T201
        return UNUSABLE
    try:
        root: Root = zipfile.Path(given.pack) if given.pack.is_file() else given.pack
        key, lines = _index_key(root), list(_pack(root, given.key, given.since))
        known = given.key is not None
        if given.sha256 is not None:
            lines.append(_sum(given.pack, given.sha256))
            known = True
    except (Unusable, OSError, zipfile.BadZipFile) as error:
        print(f"UNUSABLE  {given.pack}: {error}")  # noqa: T201
        return UNUSABLE
    for word, text in lines:
        print(f"{word:9} {text}")  # noqa: T201
    count = {word: sum(1 for each, _ in lines if each == word) for word in ("SIGNED", "UNSIGNED", "EXPIRED", *_BAD)}
    status = VERIFIED if known else UNKNOWN_KEY
    if count["UNSIGNED"] or count["EXPIRED"]:
        status = NOT_ALL_SHOWN
    if count["WRONG"] or count["MISSING"]:
        status = WRONG
    print(  # noqa: T201
        f"RESULT    {_RESULTS[status]}: {count['SIGNED']} documents signed, {count['UNSIGNED']} not signed, {count['EXPIRED']} files expired, "
        f"{count['WRONG']} wrong, {count['MISSING']} missing; index signed with the key {key}"
    )
    if status == UNKNOWN_KEY:
        print("          whose key this is, the pack cannot say: ask who sent it for the key or the SHA-256, and give --key or --sha256")  # noqa: T201
    return status


def _index_key(root: Root) -> str:
    """The public key beside the index, in hexadecimal digits."""
    pem = _read(root, "index-key.pem")
    if pem is None or _read(root, "index.sig") is None:
        raise Unusable("index.sig or index-key.pem is not there; expected an evidence pack whose index is signed")
    if (key := _public_key(pem)) is None:
        raise Unusable("index-key.pem is no Ed25519 public key")
    return str(key.public_bytes_raw().hex())


def _public_key(pem: bytes) -> Any:
    """The Ed25519 key; None if it is none."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, Ed25519PublicKey) else None


def _sum(pack: Path, expected: str) -> tuple[str, str]:
    if not pack.is_file():
        raise Unusable("--sha256 is of the ZIP file; expected that file, not its folder")
    summed = hashlib.sha256()
    with pack.open("rb") as file:
        while piece := file.read(2**20):
            summed.update(piece)
    actual = summed.hexdigest()
    return (
        ("OK", f"{pack.name}: its SHA-256 is the given one")
        if actual == expected.lower()
        else ("WRONG", f"{pack.name}: its SHA-256 is {actual}")
    )


def _pack(root: Root, key: str | None, since: datetime | None) -> Iterator[tuple[str, str]]:
    index = _object(root, "index.json")
    listed, trials = index.get("files"), index.get("trials")
    if not isinstance(listed, dict) or not isinstance(trials, list) or not all(isinstance(trial, dict) for trial in trials):
        raise Unusable('index.json is of no evidence pack; expected "files" and "trials"')
    if not trials and "promises.json" not in listed:
        raise Unusable("index.json lists no trial; expected at least one document")
    pairs = [pair for pair in _SIGNATURES if any(_read(root, name) is not None for name in pair)]
    signatures = [_signature(root, "index.json", *pair, key) for pair in pairs]
    # Both must hold; where a key is given, one of them must be its.
    broken = [each for each, pair in zip(signatures, pairs, strict=True) if _signature(root, "index.json", *pair)[0] == "WRONG"]
    right = [each for each in signatures if each[0] == "OK"]
    yield from broken or right[:1] or signatures[:1]
    yield _age(index.get("signed_at"), since)
    for name in sorted(listed):
        data = _read(root, name)
        if data is None:
            yield "MISSING", f"{name}: index.json lists it"
        elif hashlib.sha256(data).hexdigest() != listed[name]:
            yield "WRONG", f"{name}: its SHA-256 differs from index.json"
    for name in _names(root):
        if name not in listed and name not in _OWN and not any(name in pair for pair in _SIGNATURES):
            yield "WRONG", f"{name}: index.json does not list it"
    for trial in trials:
        try:
            yield from _trial(root, trial)
        except (KeyError, TypeError, ValueError, AttributeError):
            yield "WRONG", f"index.json: {trial.get('folder', 'a trial')} is not described as expected"


def _moment(text: str) -> datetime:
    found = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    return found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)


def _age(signed_at: Any, since: datetime | None) -> tuple[str, str]:
    try:
        at = _moment(str(signed_at))
    except ValueError:
        return "WRONG", "index.json: no time of its signature; expected signed_at"
    if since is not None and at < since:
        return "WRONG", f"index.json: signed at {at:%Y-%m-%d %H:%M} UTC, before the given time: ask for the newest pack"
    return "OK", f"index.json: signed at {at:%Y-%m-%d %H:%M} UTC; a later pack of the same subject replaces it"


def _trial(root: Root, trial: dict[str, Any]) -> Iterator[tuple[str, str]]:
    folder = str(trial["folder"])
    raw = _read(root, f"{folder}/document.json")
    if raw is None:
        yield "MISSING", f"{folder}/document.json"
        return
    yield _document_signature(root, folder, bool(trial["signed"]))
    try:
        document = json.loads(raw)
        claimed = document["trial"]
        identity = (claimed["campaign_id"], claimed["trial_id"], claimed.get("attempt", 1))
        evidence = [(item["uri"], item["sha256"], item["bytes"]) for item in document.get("evidence", [])]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        yield "WRONG", f"{folder}/document.json: no result document"
        return
    if identity != (trial["campaign_id"], trial["trial_id"], trial["attempt_signed"]):
        yield "WRONG", f"{folder}/document.json: it is of {' '.join(map(str, identity))}, not of the trial that index.json names"
    absent = dict(trial.get("absent", {}))
    for uri, sha256, size in evidence:
        data = _read(root, f"{folder}/{uri}")
        if data is None:
            yield (
                ("EXPIRED" if str(absent.get(uri, "")).startswith("expired") else "MISSING"),
                f"{folder}/{uri}: {absent.get(uri, 'not in the pack')}",
            )
        elif len(data) != size or hashlib.sha256(data).hexdigest() != sha256:
            yield "WRONG", f"{folder}/{uri}: it is not the file that the document names"
        else:
            yield "OK", f"{folder}/{uri}: the file that the document names"


def _document_signature(root: Root, folder: str, signed: bool) -> tuple[str, str]:
    names = f"{folder}/document.json", f"{folder}/signature.bin", f"{folder}/public-key.pem"
    if not signed and all(_read(root, name) is None for name in names[1:]):
        return "UNSIGNED", f"{names[0]}: no signature; index.json says why"
    return _signature(root, *names)


def _signature(root: Root, name: str, signature_name: str, key_name: str, expected: str | None = None) -> tuple[str, str]:
    from cryptography.exceptions import InvalidSignature

    raw, pem, signature = _read(root, name), _read(root, key_name), _read(root, signature_name)
    if raw is None or pem is None or signature is None:
        return "WRONG", f"{name}: its signature or its public key is not in the pack"
    if (key := _public_key(pem)) is None:
        return "WRONG", f"{key_name}: no Ed25519 public key"
    try:
        key.verify(signature, raw)
    except InvalidSignature:
        return "WRONG", f"{name}: the signature does not match the file and the public key"
    used = key.public_bytes_raw().hex()
    if expected is not None and used != expected.strip().lower():
        return "WRONG", f"{name}: signed with the key {used}, not with the given one"
    return ("OK" if name == "index.json" else "SIGNED"), f"{name}: signed with the key {used}"


def _object(root: Root, name: str) -> dict[str, Any]:
    data = _read(root, name)
    if data is None:
        raise Unusable(f"{name} is not there; expected the folder or the ZIP file of an evidence pack")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Unusable(f"{name} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise Unusable(f"{name} is no JSON object")
    return value


def _read(root: Root, name: str) -> bytes | None:
    """The bytes of a file of the pack; None if it is not there. A name that leads out of the pack is not there."""
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        return None
    file = root
    for part in PurePosixPath(name).parts:
        file = file / part
    if not file.is_file():
        return None
    with file.open("rb") as opened:
        data: bytes = opened.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise Unusable(f"{name} has more than {MAX_FILE >> 20} MiB; expected a file of an evidence pack")
    return data


def _names(root: Root) -> list[str]:
    if isinstance(root, Path):
        return sorted(file.relative_to(root).as_posix() for file in root.rglob("*") if file.is_file())
    return sorted(info.filename for info in root.root.infolist() if not info.is_dir())


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
