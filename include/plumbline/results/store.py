"""The result store: an fsspec URL under which each attempt of each trial has a folder.

<url>/<campaign>/<trial id>/attempt-<n>/trial.json      what was asked
                                        evidence/…      raw files, written first
                                        result.json     the document, written last
                                        launch.json     what the launcher saw, also when there is no document
                                        replicas.jsonl  what the launcher saw of a server that scales: {"at": Unix seconds, "ready": n, "wanted": n}
                                        expired.json    which evidence is kept no longer (plumbline.results.evidence_files)
                                        correction.json instead of trial.json: the archive corrected an attempt by this one; never collected
<url>/quarantine/…                                      documents that cannot be believed (plumbline.results.quarantine)"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

import fsspec

from plumbline.declarations import Trial
from plumbline.declarations.addresses import local_path
from plumbline.declarations.trials import without_defaults as shortened
from plumbline.declarations.urls import url_problem
from plumbline.results import bounded_json
from plumbline.results.bounded_json import InvalidResult
from plumbline.results.document import SCHEMA_VERSION, LaunchRecord, ReplicaCount, ResultDocument
from plumbline.results.store_errors import as_os_error, permanent_error
from plumbline.whole_file import whole_file, write_whole

T = TypeVar("T")
_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl"})
_ATTEMPT = re.compile(r"attempt-(\d+)$")
_MODIFIED_KEYS = ("LastModified", "last_modified", "updated", "mtime")
"""Names of an object's time of writing on S3, Azure, Google and file systems."""
REPLICAS_FILE = "replicas.jsonl"
RETRY_LIMIT_S = 15.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 15.0
# gcsfs' default class asks before each operation, by gRPC, what kind of bucket it has, and where nobody answers that (a proxy, a firewall, a
# store that speaks HTTP only) it waits a minute each time. Whole objects need no such knowledge.
for _scheme in ("gs", "gcs"):
    fsspec.register_implementation(_scheme, "gcsfs.core.GCSFileSystem", clobber=True)


