"""The server's life: started, killed, started again, its model reloaded, its metrics read. Real tritonservers with a model that loads at once."""

from __future__ import annotations

import os
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.fakes import listening, noop_model
from tests.fakes.processes import lives
from tritonclient.utils import InferenceServerException

from plumbline.harness import engine_python
from plumbline.harness.gang.channel import free_port
from plumbline.harness.inference.server import control, metrics_page, shared_memory, tritonserver
from plumbline.harness.inference.server.triton import Triton
from plumbline.harness.measurement import TrialFailed


def a_server(workdir: Path, **options: Any) -> Triton:
    models = workdir / "models"
    if not models.exists():
        noop_model.write(models)
    return Triton(tritonserver.find_installation(), models, noop_model.NAME, workdir, **({"ready_within_s": 120.0} | options))


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert [p for p in psutil.Process().children(recursive=True) if lives(p) and "triton" in p.name()] == []
    assert list(shared_memory.SHARED_MEMORY_FOLDER.glob(f"{shared_memory.shared_memory_prefix()}*")) == []


def succeeded(triton: Triton) -> int:
    return control.server_counters(triton.address, triton.model).succeeded


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not what() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert what()


@pytest.mark.fault("a folder's name holds a quote or a space", ends="Triton gets links to it", keeps="the trial")
def test_it_starts_in_a_folder_whose_name_a_shell_would_split(tmp_path: Path) -> None:
    workdir = tmp_path / "ada's füß %20 #1?"
    workdir.mkdir()
    with a_server(workdir) as triton:
        noop_model.ask(triton.address)
        triton.kill()
        triton.restart()
        noop_model.ask(triton.address)
        links = triton._links
        assert links is not None and links.is_dir()
    assert not links.exists() and (workdir / "models").is_dir()


