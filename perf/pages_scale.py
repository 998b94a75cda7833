"""Time of each page in an archive that grew a hundredfold: the server's time, as ratios, on SQLite or PostgreSQL.

python perf/pages_scale.py [SMALL LARGE] [--only sqlite|postgresql] [--seed N] [--folder SCRATCH] [--keep]
python perf/pages_scale.py --fleet 50x20 [--pages / /workloads/workload-00 …]

With --fleet, PROVIDERSxWORKLOADS over three years of monthly campaigns of three trials against three of these providers: CPU time of the first
request, of those for its slow parts, and of a repeated one; statements and bytes of each page. Imports count for neither: another app over the small archive answers first.

Both archives are generated (perf/archive_generator.py): the number of providers grows, each is declared with a price, and a team decides among all
of them. Requests to each address of the app's own routes alternate between both, within one process and without a network. 1,000,000 trials
need about 6 GB below SCRATCH; with --keep the archives stay there and are reused.
"""

from __future__ import annotations

import argparse
import gc
import html
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "include"), str(ROOT / "perf")]

import archive_generator as generator  # noqa: E402
from archive_generator import campaign_of, place, workloads  # noqa: E402
from archive_scale import database, generated, in_turn  # noqa: E402

from plumbline.declarations import series_key  # noqa: E402

_LATER = re.compile(r'data-later="([^"]+)"')
ROUNDS = 9
MOST = 2.0
TEAM = """
name: platform
training:
  workloads: [workload-00]
  weights: {tokens_per_second: 0.5, cost_per_1m_trained_tokens: 0.5}
  gates: [step_time <= 10s in steady]
"""
PROVIDER = """
name: {name}
cloud: local
region: here
instance_type: host-2core
accelerator: {{kind: cpu, count: 2}}
launcher: {{kind: local, cpus: [0, 1]}}
prices:
  - {{purchase: on_demand, price: {price} USD/h, since: 2024-01-01, source: generated}}
"""


def declare(folder: Path, providers: int) -> Path:
    """Declarations with every provider of a generated archive, and one team."""
    config = folder / "config"
    for kind in ("providers", "teams", "workloads/training"):
        (config / kind).mkdir(parents=True)
    shutil.copy(ROOT / "include" / "config" / "thresholds.yaml", config)
    for number in range(providers):
        name = place(number).name
        (config / "providers" / f"{name}.yaml").write_text(PROVIDER.format(name=name, price=1 + number % 7 / 10).lstrip())
    for workload in workloads():
        text = yaml.safe_dump(workload.model_dump(mode="json", exclude_defaults=True) | {"kind": workload.kind})
        (config / "workloads" / "training" / f"{workload.name}.yaml").write_text(text)
    (config / "teams" / "platform.yaml").write_text(TEAM.lstrip())
    return config


class MeasuredApp:
    """The app over one of the archives."""

    def __init__(self, url: str, home: Path, config: Path) -> None:
        self.places = {"PLUMBLINE_HOME": str(home), "PLUMBLINE_CONFIG": str(config), "PLUMBLINE_ARCHIVE_URL": url}
        with self._here():
            from fastapi.testclient import TestClient

            from plumbline.dashboard.app import create_app

            self.app = create_app()
            self.client = TestClient(self.app, raise_server_exceptions=False)
            self.known = self._examples()

    def beside(self) -> MeasuredApp:
        """Another app over the same archive and declarations."""
        return MeasuredApp(self.places["PLUMBLINE_ARCHIVE_URL"], Path(self.places["PLUMBLINE_HOME"]), Path(self.places["PLUMBLINE_CONFIG"]))

    @contextmanager
    def _here(self) -> Iterator[None]:
        before = {name: os.environ.get(name) for name in self.places}
        os.environ.update(self.places)
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)

    def get(self, path: str) -> Any:
        """Send one request; RuntimeError for any other status than success."""
        with self._here():
            answer = self.client.get(path)
        if answer.status_code != 200:
            raise RuntimeError(f"{path} answered {answer.status_code}: {answer.text[:400]}")
        return answer

    def paths(self) -> list[str]:
        """Every address of the app's routes, with parameters from the archive."""
        from tests.data.page_addresses import address_of, routes_of

        # Without files: a generated archive has none.
        pages = (
            r
            for r in routes_of(self.app)
            if not any(file in r.path for file in ("/static/", "/reports/", "/evidence/", "/tables/", "/claim.eml"))
        )
        return [address_of(route, self.known) for route in pages]

    def _examples(self) -> dict[str, str]:
        from plumbline.archive import open_archive

        campaign, _ = campaign_of(generator.CAMPAIGNS)
        with open_archive() as archive:
            finding = archive.findings(latest=1)[0].finding_id
        trial = f"{campaign}.provider-0000.training.workload-00.0200.r1"
        return {
            "campaign_id": campaign,
            "trial_id": trial,
            "finding_id": finding,
            "provider": "provider-0000",
            "workload": "workload-00",
            "team": "platform",
            "kind": "training",
            "series_key": series_key(workloads()[0], place(0)),
            "metric": "step_time",
        }