class ResultStore:
    """One store. Every write is atomic: a reader sees the whole object or none."""

    def __init__(self, url: str, options: Mapping[str, Any] | None = None, *, patience_s: float = RETRY_LIMIT_S) -> None:
        """`options`: fsspec's storage options, such as credentials; the environment's if left out.
        `patience_s`: for about how long a store that fails is tried again. ValueError for a URL with a secret, which documents would hold.
        """
        if problem := url_problem(url):
            raise ValueError(f"the result store's URL {problem}; expected the address alone, such as s3://bucket/folder")
        self.url = url.rstrip("/")
        self._patience_s = patience_s
        folder = local_path(self.url)
        self._fs: Any
        self._root: str
        self._fs, self._root = (fsspec.filesystem("file"), str(folder)) if folder else fsspec.core.url_to_fs(self.url, **(options or {}))
        protocols = {self._fs.protocol} if isinstance(self._fs.protocol, str) else set(self._fs.protocol)
        self._local = "file" in protocols
        # Object stores have no folders to make, and asking for one would create a bucket whose name was misspelt.
        self._has_folders = not protocols & _OBJECT_STORES

    @staticmethod
    def folder(trial: Trial) -> str:
        """The attempt's folder, relative to any store."""
        return f"{trial.campaign_id}/{trial.trial_id}/attempt-{trial.attempt}"

    def put(self, path: str, data: bytes) -> None:
        """Write one object atomically; transient errors are retried for as long as the store is patient, then raised as OSError.

        PermissionError at once if the store refuses the caller.
        """
        self._retried(lambda: self._put(path, data))

    def _put(self, path: str, data: bytes) -> None:
        target = f"{self._root}/{path}"
        if self._local:
            write_whole(Path(target), data, durable=True)
            return
        if self._has_folders:
            self._fs.makedirs(target.rsplit("/", 1)[0], exist_ok=True)
        self._fs.pipe_file(target, data)  # object stores show an object only once it is complete

    def put_file(self, path: str, file: Path) -> None:
        """Write one object from a file, a piece at a time; raises like `put`."""
        self._retried(lambda: self._put_file(path, file))

    def _put_file(self, path: str, file: Path) -> None:
        target = f"{self._root}/{path}"
        if not self._local:
            self._fs.put_file(str(file), target)
            return
        self._fs.makedirs(target.rsplit("/", 1)[0], exist_ok=True)
        with whole_file(Path(target), durable=True) as draft:
            shutil.copyfile(file, draft)

    def get(self, path: str, most: int = bounded_json.MAX_BYTES) -> bytes:
        """The bytes of one object; FileNotFoundError without one, InvalidResult if it has more than `most` bytes.

        Checks the size first, and never reads more than `most` bytes."""
        return self._retried(lambda: self._get(path, most))

    def _get(self, path: str, most: int) -> bytes:
        target = f"{self._root}/{path}"
        if self._local:
            with self._fs.open(target, "rb") as file:
                bounded_json.check_size(os.fstat(file.fileno()).st_size, self.uri(path), most)
                data = bytes(file.read(most + 1))
        else:
            size = int(self._seen_now().info(target)["size"])
            bounded_json.check_size(size, self.uri(path), most)
            # Stores refuse a range of an empty object.
            data = bytes(self._fs.cat_file(target, start=0, end=most + 1)) if size else b""
        bounded_json.check_size(len(data), self.uri(path), most)
        return data

    def head(self, path: str, count: int) -> bytes:
        """The first `count` bytes of one object, or all if it has fewer; FileNotFoundError if there is none."""
        head = io.BytesIO()
        self.digest(path, count, head)
        return head.getvalue()[:count]

    def digest(self, path: str, most: int, file: IO[bytes] | None = None) -> tuple[str, int]:
        """SHA-256 (hex) and number of bytes of one object, which is copied to `file` if there is one. FileNotFoundError if there is none.

        Reading ends once there are more than `most` bytes, so that the number says so.
        """
        return self._retried(lambda: self._digest(path, most, file))

    def _digest(self, path: str, most: int, file: IO[bytes] | None) -> tuple[str, int]:
        sha256, count = hashlib.sha256(), 0
        if file is not None:
            file.seek(0)
            file.truncate()
        with self._seen_now().open(f"{self._root}/{path}", "rb") as source:
            while count <= most and (piece := source.read(2**20)):
                sha256.update(piece)
                count += len(piece)
                if file is not None:
                    file.write(piece)
        return sha256.hexdigest(), count

    def pieces(self, path: str) -> Iterator[bytes]:
        """The bytes of one object in pieces; FileNotFoundError without one.

        Not retried, because a reader that has begun cannot restart. Other failures are raised as OSError."""
        try:
            with self._fs.open(f"{self._root}/{path}", "rb") as file:
                while piece := file.read(2**20):
                    yield bytes(piece)
        except Exception as error:  # each client has its own exceptions for a lost connection
            raise (permanent_error(error, self.url) or as_os_error(error)) from error

    def exists(self, path: str) -> bool:
        return self._retried(lambda: bool(self._seen_now().exists(f"{self._root}/{path}")))

    def objects(self, below: str = "") -> Iterator[tuple[str, int]]:
        """Every object, or those in a folder, relative to the store, with its bytes; nothing if there is no store yet."""
        with suppress(FileNotFoundError):
            folder = f"{self._root}/{below}" if below else self._root
            listing = self._retried(partial(self._seen_now().find, folder, detail=True))
            for name, about in listing.items():
                yield str(name).removeprefix(f"{self._root}/"), int(about.get("size") or 0)

    def modified(self, path: str) -> datetime | None:
        """When one object was written, by the store's own clock; None where the store does not say. FileNotFoundError if there is none."""
        info = self._retried(lambda: self._seen_now().info(f"{self._root}/{path}"))
        modified = next((info[name] for name in _MODIFIED_KEYS if info.get(name) is not None), None)
        if isinstance(modified, str):
            modified = datetime.fromisoformat(modified)
        elif isinstance(modified, int | float):
            modified = datetime.fromtimestamp(modified, timezone.utc)
        return modified if isinstance(modified, datetime) else None

    def remove(self, path: str) -> None:
        """Delete one object; nothing if it is gone."""
        with suppress(FileNotFoundError):
            self._retried(partial(self._fs.rm_file, f"{self._root}/{path}"))

    def _seen_now(self) -> Any:
        self._fs.invalidate_cache()
        return self._fs

    def uri(self, path: str) -> str:
        return f"{self.url}/{path}"

    def put_trial(self, trial: Trial, *, brief: bool = False) -> None:
        """Store the specification, before it runs.

        `brief`: without fields at their default. A harness may be older than the plan, and refuses keys that it does not know."""
        text = json.dumps(shortened(trial), indent=1) if brief else trial.model_dump_json(indent=1)
        self.put(f"{self.folder(trial)}/trial.json", text.encode())

    def put_document(self, document: ResultDocument) -> None:
        """Store the document: the last write of a trial."""
        self.put(f"{self.folder(document.trial)}/result.json", document.model_dump_json(indent=1).encode())

    def put_launch(self, trial: Trial, record: LaunchRecord) -> None:
        self.put(f"{self.folder(trial)}/launch.json", record.model_dump_json(indent=1).encode())

    def put_replicas(self, trial: Trial, counts: Iterable[ReplicaCount]) -> None:
        """Store all changes of the replicas that were seen so far."""
        self.put(f"{self.folder(trial)}/{REPLICAS_FILE}", "".join(f"{count.model_dump_json()}\n" for count in counts).encode())

    def put_collected(self, document: ResultDocument) -> str:
        """Store the document with the launcher's observations; returns the attempt's folder."""
        self.put(f"{self.folder(document.trial)}/collected.json", document.model_dump_json(indent=1).encode())
        return self.folder(document.trial)

    def put_correction(self, trial: Trial, evidence_of: str) -> None:
        """Take the attempt's number for a correction whose evidence lies at `evidence_of`, before the archive records it."""
        self.put(f"{self.folder(trial)}/correction.json", json.dumps({"evidence_of": evidence_of}).encode())

    def correction(self, folder: str) -> str | None:
        """Address of the attempt whose evidence the correction in this folder has; None if it holds no correction."""
        if folder.endswith("/attempt-1"):  # corrects nothing: most folders cost no request
            return None
        path = f"{folder}/correction.json"
        try:
            return str(bounded_json.parse_object(self.get(path), self.uri(path)).get("evidence_of"))
        except FileNotFoundError:
            return None

    def collected(self, folder: str) -> ResultDocument:
        """The document that `put_collected` stored; raises like `document`."""
        return self.document_at(f"{folder}/collected.json")

    def trial(self, folder: str) -> Trial:
        """The specification of one attempt; InvalidResult if it is invalid."""
        path = f"{folder}/trial.json"
        return bounded_json.parse_model(Trial, self.get(path), self.uri(path))

    def document(self, folder: str) -> ResultDocument:
        """The document of one attempt, its schema and checksum verified.

        Raises FileNotFoundError if the harness never wrote one, InvalidResult if it is invalid."""
        return self.document_at(f"{folder}/result.json")

    def document_at(self, path: str) -> ResultDocument:
        """The document that an object holds; raises like `document`."""
        raw = self.get(path)
        version = bounded_json.parse_object(raw, self.uri(path)).get("schema_version")
        if isinstance(version, int) and version > SCHEMA_VERSION:
            raise InvalidResult(f"{self.uri(path)}: schema_version {version} is newer than {SCHEMA_VERSION}; upgrade plumbline to read it")
        return bounded_json.validate_model(ResultDocument, raw, self.uri(path))

    def launch(self, folder: str) -> LaunchRecord | None:
        """The launcher's record; None without one, InvalidResult if it is invalid."""
        path = f"{folder}/launch.json"
        try:
            return bounded_json.parse_model(LaunchRecord, self.get(path), self.uri(path))
        except FileNotFoundError:
            return None

    def replicas(self, folder: str) -> tuple[ReplicaCount, ...]:
        """The lines of the attempt's replicas.jsonl by time, empty without the file; InvalidResult names the first invalid line."""
        path = f"{folder}/{REPLICAS_FILE}"
        try:
            lines = self.get(path).splitlines()
        except FileNotFoundError:
            return ()
        counts = (bounded_json.parse_model(ReplicaCount, line, f"{self.uri(path)}:{i}") for i, line in enumerate(lines, start=1))
        return tuple(sorted(counts, key=lambda count: count.at))

    def _retried(self, action: Callable[[], T]) -> T:
        # By the clock, not by the number of tries: a client may itself try for a minute before it says that the store is away.
        wait, deadline = _FIRST_WAIT_S, time.monotonic() + self._patience_s
        while True:
            try:
                return action()
            except Exception as error:  # each client has its own exceptions for a lost connection, most of them no OSError
                left = deadline - time.monotonic()
                final = permanent_error(error, self.url) or (as_os_error(error) if left <= 0 else None)
                if final is error:
                    raise
                if final is not None:
                    raise final from error
                time.sleep(min(wait, left))
                wait = min(2 * wait, _LONGEST_WAIT_S)

    def attempts(self, campaign_id: str, trial_id: str) -> list[str]:
        """Folders of a trial's attempts, oldest first."""
        names = self._names(f"{campaign_id}/{trial_id}")
        numbers = sorted(int(m[1]) for m in map(_ATTEMPT.search, names) if m)
        return [f"{campaign_id}/{trial_id}/attempt-{n}" for n in numbers]

    def trial_ids(self, campaign_id: str) -> list[str]:
        """Trial ids in a campaign's folder, sorted; empty without such a folder."""
        return sorted(self._names(campaign_id))

    def _names(self, folder: str) -> set[str]:
        """Names in a folder; none if it is missing."""
        with suppress(FileNotFoundError):
            listing = self._retried(partial(self._seen_now().ls, f"{self._root}/{folder}", detail=False))
            return {str(name).rstrip("/").rpartition("/")[2] for name in listing}
        return set()

    def announced(self, campaign_id: str, trial_id: str) -> list[str]:
        """The attempts' folders that hold a specification or a result, oldest first.

        A launcher that dies, or finds the disk full, while it announces an attempt leaves an empty folder: nothing ran for it. Nor did
        anything for an attempt that was only recorded as missing.
        """
        files = ("trial.json", "launch.json", "result.json")
        return [folder for folder in self.attempts(campaign_id, trial_id) if any(self.exists(f"{folder}/{name}") for name in files)]
