"""Accepting a finding in a real browser, by the keyboard alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, FrameLocator, Page, expect
from tests.browser.served import served
from tests.data.acting import AppliedRuns, acting_as
from tests.data.result_documents import document, trial
from tests.unit.dashboard.pages.test_findings import drifted, stored

from plumbline.archive import open_archive
from plumbline.dashboard.app import create_app

SANDBOX = "allow-scripts allow-same-origin allow-forms allow-downloads"
"""What Airflow's own frame allows its pages."""


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Address and archive of pages with one open finding, whose user may act."""
    folder = tmp_path_factory.mktemp("home")
    url = f"sqlite:///{folder / 'archive.db'}"
    with open_archive(url) as archive:
        archive.record(document(trial(campaign="2025-12")), uri="file:///store")
        stored(archive, drifted())
    with served(create_app(archive_url=url, reports=folder, acting=acting_as(AppliedRuns(url)))) as address:
        yield address, url


def tab_to(page: Page, selector: str) -> None:
    """Press Tab until the element has the focus, which must be visible at each stop."""
    for _ in range(60):
        page.keyboard.press("Tab")
        outline = page.evaluate("(() => { const s = getComputedStyle(document.activeElement); return s.outlineStyle + s.boxShadow; })()")
        assert outline != "nonenone", page.evaluate("document.activeElement.outerHTML")
        if page.evaluate("(wanted) => document.activeElement.matches(wanted)", selector):
            return
    raise AssertionError(f"Tab does not reach {selector}")


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.full)])
def test_axe_finds_no_serious_violation_in_open_forms(installation: tuple[str, str], chromium: Browser, scheme: str) -> None:
    context = chromium.new_context(color_scheme=scheme, bypass_csp=True)  # type: ignore[arg-type]
    page = context.new_page()
    for path in ("/findings", "/findings/f1"):
        page.goto(installation[0] + path)
        for summary in page.locator("details.acting > summary").all():
            summary.click()
        expect(page.get_by_role("button", name="Acknowledge")).to_be_visible()
        violations = Axe().run(page).response["violations"]
        assert [(v["id"], v["nodes"][0]["html"]) for v in violations if v["impact"] in ("serious", "critical")] == [], path
    context.close()


@contextmanager
def acknowledged(folder: Path, chromium: Browser, held: bool) -> Iterator[tuple[str, Page, FrameLocator]]:
    """A finding acknowledged inside a frame like Airflow's: the address, the page around it, the frame. `held`: its run has not begun."""
    url = f"sqlite:///{folder / 'archive.db'}"
    with open_archive(url) as archive:
        archive.record(document(trial(campaign="2025-12")), uri="file:///store")
        stored(archive, drifted())
    with served(create_app(archive_url=url, reports=folder, acting=acting_as(AppliedRuns(url, held=held)))) as address:
        # The frame is put into one of the pages, whose own policy allows none.
        page = chromium.new_context(bypass_csp=True).new_page()
        page.goto(f"{address}/workloads")
        page.evaluate(f'document.body.innerHTML = \'<iframe src="/findings" width=900 height=700 sandbox="{SANDBOX}"></iframe>\'')
        inside = page.frame_locator("iframe")
        inside.locator("details.acting > summary").click()
        inside.get_by_label("Reason").fill("ticket 7")
        inside.get_by_role("button", name="Acknowledge").click()
        expect(inside.get_by_role("status").filter(has_text="acknowledge")).to_be_visible(timeout=30_000)
        yield address, page, inside
        page.context.close()


def test_a_finding_is_acknowledged_inside_a_frame_of_the_same_origin(tmp_path: Path, chromium: Browser) -> None:
    with acknowledged(tmp_path, chromium, held=False) as (address, page, _):
        assert page.url == f"{address}/workloads" and page.frames[1].url.startswith(f"{address}/findings/f1?")
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        assert (archive.finding("f1").state, archive.audit("f1")[-1].who) == ("acknowledged", "ann")


def test_a_run_opens_around_the_frame(tmp_path: Path, chromium: Browser) -> None:
    with acknowledged(tmp_path, chromium, held=True) as (_, page, inside):
        inside.get_by_role("link", name="Run").click()
        page.wait_for_url("**/dags/finding_action/runs/1")


def test_a_finding_is_accepted_by_keyboard_from_the_inbox(installation: tuple[str, str], chromium: Browser) -> None:
    address, url = installation
    page = chromium.new_page()
    complaints: list[str] = []
    page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
    page.goto(f"{address}/findings")
    tab_to(page, "details.acting > summary")
    page.keyboard.press("Enter")
    tab_to(page, "form.act input[name=why]")
    page.keyboard.type("driver 2 stays")
    tab_to(page, "form.act button[value=accept]")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="accept")).to_be_visible()
    assert "/findings/f1" in page.url
    with open_archive(url) as archive:
        assert archive.finding("f1").state == "accepted"
        assert (archive.audit("f1")[-1].who, archive.audit("f1")[-1].why) == ("ann", "driver 2 stays")
    assert complaints == []
    page.close()


def test_the_inbox_is_walked_opened_and_answered_by_its_keys(tmp_path: Path, chromium: Browser) -> None:
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    with open_archive(url) as archive:
        archive.record(document(trial(campaign="2025-12")), uri="file:///store")
        for name, severity in (("f1", "page"), ("f2", "warn")):
            stored(archive, replace(drifted(), finding_id=name, severity=severity, subject=name, attributed_to=()))  # type: ignore[arg-type]
    with served(create_app(archive_url=url, reports=tmp_path, acting=acting_as(AppliedRuns(url)))) as address:
        page = chromium.new_page()
        page.goto(f"{address}/findings")
        expect(page.locator("#keys")).to_be_visible()
        focus = page.locator(":focus")
        visited = []
        for key in ("j", "j", "j", "k"):
            page.keyboard.press(key)
            visited.append(focus.get_attribute("href"))
        assert visited == ["/findings/f1", "/findings/f2", "/findings/f2", "/findings/f1"], "the ends hold"
        page.keyboard.press("e")
        expect(focus).to_have_attribute("name", "why")
        page.keyboard.type("jek")
        expect(focus).to_have_value("jek")
        page.keyboard.press("Escape")
        expect(focus).to_have_attribute("href", "/findings/f1")
        expect(page.locator("details.acting[open]")).to_have_count(0)
        page.keyboard.press("Enter")
        page.wait_for_url("**/findings/f1")
        page.close()
