"""Data Docs: kept, replaced as a whole, readable without a network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.data.result_documents import document, trial
from tests.unit.quality.conftest import Case

from plumbline.quality import QualityReport, check
from plumbline.quality.data_docs import strip_remote


def test_the_pages_say_what_failed_and_need_no_network(checked: tuple[dict[str, Case], QualityReport, Path]) -> None:
    cases, report, docs = checked
    assert report.data_docs == docs / "cases" / "index.html"
    pages = {path.name: path.read_text(encoding="utf-8") for path in sorted((docs / "cases").iterdir())}
    assert set(pages) == {
        "index.html",
        "attempts.html",
        *(f"{kind}{part}.html" for kind in ("training", "inference") for part in ("", "-numbers")),
    }
    for name, page in pages.items():
        loaded = re.findall(r"<(?:script|link|img|iframe)\b[^>]*>|url\([^)]*\)|@import", page, re.IGNORECASE)
        assert loaded == [], name
    assert cases["steps missing"].documents[0].trial.trial_id in pages["index.html"]
    assert all(value in pages["index.html"] for value in ("steps_done is 21", "steps_declared is 22"))
    assert 'href="training.html"' in pages["index.html"]
    assert "steps_done" in pages["training.html"] and "Failed" in pages["training.html"]


def test_markup_in_a_document_is_neither_run_nor_loaded(tmp_path: Path) -> None:
    asked = trial()
    evil = document(asked).model_copy(update={"harness_version": "<script>alert(1)</script>"})
    report = check([evil], [asked.model_copy(update={"criteria_hash": "<img src=x onerror=alert(1)>"})], tmp_path, "evil")
    for path in report.data_docs.parent.iterdir():
        page = path.read_text(encoding="utf-8")
        assert "<img" not in page and "<script" not in page
        assert "Content-Security-Policy" in page and "default-src" in page.split("<body>")[0]


@pytest.mark.full
def test_a_second_check_replaces_the_pages_and_leaves_nothing_else(tmp_path: Path) -> None:
    documents = [document(trial("training")), document(trial("inference"))]
    check(documents, [d.trial for d in documents], tmp_path, "again")
    assert (tmp_path / "again" / "inference.html").exists()
    check(documents[:1], [documents[0].trial], tmp_path, "again")
    assert not (tmp_path / "again" / "inference.html").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["again"]


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a b"])
def test_a_name_that_is_no_folder_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f'"{name}"')):
        check([document()], [trial()], tmp_path / "docs", name)


def test_offline_keeps_text_and_own_links() -> None:
    page = (
        '<html><head><link rel="stylesheet" href="https://cdn.example/x.css"><style>a { background: url("//cdn.example/y.png") }</style>'
        '</head><body><img src="https://cdn.example/z.png?d=1"><p>kept</p><a href="other.html">link</a><a href="../../up.html" >word</a>'
        '<script src="https://cdn.example/x.js"></script><script>run()</script></body></html>'
    )
    kept = strip_remote(page)
    assert "cdn.example" not in kept and "run()" not in kept
    assert "up.html" not in kept and "word<" in kept, "a link to a page that is not there becomes text"
    assert "<p>kept</p>" in kept and '<a href="other.html">link</a>' in kept
