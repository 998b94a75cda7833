"""Prompts of a dataset of the hub, against a server that answers as the hub does."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.model_hub import REVISION, model_hub
from tests.unit.declarations.workloads.test_prompts import SHAREGPT, lines

from plumbline.declarations.workloads.prompts import HubPrompts
from plumbline.formats.reading.text_file import UnusableFile
from plumbline.harness.inference.load.own_prompts import PromptFetchFailed, selected_rows

DATA = lines(SHAREGPT, SHAREGPT, SHAREGPT)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.jsonl").write_bytes(DATA)
    with model_hub({"org/chats": tmp_path}) as running:
        yield running.url


def declared(**changes: Any) -> HubPrompts:
    said = {"source": "hub", "id": "org/chats", "revision": REVISION, "path": "data/train.jsonl", "format": "sharegpt", "sample": 2}
    return HubPrompts.model_validate(said | changes)


def test_a_file_of_a_dataset_is_fetched_at_its_commit(hub: str) -> None:
    rows = selected_rows(declared(sha256=hashlib.sha256(DATA).hexdigest()), hub)
    assert len(rows) == 2 and rows[0].turns == (1, 3)


def test_another_file_or_an_absent_one_is_refused(hub: str) -> None:
    with pytest.raises(UnusableFile, match="SHA-256"):
        selected_rows(declared(sha256="0" * 64), hub)
    with pytest.raises(UnusableFile, match=r"^sample 4 "):
        selected_rows(declared(sample=4), hub)
    for changed, words in (
        ({"path": "none.jsonl"}, r"^none\.jsonl cannot be fetched: hub org/chats@\w+ at \S+ has no such revision or file"),
        ({"revision": "f" * 40}, "has no such revision or file"),
        ({"id": "org/none"}, "expected owner/name of a dataset"),
    ):
        with pytest.raises(PromptFetchFailed, match=words):
            selected_rows(declared(**changed), hub)
