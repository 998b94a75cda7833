"""A trial's page shows GPU utilisation beside what was achieved, and nowhere alone."""

from __future__ import annotations

from pathlib import Path

from fastapi.testclient import TestClient
from tests.data.result_documents import document, training_metrics
from tests.parsed import Parsed
from tests.unit.presentation.test_trials import sampled

from plumbline.archive import open_archive
from plumbline.dashboard.app import create_app
from plumbline.presentation.trials import gpu_usages
from plumbline.results import CheckLine, GpuCounter, ResultDocument


def page(folder: Path, found: ResultDocument) -> str:
    url = f"sqlite:///{folder / 'archive.db'}"
    with open_archive(url) as archive:
        archive.record(found, uri="s3://x")
    with TestClient(create_app(archive_url=url, reports=folder)) as client:
        text = client.get(f"/trials/{found.trial.trial_id}").text
    return text[text.index('id="telemetry"') :].split("</section>")[0]


def test_beside_what_was_achieved(tmp_path: Path) -> None:
    part = page(tmp_path, document(telemetry=sampled(utilization=0.9, power=500.0)))
    table = part.split("</table>")[0]
    assert "90 %" in table and "1.00 GFLOP/s" in table and "1.00 kW" in table and "not measured" in table
    assert "utilization" not in part  # the raw signals have no row of it
    assert "gpu0 power" in part


def test_counters_that_grew_come_first_and_open(tmp_path: Path) -> None:
    rows = (
        GpuCounter(gpu=0, counter="pcie_replays", before=4, after=4),
        GpuCounter(node=1, gpu=3, counter="ecc_uncorrected_volatile", before=1, after=3),
    )
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    found = document(gpu_health=rows)
    with open_archive(url) as archive:
        archive.record(found, uri="s3://x")
    with TestClient(create_app(archive_url=url, reports=tmp_path)) as client:
        text = client.get(f"/trials/{found.trial.trial_id}").text
    part = Parsed(text).one("#gpu-health")
    assert part.all("details.phase[open]") and "3 of node 1" in part.text
    assert part.text.index("ecc uncorrected volatile") < part.text.index("pcie replays")


def test_a_failed_selfcheck_is_open(tmp_path: Path) -> None:
    lines = (
        CheckLine.compared("load_client", 0.3, 0.1, 0.005, "s", "late", of="gap"),
        CheckLine.not_applicable("energy_counter", "no GPU"),
    )
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    found = document(selfcheck=lines)
    with open_archive(url) as archive:
        archive.record(found, uri="s3://x")
    with TestClient(create_app(archive_url=url, reports=tmp_path)) as client:
        text = client.get(f"/trials/{found.trial.trial_id}").text
    part = text[text.index('<section id="selfcheck">') :].split("</section>")[0]
    assert '<details class="phase" open>' in part and "0.3 s" in part and "0.005 s" in part and "not applicable" in part


def test_alone_it_is_withheld(tmp_path: Path) -> None:
    rows = [each for each in training_metrics() if each.metric != "model_flops"]
    found = document(metrics=rows, telemetry=sampled(utilization=0.9))
    part = page(tmp_path, found)
    assert "90" not in part and "90.0 %" not in part
    assert all(usage.why in part for usage in gpu_usages(found))
