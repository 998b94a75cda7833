import pytest

from plumbline.harness import probes
from plumbline.harness.probes import computing, disk, memory
from plumbline.harness.probes.computing import ProbeFailed


def test_a_copy_moves_every_byte_and_has_a_plausible_rate():
    rate, n = memory.best_copy(8 * 2**20, 2)
    assert n >= 2
    assert 1e7 < rate < 1e13


def test_buffers_stay_within_memory():
    import psutil

    assert 0 < memory.buffer_bytes() <= psutil.virtual_memory().total // 8


def test_the_disk_probe_measures_and_leaves_nothing(tmp_path):
    write, read = disk.rows(tmp_path)
    assert (write.metric, write.phase, write.statistic, write.n) == ("disk_write_bandwidth", "environment", "median", 3)
    assert write.value is not None
    assert write.value > 0
    assert read.metric == "disk_read_bandwidth"
    assert (read.value is None) == (read.n == 0)
    assert list(tmp_path.iterdir()) == []


def test_samples_are_read_as_batches_are(tmp_path):
    (found,) = disk.dataset_rows(tmp_path)
    assert found.metric == "dataset_read_bandwidth"
    assert (found.value is None) == (found.n == 0)
    assert found.n <= 64 * 2**20 // (16 * 2**10)
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_in_memory_has_no_disk_to_read_from():
    import tempfile
    from pathlib import Path

    memory_alone = Path("/dev/shm")
    if not memory_alone.is_mount():
        pytest.skip("no file system in memory here")
    with tempfile.TemporaryDirectory(dir=memory_alone) as folder:
        write, read = disk.rows(Path(folder))
        (dataset,) = disk.dataset_rows(Path(folder))
    assert write.value is not None
    assert (read.value, read.n, dataset.value, dataset.n) == (None, 0, None, 0)


def test_a_disk_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        disk.rows(tmp_path / "not-there")


def test_a_failing_worker_says_what_it_said(tmp_path):
    with pytest.raises(ProbeFailed, match="--threads"):
        computing.rows(["matmul"], "cpu", "many", 1, tmp_path)


def test_a_subset_is_measured_and_nothing_else(tmp_path):
    assert probes.run([0], tmp_path, only=()) == []
    assert {row.metric for row in probes.run([0], tmp_path, only=("disk",))} == {"disk_write_bandwidth", "disk_read_bandwidth"}
    # One rank has nobody to reduce with, and main memory is no device: nothing is started for them.
    assert probes.run([0], tmp_path, ranks=1, only=("all_reduce", "copy")) == []


def test_what_needs_torch_comes_from_a_process_of_its_own(tmp_path):
    rows = {row.metric: row for row in probes.run([0], tmp_path, ranks=2, only=("matmul", "all_reduce"))}
    assert set(rows) == {"matmul_tflops", "matmul_tflops_fp32", "matmul_tflops_bf16", "all_reduce_bus_bandwidth"}
    assert rows["matmul_tflops"].value == rows["matmul_tflops_fp32"].value
    assert all(row.value is not None and row.value > 1e3 and row.phase == "environment" for row in rows.values())
    assert list(tmp_path.iterdir()) == []


def test_ranks_that_cannot_meet_say_why(tmp_path, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "no-such-card")
    with pytest.raises(ProbeFailed, match=r"an all-reduce over 2 ranks failed: rank [01]: .*no-such-card"):
        computing.rows(["all_reduce"], "cpu", 2, 2, tmp_path)
    assert list(tmp_path.iterdir()) == []
