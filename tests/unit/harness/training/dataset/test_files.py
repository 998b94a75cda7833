"""A team's own token file: used where it is or fetched once, and refused with the field and the remedy if it is not what was declared."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

from plumbline.declarations.workloads.training import TokenFileData
from plumbline.harness.measurement import TrialFailed
from plumbline.harness.training.dataset.preparation import declared_token_file

IDS = (np.arange(2000) % 64).astype("<u2")
RAW = IDS.tobytes()


def declared(url: str, **changed: Any) -> TokenFileData:
    told = {"source": "file", "url": url, "sha256": hashlib.sha256(RAW).hexdigest(), "width": 2, "tokens": 2000}
    return TokenFileData.model_validate({**told, **changed})


def refused(failure_class: str, cache: Path, data: TokenFileData, vocabulary: int = 64) -> str:
    with pytest.raises(TrialFailed) as caught:
        declared_token_file(cache, data, vocabulary=vocabulary)
    assert caught.value.failure_class == failure_class
    assert not list(cache.rglob("*.part"))
    return caught.value.detail


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "team.bin"
    file.write_bytes(RAW)
    return file


@pytest.fixture
def remote() -> Iterator[str]:
    """The URL of the file in fsspec's filesystem in memory."""
    url = "memory://team/tokens.bin"
    with fsspec.open(url, "wb") as file:
        file.write(RAW)
    yield url
    fsspec.filesystem("memory").rm("/team", recursive=True)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_path_is_read_where_it_is(path: Path, tmp_path: Path, scheme: str) -> None:
    found = declared_token_file(tmp_path / "cache", declared(f"{scheme}{path}"), vocabulary=64)
    assert (found.path, found.dtype, found.count, found.item) == (path, "<u2", 2000, ())
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("name", ["team's %20 #1?.bin", "team%20data.bin"])
def test_an_address_is_decoded_once(path: Path, tmp_path: Path, name: str) -> None:
    named = path.rename(tmp_path / name)
    for url in (str(named), named.as_uri()):
        assert declared_token_file(tmp_path / "cache", declared(url), vocabulary=64).path == named


def test_a_url_is_fetched_once(remote: str, tmp_path: Path) -> None:
    found = declared_token_file(tmp_path, declared(remote), vocabulary=64)
    assert found.path.read_bytes() == RAW and found.path.is_relative_to(tmp_path)
    with fsspec.open(remote, "wb") as file:
        file.write(b"other")
    assert declared_token_file(tmp_path, declared(remote), vocabulary=64) == found


@pytest.mark.fault("the cached data set is damaged", ends="fetched again", keeps="the trial")
def test_a_damaged_copy_is_fetched_again(remote: str, tmp_path: Path) -> None:
    found = declared_token_file(tmp_path, declared(remote), vocabulary=64)
    found.path.write_bytes(RAW[:-2])
    assert declared_token_file(tmp_path, declared(remote), vocabulary=64).path.read_bytes() == RAW


def test_another_file_is_refused(path: Path, tmp_path: Path) -> None:
    detail = refused("bad_declaration", tmp_path, declared(str(path), sha256="0" * 64))
    assert detail.startswith(f"data.sha256 is {'0' * 64}") and str(path) in detail and "version" in detail


def test_another_size_is_refused(path: Path, tmp_path: Path) -> None:
    detail = refused("bad_declaration", tmp_path, declared(str(path), tokens=2001))
    assert "4000 bytes" in detail and "4002" in detail and "data.tokens" in detail


@pytest.mark.parametrize(("tokens", "said"), [(2001, "has 4000 bytes;"), (1024, "bytes or more;")])
def test_another_size_is_refused_where_it_is_fetched_from(remote: str, tmp_path: Path, tokens: int, said: str) -> None:
    assert said in refused("bad_declaration", tmp_path, declared(remote, tokens=tokens))


def test_ids_that_the_model_does_not_know_are_refused(path: Path, tmp_path: Path) -> None:
    detail = refused("bad_declaration", tmp_path, declared(str(path)), vocabulary=63)
    said = detail.replace(str(path), "")  # whose folder may have the same digits
    assert said.count("63") == 3 and "token 63 " in said


def test_no_file_is_refused(tmp_path: Path) -> None:
    for url in (str(tmp_path / "none"), "memory://none/tokens.bin"):
        assert url in refused("bad_declaration", tmp_path, declared(url))


def test_a_protocol_that_nobody_speaks_is_the_harnesss_trouble(tmp_path: Path) -> None:
    detail = refused("harness_error", tmp_path, declared("nonsense://team/tokens.bin"))
    assert detail.startswith("data.url nonsense://team/tokens.bin ") and "protocol" in detail


def test_a_folder_cannot_be_read(tmp_path: Path) -> None:
    assert os.strerror(errno.EISDIR) in refused("harness_error", tmp_path, declared(str(tmp_path)))
