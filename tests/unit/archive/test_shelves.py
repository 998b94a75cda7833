"""Reports, Data Docs and acceptance sheets: in folders of the home, or in the bucket with their hashes in the archive."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import datetime, timedelta, timezone
from pathlib import Path

import fsspec
import pytest

from plumbline.archive import Archive, open_archive
from plumbline.archive.shelves import Deleted, FolderShelf, Shelf, StoreShelf, shelf
from plumbline.results import InvalidResult, ResultStore


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as opened:
        yield opened


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Iterator[ResultStore]:
    url = f"memory://{request.node.name.partition('[')[0]}"
    yield ResultStore(url, patience_s=0.0)
    fsspec.filesystem("memory").store.clear()


@pytest.fixture(params=["folder", "bucket"])
def reports(request: pytest.FixtureRequest, tmp_path: Path, store: ResultStore, archive: Archive) -> Shelf:
    if request.param == "folder":
        return FolderShelf(tmp_path / "reports")
    return StoreShelf("reports", store, lambda: nullcontext(archive))


def put(reports: Shelf, name: str, **files: str) -> None:
    with reports.writing(name) as folder:
        for file, text in files.items():
            path = folder / file.replace("__", "/").replace("_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def read(reports: Shelf, name: str, file: str) -> str | None:
    opened = reports.open(name, file)
    if opened is None:
        return None
    with opened:
        return opened.read().decode()


def test_what_is_written_is_read_by_name(reports: Shelf) -> None:
    put(reports, "2026-10", report_html="october", tables__trials_csv="a,b")
    put(reports, "2026-11", report_html="november")
    assert (read(reports, "2026-10", "report.html"), read(reports, "2026-10", "tables/trials.csv")) == ("october", "a,b")
    assert reports.files("2026-10") == ("report.html", "tables/trials.csv") and reports.files("2026-09") == ()
    assert reports.names("report.html") == {"2026-10", "2026-11"} and reports.names("tables/trials.csv") == {"2026-10"}
    assert reports.address("2026-11", "report.html").endswith("report.html")


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("..", "archive.db"),
        ("2026-10", "../../archive.db"),
        ("2026-10/..", "x"),
        ("", "report.html"),
        ("2026-10", ""),
        ("2026-10", "tables//x"),
    ],
)
def test_nothing_outside_the_shelf_is_reached(reports: Shelf, name: str, file: str) -> None:
    put(reports, "2026-10", report_html="october")
    assert reports.open(name, file) is None
    assert reports.open("2026-10", "tables") is None


def test_a_name_that_is_a_path_is_not_written(reports: Shelf) -> None:
    with pytest.raises(ValueError, match="cannot name a folder"), reports.writing("../x"):
        pass


def test_old_folders_are_deleted_and_the_newest_is_kept(reports: Shelf) -> None:
    for name in ("2026-09", "2026-10", "2026-11"):
        put(reports, name, report_html=name)
    assert reports.delete_older(time.time() - 3600) == Deleted(0, 0)
    assert reports.delete_older(time.time() + 3600) == Deleted(2, 14)
    assert reports.names("report.html") == {"2026-11"} and reports.size()[1:] == (1, 7)


def objects(store: ResultStore) -> list[str]:
    return sorted(path for path, _ in store.objects())


@pytest.fixture
def bucket(store: ResultStore, archive: Archive) -> StoreShelf:
    return StoreShelf("reports", store, lambda: nullcontext(archive))


def test_a_writing_takes_the_place_of_the_one_before_but_leaves_tables_that_it_does_not_write(
    bucket: StoreShelf, store: ResultStore
) -> None:
    put(bucket, "2026-10", report_html="first", report_eml="draft", tables__trials_csv="a", tables__metrics_csv="b")
    put(bucket, "2026-10", report_html="second")
    assert bucket.files("2026-10") == ("report.html", "tables/metrics.csv", "tables/trials.csv")
    put(bucket, "2026-10", report_html="third", tables__trials_parquet="c")
    assert bucket.files("2026-10") == ("report.html", "tables/trials.parquet") and read(bucket, "2026-10", "report.html") == "third"
    assert len(objects(store)) == 2, "what is not in force any more is gone from the store"


def test_of_writings_that_end_together_one_is_in_force_as_a_whole(archive_url: str, store: ResultStore) -> None:
    open_archive(archive_url).close()
    bucket, both = StoreShelf("reports", store, lambda: open_archive(archive_url)), threading.Barrier(2)

    def write(text: str) -> None:
        with bucket.writing("2026-10") as folder:
            folder.mkdir()
            for file in ("report.html", "report.md"):
                (folder / file).write_text(text)
            both.wait(timeout=60)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, ("one", "two")))
    assert read(bucket, "2026-10", "report.html") == read(bucket, "2026-10", "report.md") in ("one", "two")
    assert len(objects(store)) == 2


def test_a_writing_that_fails_changes_nothing(bucket: StoreShelf, store: ResultStore) -> None:
    put(bucket, "2026-10", report_html="first")
    with pytest.raises(KeyError), bucket.writing("2026-10") as folder:
        folder.mkdir()
        (folder / "report.html").write_text("half")
        raise KeyError
    assert read(bucket, "2026-10", "report.html") == "first" and len(objects(store)) == 1


@pytest.mark.fault(
    "killed while a report is written to the bucket",
    ends="readers see the report before it; `tidy` deletes the rest after a day",
    keeps="the report",
)
def test_a_writing_that_was_cut_short_is_never_read_and_deleted_after_a_day(bucket: StoreShelf, store: ResultStore) -> None:
    put(bucket, "2026-10", report_html="first")
    today, old = (f"{datetime.now(timezone.utc) - timedelta(days=days):%Y%m%dT%H%M%SZ}-00000000" for days in (0, 2))
    for stamp in (today, old):
        store.put(f"_reports/2026-10/{stamp}/report.html", b"half")
    store.put("2026-10/a-trial/attempt-1/result.json", b"{}")
    assert bucket.files("2026-10") == ("report.html",) and read(bucket, "2026-10", "report.html") == "first"
    bucket.delete_older(0.0)
    left = objects(store)
    assert len(left) == 3 and f"_reports/2026-10/{old}/report.html" not in left, "one that may still be running stays"


@pytest.mark.parametrize("theirs", [b"other", b"", b"first and more"])
def test_a_file_that_others_changed_or_removed_is_refused(bucket: StoreShelf, store: ResultStore, theirs: bytes) -> None:
    put(bucket, "2026-10", report_html="first")
    (path,) = objects(store)
    store.put(path, theirs)
    with pytest.raises(InvalidResult, match=r"does not have the SHA-256 .* `plumbline report 2026-10` writes it again"):
        bucket.open("2026-10", "report.html")
    store.remove(path)
    with pytest.raises(InvalidResult, match="is missing"):
        bucket.open("2026-10", "report.html")


def test_a_reader_follows_a_writing_that_replaces_what_it_was_about_to_read(
    bucket: StoreShelf, store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(bucket, "2026-10", report_html="first")
    digest, replaced = ResultStore.digest, []

    def replaced_before_it_is_read(*args: object) -> tuple[str, int]:
        if not replaced:
            replaced.append(True)
            put(bucket, "2026-10", report_html="second")
        return digest(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(ResultStore, "digest", replaced_before_it_is_read)
    assert read(bucket, "2026-10", "report.html") == "second"


def test_the_store_holds_them_as_soon_as_it_is_a_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    for url, expected in (("", FolderShelf), (tmp_path.as_uri(), FolderShelf), ("s3://bucket/results", StoreShelf)):
        monkeypatch.setenv("PLUMBLINE_RESULTS_URL", url)
        assert type(shelf("reports")) is expected
    assert list(tmp_path.iterdir()) == []


def test_a_sheet_lies_where_it_lay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    monkeypatch.delenv("PLUMBLINE_RESULTS_URL", raising=False)
    sheets = shelf("acceptance")
    with sheets.writing("accept-1") as folder:
        folder.mkdir()
        (folder / "accept-1.zip").write_bytes(b"pack")
    assert (tmp_path / "acceptance" / "accept-1.zip").read_bytes() == b"pack"
    assert sheets.files("accept-1") == ("accept-1.zip",) and sheets.files("accept") == ()
    assert read(sheets, "accept-1", "accept-1.zip") == "pack"
