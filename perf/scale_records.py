"""Recording rate of the archive, and query time of its overview with a year of results: SQLite and PostgreSQL.

python perf/scale_records.py [TRIALS]
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[1] / "include")]

CHUNK = 40


@contextmanager
def archives() -> Iterator[dict[str, str]]:
    """URL of a new archive on each kind of database."""
    from tests.fakes.postgres_server import PostgresServer

    with tempfile.TemporaryDirectory(prefix="scale-") as folder:
        server = PostgresServer(Path(folder) / "pg")
        yield {"SQLite": f"sqlite:///{folder}/archive.db", "PostgreSQL": server.new_database()}
        server.stop()


def write(url: str, first: int, count: int, start: object) -> None:
    """Record `count` trials, with a provider's number for one workload in each campaign."""
    from tests.data.result_documents import document, trial

    from plumbline.archive import open_archive

    documents = [document(trial(campaign=f"c{n // CHUNK:04d}", repeat=n % CHUNK + 1)) for n in range(first, first + count)]
    with open_archive(url) as archive:
        start.wait()  # type: ignore[attr-defined]
        for one in documents:
            assert archive.record(one, uri="file:///store") == "inserted"


def rate(url: str, first: int, count: int, writers: int) -> float:
    """Trials a second of `writers` concurrent processes."""
    context = multiprocessing.get_context("forkserver")
    start = context.Barrier(writers + 1)
    share = count // writers
    processes = [context.Process(target=write, args=(url, first + n * share, share, start)) for n in range(writers)]
    for process in processes:
        process.start()
    start.wait()
    began = time.perf_counter()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    return share * writers / (time.perf_counter() - began)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    from plumbline.archive import open_archive

    with archives() as urls:
        for name, url in urls.items():
            open_archive(url).close()
            one, four = rate(url, 0, count, 1), rate(url, count, count, 4)
            with open_archive(url) as archive:
                began = time.perf_counter()
                campaigns = archive.campaigns()
                overview = time.perf_counter() - began
                trials = len(archive.trials())
            rows = sum(len(d) for d in (campaigns,))
            print(f"{name:10s}  {one:6.0f} trials/s by one writer, {four:6.0f} by four;", end=" ")
            print(f"{trials} trials in {rows} campaigns are summarised in {overview * 1000:.0f} ms")
    print("a run of 50 providers × 20 workloads × 12 repeats has 12,000 trials: divide")


if __name__ == "__main__":
    main()
