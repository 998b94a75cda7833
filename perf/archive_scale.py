"""Time of a review in an archive that grew a hundredfold: ratios, on SQLite and on PostgreSQL.

python perf/archive_scale.py [SMALL LARGE] [--only sqlite|postgresql] [--seed N] [--folder SCRATCH]

Both archives are generated (perf/archive_generator.py) and get one new campaign. Queries alternate between them: the review of that campaign, the
newest findings, the open findings. 1,000,000 trials need about 6 GB below SCRATCH, one database after the other.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "include"), str(ROOT / "perf")]

REVIEWS, LISTS = 7, 100
MOST = 2.0
LISTED = 20


@contextmanager
def database(kind: str, folder: Path) -> Iterator[str]:
    """URL of a new database."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'archive.db'}"
        return
    from tests.fakes.postgres_server import PostgresServer

    server = PostgresServer(folder / "pg")
    try:
        yield server.new_database()
    finally:
        server.stop()


def generated(url: str, trials: int, seed: int, folder: Path) -> tuple[int, str]:
    """Fill an archive; returns its number of trials and the campaign to review."""
    from archive_generator import fill, record_new

    from plumbline.archive import open_archive

    began = time.perf_counter()
    with open_archive(url) as archive, open_archive(f"sqlite:///{folder / 'template.db'}") as template:
        trial_count = fill(archive, template, trials, seed)
        campaign = record_new(archive, seed)
    print(f"  {url.partition(':')[0]}: {trial_count:,} trials generated in {time.perf_counter() - began:.0f} s", flush=True)
    return trial_count, campaign


def review(url: str, campaign: str) -> None:
    """Review the campaign like the review DAG, with its own connection."""
    from plumbline.workflows.review import review_campaign as reviewed

    os.environ["PLUMBLINE_ARCHIVE_URL"] = url
    assert reviewed(campaign)


def in_turn(few: Callable[[], Any], many: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """Lower quartile of both in seconds, measured in turn: other load affects both alike and only adds time."""
    spent: tuple[list[float], list[float]] = ([], [])
    for n in range(rounds + 1):
        for ask, noted in zip((few, many), spent, strict=True):
            began = time.perf_counter()
            ask()
            if n:  # the first round warms Python and the disk cache
                noted.append(time.perf_counter() - began)
    few_s, many_s = (statistics.quantiles(noted, n=4)[0] for noted in spent)
    return few_s, many_s


def measured(urls: list[str], campaigns: list[str]) -> dict[str, tuple[float, float]]:
    """Seconds of each query on the small and on the large archive."""
    from plumbline.archive import open_archive

    with open_archive(urls[0]) as small, open_archive(urls[1]) as large:
        return {
            "review one new campaign": in_turn(lambda: review(urls[0], campaigns[0]), lambda: review(urls[1], campaigns[1]), REVIEWS),
            "list the latest findings": in_turn(lambda: small.findings(latest=LISTED), lambda: large.findings(latest=LISTED), LISTS),
            "list the open findings": in_turn(
                lambda: small.findings(state="open", latest=LISTED), lambda: large.findings(state="open", latest=LISTED), LISTS
            ),
        }


def main() -> int:
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("sizes", nargs="*", type=int, default=[10_000, 1_000_000], help="trials in the small and in the large archive")
    given.add_argument("--only", choices=("sqlite", "postgresql"))
    given.add_argument("--seed", type=int, default=1)
    given.add_argument("--folder", type=Path, help="folder of the archives during the measurement")
    options = given.parse_args()
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    worst = 0.0
    for kind in (options.only,) if options.only else ("sqlite", "postgresql"):
        with tempfile.TemporaryDirectory(prefix="scale-", dir=options.folder) as name, ExitStack() as stack:
            os.environ["PLUMBLINE_HOME"] = name
            folders = [Path(name) / size for size in ("small", "large")]
            for folder in folders:
                folder.mkdir()
            urls = [stack.enter_context(database(kind, folder)) for folder in folders]
            made = [generated(url, trials, options.seed, f) for url, trials, f in zip(urls, options.sizes, folders, strict=True)]
            for question, (before, after) in measured(urls, [campaign for _, campaign in made]).items():
                worst = max(worst, after / before)
                figures = "  ".join(
                    f"{trial_count:>9,} trials {s * 1000:8.1f} ms" for (trial_count, _), s in zip(made, (before, after), strict=True)
                )
                print(f"{kind:10s}  {question:25s} {figures}  ×{after / before:.2f}", flush=True)
    print(f"the worst ratio is ×{worst:.2f}; the limit is ×{MOST:g}")
    return 0 if worst <= MOST else 1


if __name__ == "__main__":
    raise SystemExit(main())
