"""A finding that no campaign showed, on the pages."""

from __future__ import annotations

from pathlib import Path

from fastapi.testclient import TestClient
from tests.unit.results.test_finding import NOTICED

from plumbline.archive import open_archive
from plumbline.dashboard.app import create_app
from plumbline.findings.headline import headline
from plumbline.workflows.findings import finding_record


def test_it_stands_with_its_day_and_no_campaign_to_go_to(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    with open_archive(url) as archive:
        archive.save_findings([finding_record(NOTICED)])
    with TestClient(create_app(archive_url=url, reports=tmp_path)) as client:
        for page in ("/", "/findings"):
            text = client.get(page).text
            assert headline(NOTICED) in text and f"since {NOTICED.since} · " in text
            assert "/campaigns/None" not in text
