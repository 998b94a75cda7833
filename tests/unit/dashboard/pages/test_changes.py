"""Environment changes on their page: from the archive's facts, with the findings that name them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from fastapi.testclient import TestClient
from tests.data.result_documents import FACTS, PLANNED, document, provider, trial

from plumbline.analysis.drift.environment import FACT_NAMES, FactReading, fact_changes
from plumbline.archive import FindingView, open_archive
from plumbline.dashboard.app import create_app
from plumbline.dashboard.pages.changes import change_rows


def finding(provider: str, campaign: str, *facts: str) -> FindingView:
    at = PLANNED
    series = f"training/gpt-test@1/h3/torch/{provider}/here/host"
    detail = {"attributed_to": facts}
    return FindingView(
        "f1",
        series,
        campaign,
        provider,
        "performance",
        "warn",
        "",
        detail,
        0.08,
        0.07,
        0.09,
        "step_time",
        opened_at=at,
        updated_at=at,
        last_seen_at=at,
    )


def test_a_change_of_the_archive_is_on_the_page_with_its_effect_and_the_others(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    with open_archive(url) as archive:
        for name, kernels in {"moved": ("6.1.0", "6.8.0"), "stayed": ("6.1.0", "6.1.0")}.items():
            for month, kernel in enumerate(kernels):
                asked = trial(where=provider(name), campaign=f"2025-{11 + month}", planned_at=PLANNED + timedelta(days=30 * month))
                archive.record(document(asked, facts={**FACTS, "os.kernel": kernel}), uri="file:///store")
        readings = [FactReading(*row) for row in archive.fact_readings(tuple(FACT_NAMES))]
    named = finding("moved", "2025-12", "os.kernel")
    others = [
        finding("moved", "2025-11", "os.kernel"),
        finding("stayed", "2025-12", "os.kernel"),
        finding("moved", "2025-12", "cuda.version"),
    ]
    (row,) = change_rows(fact_changes(readings), [*others, named])
    assert (row.change.fact, row.change.value, row.change.have, row.change.known) == ("os.kernel", "6.8.0", ("moved",), 2)
    assert row.change.others == (("stayed", "6.1.0"),) and row.share == 50
    (adopted,) = row.rows
    assert [(e.finding_id, e.workload, e.metric) for e in adopted.effects] == [("f1", "gpt-test", "step_time")]
    assert adopted.together == ()
    shown = TestClient(create_app(archive_url=url, reports=tmp_path)).get("/changes").text
    assert 'data-fact="os.kernel" data-value="6.8.0"' in shown and 'data-provider="moved"' in shown


def test_facts_that_changed_in_one_campaign_are_named_together() -> None:
    def read(fact: str, *values: str) -> list[FactReading]:
        return [FactReading("a", f"c{n}", PLANNED + timedelta(days=n), fact, value) for n, value in enumerate(values, 1)]

    found = change_rows(fact_changes([*read("cuda.version", "12.4", "12.8"), *read("driver.version", "550", "570")]), [])
    assert [(r.change.fact, r.rows[0].together) for r in found] == [("driver.version", ("CUDA 12.8",)), ("cuda.version", ("driver 570",))]


def test_a_fleet_without_changes_says_so(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    with open_archive(url) as archive:
        archive.record(document(), uri="file:///store")
    assert 'id="no-changes"' in TestClient(create_app(archive_url=url, reports=tmp_path)).get("/changes").text
