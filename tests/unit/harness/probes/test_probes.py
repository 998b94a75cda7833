import errno
import os
import sys

import pytest

from plumbline.harness import probes
from plumbline.harness.probes import disk, memory


def test_a_copy_moves_every_byte_and_has_a_plausible_rate():
    rate, n = memory.best_copy(8 * 2**20, 2)
    assert n >= 2
    assert 1e7 < rate < 1e13


def test_buffers_stay_within_memory():
    import psutil

    assert 0 < memory.buffer_bytes() <= psutil.virtual_memory().total // 8


def test_the_disk_probe_measures_and_leaves_nothing(tmp_path):
    write, read = disk.disk_rows(tmp_path)
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
        write, read = disk.disk_rows(Path(folder))
        (dataset,) = disk.dataset_rows(Path(folder))
    assert write.value is not None
    assert (read.value, read.n, dataset.value, dataset.n) == (None, 0, None, 0)


def test_a_disk_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        disk.disk_rows(tmp_path / "not-there")


def test_large_files_are_written_in_streams_and_leave_nothing(tmp_path):
    found = disk.measure_streams(tmp_path, 32 * 2**20, streams=2)
    assert found.write > 0 and found.method.startswith("2 streams, ")
    assert found.read is None or found.read > 0
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_direct_io_is_measured_and_named(tmp_path, monkeypatch):
    opened = os.open

    def without_direct(path, flags, *more, **named):
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(path))
        return opened(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", without_direct)
    found = disk.measure_streams(tmp_path, 16 * 2**20, streams=1)
    assert found.write > 0 and "buffered" in found.method
    assert list(tmp_path.iterdir()) == []


def test_slow_disks_are_measured_for_a_while_alone(tmp_path):
    found = disk.measure_streams(tmp_path, 10 * 2**30, streams=1, seconds=0.0)
    assert found.method.endswith("0.00781 GiB")


@pytest.mark.fault("the disk fills during the disk probe", ends="the probe's reason", keeps="the trial; no file is left")
def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "write", lambda *_: 0)
    with pytest.raises(OSError, match="No space left"):
        disk.measure_streams(tmp_path, 16 * 2**20)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_costs_the_disks_rows_alone(tmp_path):
    rows = {row.metric: row for row in probes.run([0], tmp_path / "not-there", only=("disk", "memory"))}
    assert rows["memory_bandwidth"].value > 0
    assert (rows["disk_write_bandwidth"].value, "No such file" in rows["disk_write_bandwidth"].reason) == (None, True)


def test_a_subset_is_measured_and_nothing_else(tmp_path):
    assert probes.run([0], tmp_path, only=()) == []
    assert {row.metric for row in probes.run([0], tmp_path, only=("disk",))} == {"disk_write_bandwidth", "disk_read_bandwidth"}
    # One rank has nobody to reduce with, and main memory is no device: nothing is started for them.
    assert probes.run([0], tmp_path, ranks=1, only=("all_reduce", "copy")) == []


def test_what_needs_torch_comes_from_a_process_of_its_own(tmp_path):
    rows = {row.metric: row for row in probes.run([0], tmp_path, ranks=2, only=("matmul", "all_reduce"))}
    measured = {"matmul_tflops", "matmul_tflops_fp32", "matmul_tflops_bf16", "all_reduce_bus_bandwidth"}
    assert {metric for metric, row in rows.items() if row.value is not None} == measured
    assert rows["matmul_tflops"].value == rows["matmul_tflops_fp32"].value
    assert all(rows[metric].value > 1e3 and rows[metric].phase == "environment" for metric in measured)
    assert all(row.reason.startswith(probes.NOT_COMPUTED) for metric, row in rows.items() if metric not in measured)
    assert rows["matmul_tflops_fp8"].reason
    assert list(tmp_path.iterdir()) == []


def broken(monkeypatch, plant):
    """A worker in which something was broken before it begins."""
    script = f"exec({plant!r}); from plumbline.harness.probes.worker import main; main()"
    monkeypatch.setattr(probes, "command", lambda: [sys.executable, "-c", script])


@pytest.mark.parametrize(
    ("probe", "plant", "reason"),
    [
        pytest.param(
            *("all_reduce", "import os; os.environ['GLOO_SOCKET_IFNAME'] = 'no-such-card'", "no-such-card"), marks=pytest.mark.full
        ),
        ("matmul", "import torch\ndef f(*a, **k): raise RuntimeError('no kernel image')\ntorch.matmul = f", "no kernel image"),
        pytest.param("matmul", "import sys; sys.modules['torch'] = None", "torch", marks=pytest.mark.full),
        ("memory", "import numpy\ndef f(*a, **k): raise MemoryError('no room')\nnumpy.copyto = f", "no room"),
        ("disk", "import os\ndef f(*a): raise OSError(28, 'No space left on device')\nos.fsync = f", "No space left"),
        ("dataset", "import os, random\nrandom.Random = lambda _: os._exit(9)", "exit code 9"),
    ],
)
def test_each_probe_fails_alone_and_says_why(tmp_path, monkeypatch, probe, plant, reason):
    beside = "memory" if probe in ("disk", "dataset") else "disk"
    broken(monkeypatch, plant + ("\nimport plumbline.harness.probes.disk as d; d.is_cold = lambda _: True" if probe == "dataset" else ""))
    rows = probes.run([0], tmp_path, ranks=2, only=(probe, beside))
    of_it = [row for row in rows if row.metric.startswith(("matmul", "all_reduce") if probe in ("matmul", "all_reduce") else probe)]
    failed = [row for row in of_it if not (row.reason or "").startswith(probes.NOT_COMPUTED)]
    assert failed and {row.value for row in failed} == {None}
    assert all(reason in row.reason for row in failed), failed
    assert next(row for row in rows if row.metric in ("memory_bandwidth", "disk_write_bandwidth") and row not in of_it).value > 0
    assert list(tmp_path.iterdir()) == []
