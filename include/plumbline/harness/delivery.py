"""How a finished trial's document reaches its store: tried until the trial's own time is over, then printed into the log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from plumbline.declarations import Trial
from plumbline.harness.interruption import Interrupted, Interruption
from plumbline.harness.measurement import EvidenceFile
from plumbline.results import Evidence, Reason, ResultDocument, ResultStore, log_transport
from plumbline.results.store_errors import permanent_error
from plumbline.whole_file import sha256_file

Seal = Callable[[Sequence[Evidence], Sequence[Reason]], ResultDocument]
"""The document with this evidence, and with further reasons behind its own."""
_PAUSE_S = 5.0
_RESERVED_S = 60.0
"""Part of the trial's time that stays for the rest if the store stays away."""


_LOCAL_PATIENCE_S, _REMOTE_PATIENCE_S = 15.0, 300.0


class UnusableStore(ValueError):
    """The result store cannot be written to; nothing was."""


class StoreUnreachable(OSError):
    """The result store did not answer for minutes, before anything was measured; nothing was stored."""


def open_store(url: str) -> ResultStore:
    """The store behind an fsspec URL; UnusableStore for an invalid URL."""
    # A store that is away for some minutes must not cost a measurement of hours; a disk that fails does not come back.
    patience_s = _LOCAL_PATIENCE_S if url.startswith("file:") else _REMOTE_PATIENCE_S
    try:
        return ResultStore(url, patience_s=patience_s)
    except (ValueError, ImportError) as error:
        raise UnusableStore(
            f"{url} is not a result store: {error}; expected a URL such as file:///var/results or s3://bucket/results"
        ) from error


class DeliveryFailed(OSError):
    """The result store took no document. The message says where the document went instead."""


def evidence_entries(files: Sequence[EvidenceFile]) -> list[tuple[Evidence, Path]]:
    """The document's entry of each file. ValueError if two files have one name."""
    names = [item.path.name for item in files]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two evidence files are called {', '.join(twice)}; the second would replace the first")
    return [(_evidence_entry(item), item.path) for item in files]


def _evidence_entry(item: EvidenceFile) -> Evidence:
    sha256 = sha256_file(item.path)
    return Evidence(kind=item.kind, uri=f"evidence/{item.path.name}", sha256=sha256, bytes=item.path.stat().st_size, rows=item.rows)


def deliver(
    store: ResultStore, trial: Trial, files: Sequence[tuple[Evidence, Path]], seal: Seal, interruption: Interruption, left_s: float
) -> ResultDocument:
    """Store the evidence, then the document, and return it.

    `left_s`: seconds left of the trial's time, for which a failing store is retried; one that refuses is not. Then DeliveryFailed, and the log
    holds the document with what evidence fits. On a disk only the store's own patience counts."""
    waits = not store.url.startswith("file:")
    until = time.monotonic() + max(left_s - _RESERVED_S, 0.0)
    try:
        with interruption.time_limit(max(left_s - _RESERVED_S, 60.0)):
            while True:
                try:
                    return _store(store, trial, files, seal)
                except OSError as error:
                    if not waits or permanent_error(error, store.url) is not None or time.monotonic() + _PAUSE_S > until:
                        raise
                    sys.stderr.write(f"{store.url} unreachable; retrying for {until - time.monotonic():.0f} s: {error}\n")
                time.sleep(_PAUSE_S)
    except (Exception, Interrupted) as error:
        where = _print_to_log(files, seal)
        why = "the trial's time was over while it was tried" if isinstance(error, Interrupted) else f"{type(error).__name__}: {error}"
        raise DeliveryFailed(f"document not stored at {store.url} ({why}); {where}") from error


def _store(store: ResultStore, trial: Trial, files: Sequence[tuple[Evidence, Path]], seal: Seal) -> ResultDocument:
    for item, path in files:
        store.put(f"{store.folder(trial)}/{item.uri}", path.read_bytes())
    document = seal([item for item, _ in files], ())
    store.put_document(document)
    return document


def _print_to_log(files: Sequence[tuple[Evidence, Path]], seal: Seal) -> str:
    try:
        fits = log_transport.select_evidence(files)
        missing = [item.uri for item, _ in files if item not in [each for each, _ in fits]]
        lost = f"evidence dropped, exceeds the log's size limit: {', '.join(missing)}"
        document = seal([item for item, _ in fits], (Reason(code="evidence_left_out", detail=lost),) if missing else ())
        for line in log_transport.encode_lines(document.model_dump_json(indent=1).encode(), fits):
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        return f"nor could it be printed: {error}"
    return f"printed to this log with {len(fits)} of {len(files)} evidence files"
