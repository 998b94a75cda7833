"""Addresses of files: encoded once, decoded once."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import URL, make_url
from tests.fakes.installation import own_home

from plumbline.declarations import installation_paths
from plumbline.declarations.addresses import (
    canonical,
    database_url,
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


def test_an_address_is_decoded_once(tmp_path: Path) -> None:
    (tmp_path / "a%20b").write_text("as it is written")
    (tmp_path / "a b").write_text("as it is meant")
    for address, text in ((f"file://{tmp_path}/a%20b", "as it is meant"), (f"file://{tmp_path}/a%2520b", "as it is written")):
        files, path = open_filesystem(address)
        assert files.cat_file(path).decode() == text
