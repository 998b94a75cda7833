"""Airflow's own API server with the plugin in it, over the archive of an installation's home: what people log in to."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from fastapi.routing import APIRoute
from playwright.sync_api import Page
from tests.data.page_addresses import routes_of

from plumbline.archive import open_archive
from plumbline.dashboard.app import create_app
from plumbline.declarations import load
from plumbline.declarations.installation import override_home
from plumbline.embedded.settings import USERNAME, environment, password, write_settings

PREFIX = "/plumbline"
_START_LIMIT_S = 240.0


@dataclass(frozen=True)
class Airflow:
    """A running API server: where it is and how one logs in."""

    address: str
    username: str
    password: str

    def log_in(self, page: Page) -> None:
        """As a person does: open Airflow, fill in its form."""
        page.goto(self.address)
        page.fill("input[name=username]", self.username)
        page.fill("input[name=password]", self.password)
        page.keyboard.press("Enter")
        page.get_by_role("link", name="Plumbline").wait_for()


@contextmanager
def airflow(folder: Path, home: Path, config: Path) -> Iterator[Airflow]:
    """The API server alone, with a database of its own below `folder`; ended when the block ends. No scheduler: nothing is to run."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    write_settings(folder, port, reparse=False)
    env = environment(folder, os.environ) | {"PLUMBLINE_HOME": str(home), "PLUMBLINE_CONFIG": str(config)}
    command = [sys.executable, "-m", "airflow"]
    subprocess.run([*command, "db", "migrate"], env=env, check=True, capture_output=True, timeout=_START_LIMIT_S)
    log = folder / "api-server.log"
    with log.open("wb") as said:
        process = subprocess.Popen([*command, "api-server", "--host", "127.0.0.1", "--port", str(port)], env=env, stdout=said, stderr=said)
    try:
        _wait(f"http://127.0.0.1:{port}", process, log)
        yield Airflow(f"http://127.0.0.1:{port}", USERNAME, password(folder))
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the API server ended: {log.read_text(errors='replace')[-2000:]}")
        try:
            if httpx.get(f"{address}/api/v2/monitor/health", timeout=5, trust_env=False).status_code == 200:
                return
        except httpx.HTTPError:
            pass  # it does not listen yet
        time.sleep(0.25)
    raise RuntimeError(f"the API server did not answer in {_START_LIMIT_S:g} s; its log: {log.read_text(errors='replace')[-2000:]}")


def routes(home: Path, config: Path) -> list[APIRoute]:
    """Every route of the dashboard, taken from the app itself."""
    with override_home(home, config):
        return routes_of(create_app())


def examples(home: Path, config: Path) -> dict[str, str]:
    """For each parameter of a path, something that the archive or the declarations hold."""
    with override_home(home, config):
        declared = load()
        team = next(iter(declared.teams.values()))
        with open_archive() as archive:
            series = archive.series()[0]
            campaign = archive.campaigns(latest=1)[0].campaign_id
            trial = next(t for t in archive.trials(campaign) if t.usable)
            finding = min(archive.findings(latest=50), key=lambda f: (f.severity != "page", f.kind != "performance"))
    return {
        "campaign_id": campaign,
        "trial_id": trial.trial_id,
        "finding_id": finding.finding_id,
        "provider": series.provider,
        "workload": series.workload,
        "kind": "training" if team.training is not None else "inference",
        "team": team.name,
        "number": "0",
        "series_key": series.series_key,
        "metric": "step_time" if series.kind == "training" else "time_to_first_token",
    }
