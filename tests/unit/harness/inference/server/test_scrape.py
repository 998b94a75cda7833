from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from plumbline.harness.inference.server import metrics_page

PAGE = """\
# HELP nv_inference_request_success Number of successful inference requests, all batch sizes
# TYPE nv_inference_request_success counter
nv_inference_request_success{model="chat",version="1"} 7
nv_inference_request_success{model="other",version="1"} 2
# TYPE plumbline_prefix_cache_hits counter
plumbline_prefix_cache_hits{model="chat"} 96
# TYPE nv_gpu_power_usage gauge
nv_gpu_power_usage{gpu_uuid="GPU-b"} 410.5
nv_gpu_power_usage{gpu_uuid="GPU-a"} 390
# TYPE nv_cpu_utilization gauge
nv_cpu_utilization 0.25
"""


@contextmanager
def serving(pages: list[str], status: int = 200) -> Iterator[str]:
    """A metrics endpoint that answers with the next page each time, and with the last one for ever."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = (pages.pop(0) if len(pages) > 1 else pages[0]).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing to standard error."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def test_totals_of_a_page() -> None:
    lines = metrics_page.parse_metrics(PAGE)
    assert metrics_page.sum_metric(lines, "nv_inference_request_success", "chat") == 7
    assert metrics_page.sum_metric(lines, "nv_inference_request_success") == 9
    assert metrics_page.sum_metric(lines, metrics_page.CACHE_HITS, "chat") == 96
    assert metrics_page.sum_metric(lines, metrics_page.CACHE_MISSES, "chat") is None
    assert metrics_page.sum_metric(lines, "nv_gpu_power_usage", "chat") == 800.5, "a line without a model belongs to all of them"


def test_a_counter_with_the_suffix_of_other_versions() -> None:
    page = '# TYPE plumbline_prefix_cache_hits counter\nplumbline_prefix_cache_hits_total{model="chat"} 5\n'
    assert metrics_page.sum_metric(metrics_page.parse_metrics(page), metrics_page.CACHE_HITS, "chat") == 5


def test_what_is_no_page() -> None:
    with pytest.raises(metrics_page.MetricsUnavailable, match=r"Prometheus.*<html>"):
        metrics_page.parse_metrics("<html>what { is this")


def test_pages_become_a_row_a_signal() -> None:
    later = PAGE.replace("nv_cpu_utilization 0.25", "nv_cpu_utilization 0.75")
    with serving([PAGE, later]) as address, metrics_page.Scraper(address, every_s=60) as scraper:
        pass
    assert len(scraper.pages) == 2, "one at the start, one at the end, however long the interval"
    rows = {row.signal: row for row in scraper.telemetry("steady")}
    assert set(rows) == {"server_gpu0_power", "server_gpu1_power", "server_host_cpu_utilization"}
    assert (rows["server_gpu0_power"].mean, rows["server_gpu1_power"].mean) == (390, 410.5), "numbered by identity, not by line"
    cpu = rows["server_host_cpu_utilization"]
    assert (cpu.phase, cpu.unit, cpu.n, cpu.mean, cpu.min, cpu.max) == ("steady", "ratio", 2, 0.5, 0.25, 0.75)


def test_pages_are_fetched_at_the_interval() -> None:
    with serving([PAGE]) as address, metrics_page.Scraper(address, every_s=0.01) as scraper:
        waited = threading.Event()
        for _ in range(500):
            if len(scraper.pages) >= 4:
                break
            waited.wait(0.02)
    assert len(scraper.pages) >= 4
    moments = [at for at, _ in scraper.pages]
    assert moments == sorted(moments)


def test_a_page_that_cannot_be_had_is_left_out() -> None:
    with serving([PAGE], status=503) as address:
        with pytest.raises(metrics_page.MetricsUnavailable, match=r"/metrics .*\b503\b.*\b200\b"):
            metrics_page.fetch_metrics(address)
        with metrics_page.Scraper(address) as scraper:
            pass
    assert scraper.telemetry("steady") == []
    with pytest.raises(metrics_page.MetricsUnavailable, match=r"ConnectionRefusedError"):
        metrics_page.fetch_metrics(address)


def test_a_page_that_was_cut_off_is_left_out() -> None:
    with serving([PAGE, PAGE.rsplit("}", 1)[0]]) as address, metrics_page.Scraper(address, every_s=60) as scraper:
        pass
    assert len(scraper.pages) == 2
    assert {row.n for row in scraper.telemetry("steady")} == {1}
