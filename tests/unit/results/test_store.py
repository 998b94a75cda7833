"""The store: whole objects or none, attempts in order, damage named, lost connections tried again."""

from __future__ import annotations

import json
import threading
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from tests.fakes.trials import a_trial, cluster_provider, put_evidence

from plumbline.embedded.doctor import machine
from plumbline.results import Environment, InvalidResult, LaunchRecord, ResultDocument, ResultStore, Validity, evidence_files
from plumbline.results.evidence_files import damaged_files

TRIAL = a_trial()
FOLDER = f"2026-11/{TRIAL.trial_id}/attempt-1"


def document() -> ResultDocument:
    return ResultDocument.sealed(
        trial=TRIAL, harness_version="0.1.0", environment=Environment.of({"cpu.model": "x"}), validity=Validity(status="valid")
    )


@pytest.fixture(params=["file", "path", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ResultStore:
    """On a file URL, on a plain path, and on a file system that is no disk."""
    return ResultStore({"file": tmp_path.as_uri(), "path": str(tmp_path), "memory": f"memory://{tmp_path}"}[request.param])


def test_what_is_put_is_what_one_gets(store: ResultStore) -> None:
    assert not store.exists(f"{FOLDER}/trial.json")
    store.put_trial(TRIAL)
    assert store.exists(f"{FOLDER}/trial.json")
    assert store.folder(TRIAL) == FOLDER
    assert store.trial(FOLDER) == TRIAL
    store.put_document(document())
    assert store.document(FOLDER) == document()
    assert store.launch(FOLDER) is None
    record = LaunchRecord(launcher="local", events=(), exit_code=0)
    store.put_launch(TRIAL, record)
    assert store.launch(FOLDER) == record
    assert store.put_collected(document().with_launch(record)) == FOLDER
    assert store.collected(FOLDER).launch == record
    assert store.document(FOLDER).launch is None


def test_what_is_not_there(store: ResultStore) -> None:
    assert store.attempts("2026-11", "nobody") == []
    for read in (store.document, store.collected, store.trial, store.get):
        with pytest.raises(FileNotFoundError):
            read("nowhere")


def test_a_store_says_when_it_wrote_an_object_as_far_as_it_keeps_that(store: ResultStore) -> None:
    before = datetime.now(timezone.utc)
    store.put_trial(TRIAL)
    written = store.modified(f"{FOLDER}/trial.json")
    if store.url.startswith("memory:"):
        assert written is None
    else:
        assert written is not None and abs((written - before).total_seconds()) < 60
    with pytest.raises(FileNotFoundError):
        store.modified("nowhere")


def test_attempts_are_ordered_by_number(store: ResultStore) -> None:
    for attempt in (10, 9, 1, 2):
        store.put_trial(TRIAL.model_copy(update={"attempt": attempt}))
    store.put(f"2026-11/{TRIAL.trial_id}/notes.txt", b"not an attempt")
    assert [folder.rpartition("/")[2] for folder in store.attempts("2026-11", TRIAL.trial_id)] == [f"attempt-{n}" for n in (1, 2, 9, 10)]


@pytest.mark.fault("a stored evidence file was changed", ends="refused (checksum)", keeps="the file as it is")
def test_evidence_that_is_damaged(store: ResultStore, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("steps.parquet", "requests.parquet", "run.log")]
    for file in files:
        file.write_bytes(file.name.encode())
    evidence = tuple(put_evidence(store, TRIAL, "log", file, rows=3) for file in files)
    assert [(e.uri, e.bytes, e.rows) for e in evidence] == [(f"evidence/{f.name}", len(f.name), 3) for f in files]
    whole = ResultDocument.sealed(
        trial=TRIAL, harness_version="0", environment=Environment.of({}), validity=Validity(status="valid"), evidence=evidence
    )
    assert damaged_files(store, whole) == []
    store.put(f"{FOLDER}/evidence/run.log", b"changed")
    fs, root = fsspec.core.url_to_fs(store.url)
    fs.rm(f"{root}/{FOLDER}/evidence/steps.parquet")
    broken = damaged_files(store, whole)
    assert len(broken) == 2
    assert broken[0].endswith("steps.parquet is missing")
    assert "run.log has SHA-256" in broken[1]


def test_evidence_that_expired_is_not_missing(store: ResultStore, tmp_path: Path) -> None:
    names, rule = ("steps.parquet", "requests.parquet", "run.log"), "kept for 180 d"
    for name in names:
        (tmp_path / name).write_bytes(name.encode())
    evidence = tuple(put_evidence(store, TRIAL, "log", tmp_path / name) for name in names)
    whole = ResultDocument.sealed(
        trial=TRIAL, harness_version="0", environment=Environment.of({}), validity=Validity(status="valid"), evidence=evidence
    )
    for name in names:
        store.remove(f"{FOLDER}/evidence/{name}")
    assert len(damaged_files(store, whole)) == 3
    for name in names[:2]:
        evidence_files.record_expired(store, FOLDER, [f"evidence/{name}"], datetime(2026, 11, 1, tzinfo=timezone.utc), rule)
    (left,) = damaged_files(store, whole)
    assert left.endswith("run.log is missing")
    found = evidence_files.read_expired(store, FOLDER)
    assert found is not None and (len(found.files), found.rule) == (2, rule)
    store.put(f"{FOLDER}/{evidence_files.EXPIRED_FILE}", b"{}")
    assert len(damaged_files(store, whole)) == 3, "what says nothing hides nothing"


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b"{", "not a JSON object"),
        (b"\xff\xfe", "not a JSON object"),
        (b"{}", "trial"),
        (b'{"schema_version": 2}', "newer than 1; upgrade plumbline"),
        (b'{"schema_version": "x"}', "schema_version"),
    ],
)
def test_a_document_that_cannot_be_used(store: ResultStore, raw: bytes, said: str) -> None:
    store.put(f"{FOLDER}/result.json", raw)
    with pytest.raises(InvalidResult, match=said) as raised:
        store.document(FOLDER)
    assert f"{FOLDER}/result.json" in str(raised.value)


