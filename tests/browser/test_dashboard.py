"""The dashboard's pages in a real browser, served over loopback: no complaint, nothing asked of anyone else, readable on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.browser.chromium import QUICK_SHAPES, SHAPES
from tests.browser.sample import campaign, record
from tests.browser.served import served

from plumbline.archive import FindingRecord, open_archive
from plumbline.dashboard.app import create_app
from plumbline.presentation.html.report import write_report

PAGES = (
    "/",
    "/findings",
    "/campaigns/2026-11",
    "/trials/2026-11.local-1core.training.gpt-tiny-cpu.0200.r2",
    "/trials/2026-11.local-1core.training.gpt-tiny-cpu.0200.r3?attempt=2",
    "/reports/2026-11",
)


def seeded(folder: Path, report: bool = True) -> Path:
    """An installation's home with the sample campaign recorded, a finding and a report."""
    data = campaign(folder / "results")
    with open_archive(f"sqlite:///{folder / 'archive.db'}") as archive:
        record(archive, data)
        found = data.findings[0]
        archive.save_findings(
            [
                FindingRecord(
                    finding_id=found.finding_id[:12],
                    series_key=found.series_key,
                    campaign_id=found.campaign_id,
                    provider="local-1core",
                    kind="performance",
                    severity="page",
                    headline=found.headline,
                    detail={"explanation": found.explanation},
                )
            ]
        )
    if report:
        write_report(data, folder / "reports")
    return folder


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = seeded(tmp_path_factory.mktemp("home"))
    app = create_app(archive_url=f"sqlite:///{home / 'archive.db'}", reports=home / "reports")
    with served(app) as found:
        yield found


@pytest.mark.parametrize("shape", QUICK_SHAPES)
def test_pages_load_without_a_complaint(address: str, chromium: Browser, shape: str) -> None:
    context = chromium.new_context(**SHAPES[shape])  # type: ignore[arg-type]
    page = context.new_page()
    complaints: list[str] = []
    elsewhere: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: elsewhere.append(request.url) if not request.url.startswith((address, "data:")) else None)
    for path in PAGES:
        response = page.goto(address + path, wait_until="load")
        assert response is not None
        assert response.status == 200, path
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0, path
    page.locator("#cover svg.drawn").first.wait_for()  # the report's own policy must let its charts draw
    assert complaints == []
    assert elsewhere == []
    context.close()


def test_from_the_overview_to_a_trial_by_links(address: str, chromium: Browser) -> None:
    page = chromium.new_page()
    page.goto(address + "/")
    page.get_by_role("link", name="2026-11").first.click()
    page.get_by_role("link", name="2026-11.local-1core.training.gpt-tiny-cpu.0200.r1").click()
    page.get_by_text("plumbline replay 2026-11.local-1core.training.gpt-tiny-cpu.0200.r1").wait_for(state="visible")
    page.close()