def main() -> int:
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("sizes", nargs="*", type=int, default=[10_000, 1_000_000], help="trials in the small and in the large archive")
    given.add_argument("--only", choices=("sqlite", "postgresql"), default="sqlite")
    given.add_argument("--seed", type=int, default=1)
    given.add_argument("--folder", type=Path, help="folder of the archives during the measurement")
    given.add_argument("--keep", action="store_true", help="keep the archives (SQLite) in --folder, and reuse existing ones")
    given.add_argument("--fleet", help="PROVIDERSxWORKLOADS, such as 50x20, instead of sizes in trials")
    given.add_argument("--pages", nargs="*", help="with --fleet, only these addresses")
    options = given.parse_args()
    if options.fleet:
        providers, generator.WORKLOADS = (int(n) for n in options.fleet.split("x"))
        generator.CAMPAIGNS, generator.REPEATS = 36, 3
        generator.TRIALS_OF_A_PROVIDER = generator.WORKLOADS * generator.CAMPAIGNS * generator.REPEATS
        options.sizes = [n * generator.TRIALS_OF_A_PROVIDER for n in (3, providers)]
    if options.keep and (options.folder is None or options.only != "sqlite"):
        given.error("--keep needs --folder and SQLite")
    with ExitStack() as stack:
        scratch = (
            options.folder if options.keep else Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pages-", dir=options.folder)))
        )
        apps, sizes = [], []
        for size in options.sizes:
            folder = scratch / str(size)
            there = folder.is_dir()
            folder.mkdir(parents=True, exist_ok=True)
            url = stack.enter_context(database(options.only, folder))
            trial_count = int((folder / "held").read_text()) if there else generated(url, size, options.seed, folder)[0]
            (folder / "held").write_text(str(trial_count))
            shutil.rmtree(folder / "config", ignore_errors=True)
            apps.append(MeasuredApp(url, folder, declare(folder, trial_count // generator.TRIALS_OF_A_PROVIDER)))
            sizes.append(trial_count)
        return counted(apps[0].beside(), apps, options.pages) if options.fleet else compared(apps, sizes)


def counted(imports: MeasuredApp, apps: list[MeasuredApp], pages: list[str] | None) -> int:
    """CPU time of the first and of a repeated request, statements and bytes of each page; returns 1 if one needs 100 statements or more."""
    from sqlalchemy import Engine, event

    sent: list[str] = []
    event.listen(Engine, "before_cursor_execute", lambda _c, _cursor, statement, *_rest: sent.append(statement))
    most = 0
    print(f"{'address':50s} {'first':>9s} {'parts':>9s} {'again':>9s} {'queries':>8s} {'kB':>7s}   of 3 providers, then of all")
    # Of each archive its own: a finding of the small one need not be in the large one.
    addresses = [pages or [p for p in app.paths() if not p.endswith(".json")] for app in apps]
    for own in zip(*addresses, strict=True):
        imports.get(own[0])
        columns, firsts, again = [], [], []
        for app, path in zip(apps, own, strict=True):
            gc.collect()  # what the imports and other pages left
            began = time.process_time()
            app.get(path)
            firsts.append(time.process_time() - began)
            parts = time.process_time()
            fill(app, path)
            parts = time.process_time() - parts
            sent.clear()
            size, statements = len(app.get(path).content), len(sent)
            spent = []
            for _ in range(3):
                began = time.process_time()
                app.get(path)
                spent.append(time.process_time() - began)
            again.append(min(spent))
            most = max(most, statements)
            columns.append(
                f"{firsts[-1] * 1000:6.0f} ms {parts * 1000:6.0f} ms {min(spent) * 1000:6.0f} ms {statements:8d} {size / 1000:7.0f}"
            )
        print(f"{own[0]:50s} {' | '.join(columns)}   ×{firsts[1] / firsts[0]:.2f} ×{again[1] / again[0]:.2f}", flush=True)
    print(f"at most {most} statements; the limit is 99")
    return 0 if most < 100 else 1


def fill(app: MeasuredApp, path: str) -> None:
    """Request the slow parts of a page, as its script does, and the page again until none is left."""
    seen: set[str] = set()
    while wanted := {html.unescape(found) for found in _LATER.findall(app.get(path).text)} - seen:
        for address in sorted(wanted):
            app.get(address)
        seen |= wanted


def compared(apps: list[MeasuredApp], sizes: list[int]) -> int:
    """Request every address of both; returns 1 if the ratio of one exceeds the limit."""
    small, large = apps
    worst = 0.0
    print(f"{'address':55s} {sizes[0]:>9,} trials {sizes[1]:>11,} trials   ratio")
    for path, same in zip(small.paths(), large.paths(), strict=True):
        few, many = in_turn(lambda p=path: small.get(p), lambda p=same: large.get(p), ROUNDS)  # type: ignore[misc]
        worst = max(worst, many / few)
        print(f"{path:55s} {few * 1000:13.1f} ms {many * 1000:15.1f} ms   ×{many / few:.2f}", flush=True)
    print(f"the worst ratio is ×{worst:.2f}; the limit is ×{MOST:g}")
    return 0 if worst <= MOST else 1


if __name__ == "__main__":
    raise SystemExit(main())
