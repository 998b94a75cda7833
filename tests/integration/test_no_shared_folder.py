"""Two workers that share no folder, an S3 server and a PostgreSQL: a campaign from its plan to its report, which the pages of a third home show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import make_url
from tests.fakes import object_stores
from tests.fakes.lone_worker import LoneWorker, files_below
from tests.fakes.postgres_server import PostgresServer
from tests.fakes.simulated_campaigns import config

from plumbline.archive import open_archive
from plumbline.dashboard.app import create_app

CAMPAIGN, PROVIDER, LANE = "2026-11", "sim", "training"


def as_connection(url: str) -> str:
    """The archive as a team gives it to Airflow: a connection, and no variable of Plumbline's."""
    address = make_url(url)
    fields = {"conn_type": "postgres", "login": address.username, "schema": address.database, "extra": dict(address.query)}
    return json.dumps(fields)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer) -> Iterator[dict[str, str]]:
    """What a platform team gives every process: a bucket, a database, the declarations."""
    with object_stores.s3() as server:
        # A client keeps the address of the server for which it was made, also in the cache.
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        yield {
            **server.login,
            "PLUMBLINE_RESULTS_URL": f"s3://{object_stores.BUCKET}/plumbline",
            "AIRFLOW_CONN_PLUMBLINE_ARCHIVE": as_connection(postgres_server.new_database()),
            "PLUMBLINE_CONFIG": str(config(tmp_path_factory.mktemp("declared"))),
        }
    fsspec.get_filesystem_class("s3").clear_instance_cache()


@pytest.fixture(scope="module")
def workers(settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LoneWorker, LoneWorker, list[Path]]]:
    homes = [tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")]
    one, two = (LoneWorker(home, settings) for home in homes)
    yield one, two, homes
    one.end()
    two.end()


@pytest.fixture(scope="module")
def measured(workers: tuple[LoneWorker, LoneWorker, list[Path]]) -> str:
    """The URL of the report of a campaign whose steps alternate between the workers."""
    one, two, _ = workers
    specs = one.do("plan", provider=PROVIDER, lane=LANE, campaign=CAMPAIGN, workloads=["gpt-tiny-cpu"], repeats=1)
    assert len(specs) == 2
    for number, spec in enumerate(specs):
        (two, one)[number % 2].do("run", spec=spec)
    one.do("collect", specs=specs)
    checked = two.do("validate", provider=PROVIDER, lane=LANE, specs=specs)
    assert len(one.do("record", checked=checked)) == 2
    two.do("review", campaign=CAMPAIGN)
    return str(one.do("report", campaign=CAMPAIGN))


@pytest.fixture
def pages(measured: str, settings: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """The pages of a third machine, whose home is empty."""
    for name, value in {**settings, "PLUMBLINE_HOME": str(tmp_path / "third")}.items():
        monkeypatch.setenv(name, value)
    with TestClient(create_app()) as client:
        yield client
    assert not (tmp_path / "third").exists()


def test_a_report_of_one_worker_is_on_the_pages_of_another_machine(pages: TestClient, measured: str) -> None:
    assert measured.startswith(f"s3://{object_stores.BUCKET}/plumbline/_reports/{CAMPAIGN}/")
    assert "gpt-tiny-cpu" in pages.get(f"/reports/{CAMPAIGN}").text
    campaign = pages.get(f"/campaigns/{CAMPAIGN}").text
    assert f'href="/reports/{CAMPAIGN}"' in campaign and f'href="/campaigns/{CAMPAIGN}/tables/trials.csv"' in campaign
    assert pages.get(f"/campaigns/{CAMPAIGN}/tables/trials.csv").text.count("\r\n") == 3
    docs = f"/campaigns/{CAMPAIGN}/data-docs/{PROVIDER}-{LANE}/index.html"
    assert f'href="{docs}"' in campaign and "attempts.html" in pages.get(docs).text
    assert pages.get(docs.replace("index", "attempts")).status_code == 200


def test_nothing_is_left_in_the_homes_of_the_workers(measured: str, workers: tuple[LoneWorker, LoneWorker, list[Path]]) -> None:
    for home in workers[2]:
        # matplotlib writes its list of fonts into the user's own cache, and makes it again.
        assert [file for file in files_below(home) if not file.startswith(".cache/matplotlib/")] == []


def test_results_and_what_is_written_of_them_are_in_the_bucket(pages: TestClient, settings: dict[str, str]) -> None:
    store, root = fsspec.core.url_to_fs(settings["PLUMBLINE_RESULTS_URL"])
    store.invalidate_cache()
    names = {path.removeprefix(f"{root}/").split("/")[0] for path in store.find(root)}
    assert names == {CAMPAIGN, "_reports", "_data-docs"}


@pytest.mark.fault(
    "someone else writes another report into the bucket",
    ends="the page refuses it: its SHA-256 is not the archive's",
    keeps="the archive's rows",
)
def test_a_report_that_the_archive_does_not_know_is_not_shown(pages: TestClient, measured: str) -> None:
    store, path = fsspec.core.url_to_fs(measured)
    store.invalidate_cache()
    ours = store.cat_file(path)
    for theirs in (b"<!doctype html><p>all is well", bytes(len(ours))):
        store.pipe_file(path, theirs)
        answer = pages.get(f"/reports/{CAMPAIGN}")
        assert answer.status_code == 500 and "does not have the SHA-256" in answer.text and "all is well" not in answer.text
        with open_archive() as archive:
            (problem,) = archive.verify(evidence=True)
        assert problem.startswith(f"reports {CAMPAIGN}: {measured} has ")
    store.pipe_file(path, ours)
    assert pages.get(f"/reports/{CAMPAIGN}").status_code == 200
    with open_archive() as archive:
        assert archive.verify(evidence=True) == []


@pytest.mark.fault("a worker that holds a lock of the installation is killed", ends="another one takes it", keeps="one holder at a time")
def test_a_lock_is_of_all_workers_and_goes_with_its_holder(settings: dict[str, str], tmp_path: Path, pages: TestClient) -> None:
    holder = LoneWorker(tmp_path / "holder", settings)
    assert holder.do("hold", name="alerts")
    with open_archive() as archive:
        with archive.alone("alerts", 0.0) as had:
            assert not had
        holder.kill()
        with archive.alone("alerts", 30.0) as had:
            assert had
    assert files_below(tmp_path / "holder") == set()