@pytest.mark.fault("a stored document was changed", ends="refused (checksum)", keeps="the file as it is")
def test_a_document_that_was_changed(store: ResultStore) -> None:
    data = json.loads(document().model_dump_json())
    store.put(f"{FOLDER}/result.json", json.dumps({**data, "harness_version": "0.2.0"}).encode())
    with pytest.raises(InvalidResult, match=r"result.json: checksum"):
        store.document(FOLDER)


def test_other_files_that_cannot_be_used(store: ResultStore) -> None:
    store.put(f"{FOLDER}/trial.json", TRIAL.model_dump_json().replace('"repeat":1', '"repeat":0').encode())
    with pytest.raises(InvalidResult, match=r"trial\.json: repeat"):
        store.trial(FOLDER)
    store.put(f"{FOLDER}/launch.json", b'{"launcher": "Tele port", "events": []}')
    with pytest.raises(InvalidResult, match=r"launch\.json: launcher"):
        store.launch(FOLDER)


def test_a_reader_sees_the_whole_object_or_none(tmp_path: Path) -> None:
    """Two writers replace one object over and over while it is read: every read is one of the two, whole."""
    store = ResultStore(tmp_path.as_uri())
    contents = [letter * 200_000 for letter in (b"a", b"b")]
    store.put("x/object", contents[0])
    failures: list[BaseException] = []

    def write(content: bytes) -> None:
        try:
            for _ in range(40):
                store.put("x/object", content)
        except BaseException as error:  # noqa: BLE001 - shown by the main thread
            failures.append(error)

    writers = [threading.Thread(target=write, args=(content,)) for content in contents]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert store.get("x/object") in contents
    assert failures == []
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["object"]


@pytest.mark.fault("a write to the store fails", ends="an error", keeps="no half file")
def test_a_failed_write_leaves_nothing_half_done(tmp_path: Path) -> None:
    store = ResultStore(tmp_path.as_uri())
    (tmp_path / "x" / "object").mkdir(parents=True)
    (tmp_path / "x" / "object" / "inside").touch()
    with pytest.raises(IsADirectoryError):
        store.put("x/object", b"content")
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["object"]


class Unsteady(MemoryFileSystem):  # type: ignore[misc] - fsspec has no types
    """A file system whose connection drops for a while, with an exception that is no OSError, as object stores' clients do."""

    protocol = "unsteady"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    drops = 0

    class Dropped(Exception):
        pass

    def cat_file(self, path: str, **options: Any) -> bytes:
        if Unsteady.drops:
            Unsteady.drops -= 1
            raise Unsteady.Dropped("connection reset")
        return bytes(super().cat_file(path, **options))


