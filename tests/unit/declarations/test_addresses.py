"""Addresses of files: encoded once, decoded once, and what earlier versions made of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import URL, make_url
from tests.fakes.installation import own_home

from plumbline.declarations import installation_paths
from plumbline.declarations.addresses import (
    canonical,
    database_url,
    earlier_database,
    earlier_store,
    local_path,
    open_filesystem,
    path_below,
    store_url,
)

STRANGE = "ada's füß %20 #1?"


@pytest.mark.parametrize("name", ["plain", "my home", STRANGE, "50%", "a%2Fb", "x::y", "a+b&c=d;e@f"])
def test_both_addresses_of_a_home_lead_into_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    own_home(tmp_path / name, monkeypatch)
    here = installation_paths()
    assert local_path(here.results_url) == here.home / "results" == tmp_path / name / "results"
    assert make_url(here.archive_url) == URL.create("sqlite", database=str(tmp_path / name / "archive.db"))
    assert here.archive_url == here.own_archive_url


def test_a_path_that_needs_no_code_stays_readable() -> None:
    assert database_url(Path("/srv/my home/archive.db")) == "sqlite:////srv/my home/archive.db"
    assert store_url(Path("/srv/my home")) == "file:///srv/my%20home"


def test_two_spellings_are_one_store() -> None:
    plain, encoded = "file:///srv/ada's füß #1?/", "file:///srv/ada%27s%20f%C3%BC%C3%9F%20%231%3F"
    assert canonical(plain) == canonical(encoded) == encoded
    assert path_below(f"{plain}2026-11/x", encoded) == path_below(f"{encoded}/2026-11/x", plain) == "2026-11/x"
    assert path_below(encoded, plain) == ""
    assert path_below(f"{encoded}-of-another/x", encoded) is None
    assert path_below("s3://bucket/results/a%20b", "s3://bucket/results/") == "a%20b", "keys of a bucket are not encoded"
    assert path_below("s3://bucket/a b", "s3://bucket/a%20b") is None


def test_what_earlier_versions_wrote_beside_the_home(tmp_path: Path) -> None:
    url = store_url(tmp_path / "my home" / "results")
    assert earlier_store(url) is None
    old = tmp_path / "my%20home" / "results"
    (old / "a" / "b").mkdir(parents=True)
    assert (earlier_store(url), earlier_store(f"{url}/a/b")) == (old, old / "a" / "b")
    assert earlier_store(store_url(old)) is None, "a home that is called so has its own results"
    (tmp_path / "my%20home" / "archive.db").touch()
    assert earlier_store(url) is earlier_store(f"{url}/a/b") is None, "another installation's home"


def test_the_database_that_earlier_versions_used(tmp_path: Path) -> None:
    assert earlier_database(tmp_path / "my home" / "archive.db") is None
    assert earlier_database(tmp_path / STRANGE / "archive.db") is None
    (tmp_path / "ada's füß   #1").touch()
    assert earlier_database(tmp_path / STRANGE / "archive.db") == tmp_path / "ada's füß   #1"


def test_a_file_that_is_read_is_found_by_either_spelling(tmp_path: Path) -> None:
    (tmp_path / "a%20b").write_text("as it is written")
    for address, text in ((f"file://{tmp_path}/a%20b", "as it is written"), (f"file://{tmp_path}/a%2520b", "as it is written")):
        files, path = open_filesystem(address)
        assert files.cat_file(path).decode() == text
    (tmp_path / "a b").write_text("as it is meant")
    files, path = open_filesystem(f"file://{tmp_path}/a%20b")
    assert files.cat_file(path).decode() == "as it is meant"
