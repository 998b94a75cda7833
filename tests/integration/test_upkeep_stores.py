"""Retention in, and export to, real S3, Google Cloud Storage and Azure APIs: the bucket's objects go and come as on a disk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import fsspec
import pytest
from tests.fakes.installation import with_upkeep
from tests.fakes.object_stores import ObjectStore
from tests.fakes.trials import a_trial, put_evidence
from tests.integration.test_store_servers import another_client, bucket, server, set_environment  # noqa: F401

from plumbline.archive import Archive, open_archive
from plumbline.declarations import Trial
from plumbline.launch import stores
from plumbline.results import Environment, ResultDocument, Validity
from plumbline.workflows import retain
from plumbline.workflows.transfer import export_campaigns


@pytest.fixture
def url(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:  # noqa: F811
    """An installation whose result store is the bucket, and which exports to another folder of it by a connection of its own."""
    export = f'export: {{to: "{bucket}/exports", connection: plumbline_export}}'
    with_upkeep(tmp_path, monkeypatch, f"evidence: {{keep: 30d}}\n{export}\n")
    monkeypatch.setenv("PLUMBLINE_RESULTS_URL", f"{bucket}/results/")
    return bucket


@pytest.fixture
def archive(url: str) -> Iterator[Archive]:
    with open_archive() as opened:
        yield opened


def measured(archive: Archive, tmp_path: Path, campaign: str, days_ago: int) -> Trial:
    at = datetime.now(timezone.utc) - timedelta(days=days_ago)
    trial, store = a_trial(campaign_id=campaign).model_copy(update={"planned_at": at}), stores.home()
    (tmp_path / "steps.parquet").write_bytes(campaign.encode())
    document = ResultDocument.sealed(
        trial=trial,
        harness_version="0.1.0",
        environment=Environment.of({"cpu.model": "x"}),
        validity=Validity(status="valid"),
        evidence=(put_evidence(store, trial, "steps", tmp_path / "steps.parquet"),),
    )
    archive.record(document, uri=store.uri(store.put_collected(document)))
    return trial


def test_aged_evidence_goes_and_nothing_else_does(archive: Archive, url: str, tmp_path: Path) -> None:
    old, now = (measured(archive, tmp_path, name, days) for name, days in (("old", 60), ("now", 0)))
    there = another_client(url)
    before = set(there.find(f"{url}/results"))
    assert retain.expire_evidence(archive).files == 1
    there.invalidate_cache()
    after = set(there.find(f"{url}/results"))
    (gone,), (new,) = before - after, after - before
    assert gone.endswith(f"{stores.home().folder(old)}/evidence/steps.parquet") and new.endswith(
        f"{stores.home().folder(old)}/expired.json"
    )
    assert stores.home().exists(f"{stores.home().folder(now)}/evidence/steps.parquet")
    assert archive.verify(evidence=True) == []


def test_a_campaign_is_exported_with_the_credentials_of_its_connection(
    archive: Archive,
    server: ObjectStore,  # noqa: F811
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured(archive, tmp_path, "2026-11", 5)
    set_environment(monkeypatch, server.place | server.refused)
    fsspec.get_filesystem_class(server.scheme).clear_instance_cache()
    later = datetime.now(timezone.utc) + timedelta(days=2)
    with pytest.raises(ValueError, match="plumbline_export"):
        export_campaigns(later)
    monkeypatch.setenv("AIRFLOW_CONN_PLUMBLINE_EXPORT", json.dumps(server.connection))
    assert export_campaigns(later) == ["2026-11"]
    set_environment(monkeypatch, server.place | server.login)
    fsspec.get_filesystem_class(server.scheme).clear_instance_cache()
    another_client(url).get(f"{url}/exports/2026-11", str(tmp_path / "copy"), recursive=True)
    with open_archive(f"sqlite:///{tmp_path / 'other.db'}") as other:
        assert [(one.new, one.refused) for one in other.import_(tmp_path / "copy")] == [(1, None)]
