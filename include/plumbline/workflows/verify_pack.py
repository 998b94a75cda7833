"""Verifies an evidence pack: python verify.py [FOLDER | PACK.zip]. Needs Python 3.10 and the package `cryptography`, nothing else.

Default: the folder that this file is in. For each trial: whether document.json is what the holder of public-key.pem signed (Ed25519), and
whether each evidence file is the one whose SHA-256 and size the signed document names.

Exit status: 0 all documents are signed and everything holds; 1 something is wrong or missing; 2 the pack or this computer cannot be used;
3 nothing is wrong, but some documents are not signed.
"""

import hashlib
import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

Root = Path | zipfile.Path
VERIFIED, WRONG, UNUSABLE, UNSIGNED = 0, 1, 2, 3
_OWN = frozenset({"README.md", "index.json", "verify.py"})


class Unusable(Exception):
    """The given file is no evidence pack."""


def main(arguments: list[str]) -> int:
    """Print a line for each file and a result; the exit status."""
    try:
        from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: F401
    except ImportError:
        print("UNUSABLE  the Python package cryptography is not installed; expected: pip install cryptography")  # noqa: T201
        return UNUSABLE
    place = Path(arguments[0]) if arguments else Path(__file__).resolve().parent
    try:
        root: Root = zipfile.Path(place) if place.is_file() else place
        lines = list(_pack(root))
    except (Unusable, OSError, zipfile.BadZipFile) as error:
        print(f"UNUSABLE  {place}: {error}")  # noqa: T201
        return UNUSABLE
    for word, text in lines:
        print(f"{word:9} {text}")  # noqa: T201
    count = {word: sum(1 for each, _ in lines if each == word) for word in ("SIGNED", "UNSIGNED", "WRONG", "MISSING")}
    bad = count["WRONG"] + count["MISSING"]
    print(  # noqa: T201
        f"RESULT    {'FAILED' if bad else 'VERIFIED' if not count['UNSIGNED'] else 'NOT ALL SIGNED'}: {count['SIGNED']} documents signed, "
        f"{count['UNSIGNED']} not signed, {count['WRONG']} wrong, {count['MISSING']} missing"
    )
    return WRONG if bad else UNSIGNED if count["UNSIGNED"] else VERIFIED


def _pack(root: Root) -> Iterator[tuple[str, str]]:
    index = _object(root, "index.json")
    listed = index.get("files")
    trials = index.get("trials")
    if not isinstance(listed, dict) or not isinstance(trials, list):
        raise Unusable('index.json is of no evidence pack; expected "files" and "trials"')
    for name in sorted(listed):
        data = _read(root, name)
        if data is None:
            yield "MISSING", f"{name}: index.json lists it"
        elif hashlib.sha256(data).hexdigest() != listed[name]:
            yield "WRONG", f"{name}: its SHA-256 differs from index.json"
    for name in _names(root):
        if name not in listed and name not in _OWN:
            yield "WRONG", f"{name}: index.json does not list it"
    for trial in trials:
        yield from _trial(root, trial)


def _trial(root: Root, trial: Any) -> Iterator[tuple[str, str]]:
    folder = str(trial["folder"])
    raw = _read(root, f"{folder}/document.json")
    if raw is None:
        yield "MISSING", f"{folder}/document.json"
        return
    yield _signature(root, folder, raw, bool(trial["signed"]))
    try:
        document = json.loads(raw)
        claimed = document["trial"]
        identity = (claimed["campaign_id"], claimed["trial_id"], claimed.get("attempt", 1))
        evidence = [(item["uri"], item["sha256"], item["bytes"]) for item in document.get("evidence", [])]
    except (ValueError, KeyError, TypeError, AttributeError):
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


def _signature(root: Root, folder: str, raw: bytes, signed: bool) -> tuple[str, str]:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    pem, signature = _read(root, f"{folder}/public-key.pem"), _read(root, f"{folder}/signature.bin")
    if pem is None and signature is None and not signed:
        return "UNSIGNED", f"{folder}/document.json: no signature; index.json says why"
    if pem is None or signature is None:
        return "WRONG", f"{folder}/document.json: its signature or its public key is not in the pack"
    try:
        key = load_pem_public_key(pem)
        if not isinstance(key, Ed25519PublicKey):
            return "WRONG", f"{folder}/public-key.pem: no Ed25519 key"
        key.verify(signature, raw)
    except InvalidSignature:
        return "WRONG", f"{folder}/document.json: the signature does not match the document and the public key"
    except ValueError:
        return "WRONG", f"{folder}/public-key.pem: no public key"
    return "SIGNED", f"{folder}/document.json: signed with the key {key.public_bytes_raw().hex()}"


def _object(root: Root, name: str) -> dict[str, Any]:
    data = _read(root, name)
    if data is None:
        raise Unusable(f"{name} is not there; expected the folder or the ZIP file of an evidence pack")
    try:
        value = json.loads(data)
    except ValueError as error:
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
    return file.read_bytes() if file.is_file() else None


def _names(root: Root) -> list[str]:
    if isinstance(root, Path):
        return sorted(file.relative_to(root).as_posix() for file in root.rglob("*") if file.is_file())
    return sorted(info.filename for info in root.root.infolist() if not info.is_dir())


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
