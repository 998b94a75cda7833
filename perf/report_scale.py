"""Time and size of a report and of the commands that read a campaign, at 3 and at more providers.

python perf/report_scale.py [--fleet 50x19] [--folder SCRATCH]

Each fleet has two monthly campaigns of three repeats on simulated providers, half of the workloads training, half inference, a baseline from the
first campaign and two teams. Every command is a process of its own: its wall time and its CPU time, with the start of Python. With --folder
the archives stay there and are reused.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "include")]

from tests.browser import fleet  # noqa: E402
from tests.browser.large_fleet import record_months  # noqa: E402

from plumbline.declarations import load  # noqa: E402
from plumbline.declarations.installation import override_home  # noqa: E402

MONTHS = "2025-09..2025-10"
COMMANDS = (("report",), ("scorecard",), ("decide",), ("findings",), ("campaigns",))


def declare(folder: Path, providers: int, workloads: int) -> Path:
    """Declarations of that many simulated providers and workloads, each differing from the others in seed, price and name."""
    config: Path = fleet.declare(folder / "config")
    template = yaml.safe_load((config / "providers" / "cirrus-eu-h100.yaml").read_text())
    for path in (config / "providers").iterdir():
        path.unlink()
    for number in range(providers):
        place = {**template, "name": f"provider-{number:02d}"}
        place["launcher"] = {**template["launcher"], "seed": number}
        place["prices"] = [{**template["prices"][0], "price": f"{24 + number % 9} USD/h"}]
        (config / "providers" / f"{place['name']}.yaml").write_text(yaml.safe_dump(place))
    names: dict[str, list[str]] = {"training": [], "inference": []}
    for number in range(workloads):
        kind, own = (("training", "pretrain-1b-gpu"), ("inference", "chat-1b-gpu"))[number % 2]
        path = config / "workloads" / kind / f"{own}.yaml"
        name = own if number < 2 else f"{own}-{number:02d}"
        names[kind].append(name)
        path.with_stem(name).write_text(path.read_text().replace(f"name: {own}", f"name: {name}", 1))
    for path in (config / "teams").iterdir():
        team = yaml.safe_load(path.read_text())
        for kind, several in names.items():
            team[kind]["workloads"] = several[:5]
        path.write_text(yaml.safe_dump(team))
    return config


def measured(home: Path, config: Path) -> int:
    """Record both campaigns and review them; how many trials."""
    with override_home(home, config):
        count: int = record_months(load(), MONTHS)
    return count


def spent(words: tuple[str, ...], home: Path, config: Path) -> tuple[float, float, int]:
    """Wall seconds, CPU seconds and characters on standard output of one command; RuntimeError if it fails."""
    place = {"PLUMBLINE_HOME": str(home), "PLUMBLINE_CONFIG": str(config)}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [Path(sys.executable).parent / "plumbline", *words], env={**os.environ, **place}, capture_output=True, text=True, check=False
    )
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"plumbline {' '.join(words)} ended with {done.returncode}: {done.stderr[-400:]}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, len(done.stdout)


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("--fleet", default="50x19", help="PROVIDERSxWORKLOADS of the large fleet; the small one has 3 providers")
    given.add_argument("--folder", type=Path, help="where the archives stay")
    options = given.parse_args()
    providers, workloads = (int(n) for n in options.fleet.split("x"))
    with ExitStack() as stack:
        scratch = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="report-")))
        fleets = []
        for number in (3, providers):
            folder = scratch / f"{number}x{workloads}"
            home, config = folder / "home", folder / "config"
            if not folder.is_dir():
                count = measured(home, declare(folder, number, workloads))
                print(f"{number} x {workloads}: {count:,} trials recorded and reviewed", flush=True)
            fleets.append((f"{number}x{workloads}", home, config))
        print(f"{'command':24s} {'fleet':>7s} {'wall':>9s} {'CPU':>9s} {'printed':>9s}")
        for words in COMMANDS:
            for name, home, config in fleets:
                wall, cpu, printed = spent(words, home, config)
                print(f"plumbline {words[0]:14s} {name:>7s} {wall:7.1f} s {cpu:7.1f} s {printed:7,d} B", flush=True)
        for name, home, _ in fleets:
            (report,) = (home / "reports").glob("*/report.html")
            print(f"report.html {name}: {report.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