def test_a_connection_that_drops_is_tried_again() -> None:
    fsspec.register_implementation("unsteady", Unsteady, clobber=True)
    store = ResultStore("unsteady://results")
    store.put("x", b"content")
    Unsteady.drops = 2
    assert store.get("x") == b"content"
    assert Unsteady.drops == 0


class Told(Exception):
    """As azure-core and gcsfs tell a status."""

    def __init__(self, **fields: Any) -> None:
        super().__init__("the server said no")
        self.__dict__.update(fields)


class NoCredentialsError(Exception):
    """Of the name of botocore's."""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Told(status_code=403), PermissionError),
        (Told(code="401"), PermissionError),
        (OSError("Forbidden: https://storage.googleapis.com/b\nno storage.objects.create"), PermissionError),
        (NoCredentialsError("Unable to locate credentials"), PermissionError),
        (Told(status_code=404), FileNotFoundError),
    ],
)
def test_what_a_store_refuses_is_not_tried_again(error: Exception, expected: type[OSError]) -> None:
    tries = []

    class Refusing(MemoryFileSystem):  # type: ignore[misc] - fsspec has no types
        protocol = "refusing"
        cachable = False

        def pipe_file(self, *_: Any, **__: Any) -> None:
            tries.append(error)
            raise error

    fsspec.register_implementation("refusing", Refusing, clobber=True)
    with pytest.raises(expected):
        ResultStore("refusing://results").put("x", b"content")
    assert len(tries) == 1


@pytest.mark.parametrize(("took", "expected"), [(60.0, [0.0]), (0.0, [0.0, 0.5, 1.5, 3.5, 7.5, 15.0])])
def test_patience_is_time_and_not_a_number_of_tries(monkeypatch: pytest.MonkeyPatch, took: float, expected: list[float]) -> None:
    """A client that itself tries for a minute must not be asked six times by a store with 15 s of patience."""
    clock, tries = [0.0], []
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("time.sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))

    class Slow(MemoryFileSystem):  # type: ignore[misc] - fsspec has no types
        protocol = "slow"
        cachable = False

        def pipe_file(self, *_: Any, **__: Any) -> None:
            tries.append(clock[0])
            clock[0] += took
            raise Told(status_code=503)

    fsspec.register_implementation("slow", Slow, clobber=True)
    with pytest.raises(OSError, match=r"^Told: "):
        ResultStore("slow://results", patience_s=15.0).put("x", b"content")
    assert tries == expected


@pytest.mark.parametrize("scheme", ["gs", "gcs"])
def test_googles_client_asks_nothing_about_the_bucket(scheme: str) -> None:
    """gcsfs' default class does, by gRPC, before each operation, and for a minute where nobody answers."""
    assert fsspec.get_filesystem_class(scheme).__module__ == "gcsfs.core"


def test_what_a_busy_store_says_is_tried_again() -> None:
    fsspec.register_implementation("unsteady", Unsteady, clobber=True)
    store = ResultStore("unsteady://results", patience_s=0.5)
    store.put("x", b"content")
    Unsteady.drops = 1
    for error in (Told(status_code=503), Told(code=429)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Unsteady, "Dropped", lambda _, error=error: error)
            Unsteady.drops = 1
            assert store.get("x") == b"content"


def test_an_older_harness_is_not_told_what_it_need_not_know(tmp_path: Path) -> None:
    """Its image is pinned by digest; a launcher's setting that was added since is none of its business."""
    trial = a_trial(provider=cluster_provider())
    store = ResultStore(tmp_path.as_uri())
    store.put_trial(trial, brief=True)
    launcher = json.loads(store.get(f"{store.folder(trial)}/trial.json"))["provider"]["launcher"]
    assert "images" in launcher
    assert "retries" not in launcher
    assert store.trial(store.folder(trial)) == trial


def test_an_address_with_a_secret_is_no_store() -> None:
    for url in ("s3://key:secret-word@bucket/results", "https://host/results?sig=secret-word"):
        with pytest.raises(ValueError, match="expected the address alone") as refused:
            ResultStore(url)
        assert "secret-word" not in str(refused.value)
        check = machine.result_store(url)
        assert (check.status, "secret-word" in check.found) == ("failed", False)