@pytest.mark.fault(
    "the path of the Python environment has a letter beyond ASCII", ends="Triton's Python gets a link to it", keeps="the trial"
)
def test_models_run_in_an_environment_whose_path_is_not_ascii(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = tmp_path / "füß"
    environment.symlink_to(sys.prefix)
    monkeypatch.setenv(engine_python.VARIABLE, str(environment / "bin" / "python"))
    # As torch does with the path of its package when it is imported.
    noop_model.write(tmp_path / "models", first="__import__('sys').prefix.encode()")
    with a_server(tmp_path) as triton:
        noop_model.ask(triton.address)
        assert triton._links is not None and [path.readlink() for path in triton._links.iterdir()] == [environment]
    assert not triton._links.exists() and environment.is_dir()


def test_it_counts_and_tells_its_metrics(tmp_path: Path) -> None:
    with a_server(tmp_path) as triton:
        before = triton.view()
        with metrics_page.Scraper(triton.metrics_address, every_s=0.05) as scraper:
            for _ in range(5):
                noop_model.ask(triton.address)
            # Counted a moment after the answer.
            wait_for(lambda: before is not None and succeeded(triton) == before.succeeded + 5)
        after = triton.view()
        plain = control.server_counters(triton.address, triton.model)
        triton.kill()
        assert triton.view() is None
    assert before is not None
    assert after is not None
    served = after - before
    assert (served.succeeded, served.failed, served.executions, served.inferences) == (5, 0, 5, 5)
    assert served.batch_size == 1
    assert served.compute_infer_s > 0
    assert served.queued_s >= 0
    assert served.cache_hits == 15
    assert served.cache_misses is None, "this model counts none"
    assert served.cache_hit_ratio is None
    assert served.gpu_memory_bytes is None
    assert (plain.succeeded, plain.cache_hits) == (5, None), "nobody asked the metrics page"
    rows = {row.signal: row for row in scraper.telemetry("steady")}
    assert rows["server_pending_requests"].n >= 2, "at its start and at its end at least"
    assert rows["server_pending_requests"].unit == "count"
    assert set(triton.start_up.about["cpus"]) == os.sched_getaffinity(0)


def test_killed_and_started_again_at_the_same_address(tmp_path: Path) -> None:
    with a_server(tmp_path) as triton:
        address, first = triton.address, triton.process.pid
        noop_model.ask(address)
        model = next(p for p in psutil.Process(first).children(recursive=True) if "stub" in p.name())
        at = triton.kill()
        assert at <= time.monotonic()
        assert not triton.running()
        assert "signal 9" in triton.state()
        assert not lives(model)
        with pytest.raises(InferenceServerException):
            noop_model.ask(address)

        # From a thread that ends: the server must outlive it.
        started: list[Any] = []
        starter = threading.Thread(target=lambda: started.append(triton.restart()))
        starter.start()
        starter.join(150)
        assert started[0].ready > started[0].started > at
        time.sleep(0.1)
        assert triton.running()
        assert (triton.address, triton.process.pid != first) == (address, True)
        noop_model.ask(address)
        # Counted a moment after the answer; the first incarnation's count went with it.
        wait_for(lambda: succeeded(triton) == 1)
    log = triton.log.read_text()
    assert log.count("Started GRPCInferenceService") == 2, "one log of both"


@pytest.mark.full
def test_killed_and_not_able_to_start_again(tmp_path: Path) -> None:
    with a_server(tmp_path) as triton:
        triton.kill()
        noop_model.write(tmp_path / "models", first="raise ValueError('never again')")
        with pytest.raises(TrialFailed, match=r"server_error: .*never again"):
            triton.restart()


def test_the_model_is_reloaded(tmp_path: Path) -> None:
    with a_server(tmp_path) as triton:
        noop_model.ask(triton.address)
        server = triton.process.pid
        triton.reload(30)
        assert triton.process.pid == server
        assert triton.running()
        noop_model.ask(triton.address)
        wait_for(lambda: len(psutil.Process(server).children()) == 1)  # one model process, the new one
        psutil.Process(server).children()[0].kill()
        wait_for(lambda: not triton.running())  # the new one is watched


@pytest.mark.full
def test_a_model_that_does_not_come_back(tmp_path: Path) -> None:
    with a_server(tmp_path) as triton:
        noop_model.write(tmp_path / "models", first="raise ValueError('once only')")
        with pytest.raises(TrialFailed, match=r"server_error: .*noop.*once only"):
            triton.reload(30)


@pytest.mark.full
def test_a_model_that_takes_too_long_to_come_back(tmp_path: Path) -> None:
    with a_server(tmp_path) as triton:
        noop_model.write(tmp_path / "models", first="__import__('time').sleep(5)")
        with pytest.raises(TrialFailed, match=r"timeout: .*noop.*DEADLINE_EXCEEDED"):
            triton.reload(3)


@pytest.mark.full
@pytest.mark.parametrize("which", [0, 1, 2], ids=["grpc", "metrics", "http"])
def test_a_port_that_somebody_took(tmp_path: Path, which: int) -> None:
    with listening.somewhere() as taken:
        first = [free_port() for _ in range(3)]
        first[which] = taken
        offered = iter(first)
        with a_server(tmp_path, http=True, ports=lambda: next(offered, None) or free_port()) as triton:
            assert str(taken) not in (triton.address + triton.metrics_address + triton.http_address)
            noop_model.ask(triton.address)
            with urllib.request.urlopen(f"http://{triton.http_address}/v2/health/ready", timeout=30) as answer:
                assert answer.status == 200


def test_no_port_is_free(tmp_path: Path) -> None:
    with (
        listening.somewhere() as taken,
        pytest.raises(TrialFailed, match=r"server_error: "),
        a_server(tmp_path, ports=lambda: taken),
    ):
        pytest.fail("a server without ports")


def test_http_is_closed_unless_asked(tmp_path: Path) -> None:
    with a_server(tmp_path) as triton:
        assert triton.http_address == ""
        listening_at = [c.laddr for c in psutil.Process(triton.process.pid).net_connections("tcp") if c.status == psutil.CONN_LISTEN]
        assert {at.port for at in listening_at} == {int(a.rsplit(":", 1)[1]) for a in (triton.address, triton.metrics_address)}
        assert {at.ip.removeprefix("::ffff:") for at in listening_at} == {"127.0.0.1"}


@pytest.mark.full
def test_the_server_keeps_to_its_cores(tmp_path: Path) -> None:
    mine = os.sched_getaffinity(0)
    one = min(mine)
    with a_server(tmp_path, cpus=[one]) as triton:
        assert triton.start_up.about["cpus"] == [one]
        assert set(psutil.Process(triton.process.pid).cpu_affinity()) == {one}
    assert os.sched_getaffinity(0) == mine


@pytest.mark.full
def test_a_killed_server_has_no_page_for_a_while(tmp_path: Path) -> None:
    with a_server(tmp_path) as triton, metrics_page.Scraper(triton.metrics_address, every_s=0.05) as scraper:
        wait_for(lambda: len(scraper.pages) > 0)
        triton.kill()
        with pytest.raises(metrics_page.MetricsUnavailable, match=r"/metrics: ConnectionRefusedError"):
            metrics_page.fetch_metrics(triton.metrics_address)
        seen = len(scraper.pages)
        triton.restart()
        wait_for(lambda: len(scraper.pages) > seen)
    assert scraper.telemetry("fault")
