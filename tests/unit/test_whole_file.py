from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from plumbline.whole_file import sha256_file, whole_file, write_whole


@pytest.mark.parametrize("durable", [False, True])
def test_readers_see_the_old_file_until_the_new_one_is_whole(tmp_path: Path, durable: bool) -> None:
    target = tmp_path / "below" / "census.json"
    write_whole(target, "old", durable=durable)
    with whole_file(target, durable=durable) as draft:
        draft.write_text("half")
        assert target.read_text() == "old"
        draft.write_text("new")
    assert target.read_text() == "new" and [file.name for file in target.parent.iterdir()] == ["census.json"]


def test_a_write_that_fails_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    target = tmp_path / "census.json"
    write_whole(target, b"old")
    with pytest.raises(OSError, match="full"), whole_file(target) as draft:
        draft.write_text("half")
        raise OSError("the disk is full")
    assert target.read_text() == "old" and [file.name for file in tmp_path.iterdir()] == ["census.json"]


def test_the_hash_is_of_the_whole_file(tmp_path: Path) -> None:
    content = b"x" * (3 * 2**20 + 1)
    write_whole(tmp_path / "weights", content)
    assert sha256_file(tmp_path / "weights") == hashlib.sha256(content).hexdigest()
