"""A store that works leaves no trace of the check; one that does not says which step failed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plumbline.harness.__main__ import main
from plumbline.results import ResultStore
from plumbline.results.store_check import StoreFault, check_access


def test_a_store_that_works_is_as_empty_as_before(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    assert check_access(ResultStore((tmp_path / "store").as_uri())) >= 0
    assert list((tmp_path / "store").iterdir()) == []


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file where the folder should be")
    with pytest.raises(StoreFault, match=r"store/.plumbline-check-\w+ ") as fault:
        check_access(ResultStore((tmp_path / "store").as_uri(), patience_s=0.1))
    assert fault.value.step == "write"


class _Forgets(ResultStore):
    def get(self, path: str) -> bytes:
        super().get(path)
        return b"something else"


class _Keeps(ResultStore):
    def remove(self, path: str) -> None:
        """A bucket with a retention rule accepts the deletion and keeps the object."""


def test_a_store_that_gives_back_something_else(tmp_path: Path) -> None:
    with pytest.raises(StoreFault) as fault:
        check_access(_Forgets(tmp_path.as_uri()))
    assert fault.value.step == "compare"
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_keeps_what_was_deleted(tmp_path: Path) -> None:
    with pytest.raises(StoreFault) as fault:
        check_access(_Keeps(tmp_path.as_uri()))
    assert fault.value.step == "delete"


def test_the_harness_says_it_as_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--out", (tmp_path / "new").as_uri()]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fault"] is None and found["seconds"] >= 0 and found["time"] > 0
    assert main(["check", "--out", "nosuch://place"]) == 1
    assert "nosuch" in json.loads(capsys.readouterr().out)["fault"]


def test_removing_what_is_gone_is_no_error(tmp_path: Path) -> None:
    store = ResultStore(tmp_path.as_uri())
    store.put("a/b", b"x")
    store.remove("a/b")
    store.remove("a/b")
    assert not store.exists("a/b")
