"""A finding's button and what runs now as a person meets them: in the frame of a whole embedded Airflow, behind its login."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, FrameLocator, Page, expect
from tests.browser.airflow_pages import Airflow
from tests.data.result_documents import document, trial
from tests.fakes.trials import CONFIG
from tests.unit.dashboard.pages.test_findings import drifted, stored

from plumbline.archive import open_archive
from plumbline.declarations import installation_paths
from plumbline.embedded.client import AirflowClient
from plumbline.embedded.server import AirflowServer
from plumbline.embedded.settings import USERNAME
from plumbline.workflows.plan import ACTION_DAG

pytestmark = [
    pytest.mark.integration,
    # test_finding_actions.py clicks in a frame without Airflow, tests/integration/test_plumbline_plugin.py asks a real one what runs
    pytest.mark.full,
    pytest.mark.timeout(1500),
]
_LIMIT_MS = 300_000
BENCHMARK = "benchmark_local_2core"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Airflow, AirflowClient]]:
    """A whole Airflow whose archive has one open finding."""
    home = tmp_path_factory.mktemp("buttons")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLUMBLINE_HOME", str(home))
        shutil.copytree(CONFIG, home / "config")
        patch.setenv("PLUMBLINE_CONFIG", str(home / "config"))
        for name in ("PLUMBLINE_RESULTS_URL", "PLUMBLINE_ARCHIVE_URL"):
            patch.delenv(name, raising=False)
        with open_archive() as archive:
            archive.record(document(trial(campaign="2025-12")), uri="file:///store")
            stored(archive, drifted())
        server = AirflowServer(installation_paths().airflow_home)
        with server.start(), server.client() as client:
            deadline = time.monotonic() + 300
            while not {ACTION_DAG, BENCHMARK} <= set(client.dags()):
                assert time.monotonic() < deadline, client.dags()
                time.sleep(0.5)
            yield Airflow(server.address, server.username, server.password), client


@pytest.fixture
def page(chromium: Browser, running: tuple[Airflow, AirflowClient]) -> Iterator[Page]:
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(_LIMIT_MS)
    opened = context.new_page()
    running[0].log_in(opened)
    opened.get_by_role("link", name="Plumbline").click()
    yield opened
    context.close()


def pages(page: Page) -> FrameLocator:
    """Plumbline's pages inside Airflow's."""
    return page.frame_locator("iframe[title=Plumbline]")


def test_a_finding_is_acknowledged_in_airflows_frame(page: Page) -> None:
    inside = pages(page)
    inside.get_by_role("link", name="Findings").first.click()
    inside.locator("details.acting > summary").first.click()
    inside.get_by_label("Reason").fill("ticket 7")
    inside.get_by_role("button", name="Acknowledge").click()
    asked = inside.get_by_role("status").filter(has_text="acknowledge")
    expect(asked).to_contain_text(f"requested by {USERNAME}: ticket 7")
    deadline = time.monotonic() + _LIMIT_MS / 1000
    with open_archive() as archive:
        while archive.finding("f1").state == "open":
            assert time.monotonic() < deadline, asked.inner_text()
            time.sleep(0.5)
        entry = archive.audit("f1")[-1]
        assert (archive.finding("f1").state, entry.who, entry.why) == ("acknowledged", USERNAME, "ticket 7")
    # Its run opens in Airflow itself, not in a second Airflow inside the frame.
    asked.get_by_role("link", name="Run").click()
    page.wait_for_url(re.compile(f"/dags/{ACTION_DAG}/runs/"))
    assert len(page.frames) == 1


def test_a_running_trial_shows_on_the_overview_and_leads_to_its_run(page: Page, running: tuple[Airflow, AirflowClient]) -> None:
    client = running[1]
    client.set_paused(BENCHMARK, False)
    client.trigger(BENCHMARK, {"reason": "a test", "workloads": ["gpt-tiny-cpu"], "kinds": ["training"], "repeats": 1})
    tile = pages(page).locator(".tile", has_text="Running now")
    deadline = time.monotonic() + _LIMIT_MS / 1000
    while not re.search(r"local-2core.*of \d+ trials since \d\d:\d\d UTC", text := tile.inner_text().replace("\n", " ")):
        assert time.monotonic() < deadline, text
        time.sleep(0.5)
        page.frames[1].goto(page.frames[1].url)
    tile.click()
    page.wait_for_url(re.compile(f"/dags/{BENCHMARK}/runs/"))
    assert len(page.frames) == 1
