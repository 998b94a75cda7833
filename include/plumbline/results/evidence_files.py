"""Evidence files of an attempt: which stores they may be read from, and which have expired."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

from pydantic import AwareDatetime

from plumbline.declarations import installation_paths, load_upkeep
from plumbline.declarations.addresses import canonical, path_below
from plumbline.declarations.urls import STORE_URL_PATTERN
from plumbline.metrics.rows import Part
from plumbline.results.bounded_json import InvalidResult
from plumbline.results.document import ResultDocument
from plumbline.results.store import ResultStore

EXPIRED_FILE = "expired.json"


class ExpiredEvidence(Part):
    """`files`: relative to the attempt's folder."""

    files: tuple[str, ...]
    expired_at: AwareDatetime
    rule: str


def record_expired(store: ResultStore, folder: str, files: Sequence[str], at: datetime, rule: str) -> None:
    """Record that these files of an attempt's folder expired; earlier records stay."""
    before = read_expired(store, folder)
    names = tuple(sorted({*files, *(before.files if before else ())}))
    store.put(_expired_path(folder), ExpiredEvidence(files=names, expired_at=at, rule=rule).model_dump_json(indent=1).encode())


def read_expired(store: ResultStore, folder: str) -> ExpiredEvidence | None:
    """The record of expired files; None without one, or if it is unreadable."""
    try:
        return ExpiredEvidence.model_validate_json(store.get(_expired_path(folder)))
    except (FileNotFoundError, ValueError):  # also what is too large or no JSON
        return None


def damaged_files(store: ResultStore, document: ResultDocument) -> list[str]:
    """Evidence files that are missing or differ from their size or SHA-256, one sentence each; expired files do not count."""
    broken = []
    for item in document.evidence:
        path = f"{store.folder(document.trial)}/{item.uri}"
        try:
            digest, count = store.digest(path, item.bytes)
        except FileNotFoundError:
            gone = read_expired(store, store.folder(document.trial))
            if gone is None or item.uri not in gone.files:
                broken.append(f"{store.uri(path)} is missing")
            continue
        if count != item.bytes:
            broken.append(
                f"{store.uri(path)} has {'more' if count > item.bytes else 'fewer'} than the {item.bytes:,} bytes of the document"
            )
        elif digest != item.sha256:
            broken.append(f"{store.uri(path)} has SHA-256 {digest}; the document says {item.sha256}")
    return broken


def _expired_path(folder: str) -> str:
    return f"{folder}/{EXPIRED_FILE}" if folder else EXPIRED_FILE


# The one gate for addresses that the archive holds: whoever reads a file by such an address asks here first.
#
# A row of the archive may come from another archive. fsspec would fetch any web page, device or chain of file systems that it names.


_STORE_URL = re.compile(STORE_URL_PATTERN)


def readable_stores() -> tuple[str, ...]:
    """The stores that may be read: the installation's own, and `evidence.stores` of upkeep.yaml."""
    return installation_paths().results_url, *load_upkeep().evidence.stores


def check_address(address: str, stores: Sequence[str] | None = None) -> str:
    """`address` itself if it lies in one of these stores (default: `readable_stores`); InvalidResult otherwise."""
    check_address_form(address)
    if lies_elsewhere(address, readable_stores() if stores is None else stores):
        raise InvalidResult(
            f"{address} is outside the declared result stores; expected PLUMBLINE_RESULTS_URL or one of evidence.stores in upkeep.yaml"
        )
    return address


def lies_elsewhere(address: str, stores: Sequence[str]) -> bool:
    """Whether an address of a store's form lies in none of these stores."""
    with suppress(InvalidResult):
        check_address_form(address)
        return all(path_below(address, store) is None for store in stores)
    return False


def check_address_form(address: str) -> str:
    """`address` itself; InvalidResult if its scheme is not a store's, or if it leads out of its store."""
    form = canonical(address)
    folders = {*address.split("/"), *form.split("/")}
    if not _STORE_URL.fullmatch(form) or "::" in address or "%00" in form or not folders.isdisjoint((".", "..")):
        raise InvalidResult(f"{address!r} is not the address of a result store; expected file://, s3://, gs:// or abfs:// without ..")
    return address
