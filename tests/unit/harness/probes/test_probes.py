import pytest

from plumbline.harness.probes import disk, memory
from plumbline.harness.probes.matmul import ProbeFailed, _worker


def test_a_copy_moves_every_byte_and_has_a_plausible_rate():
    rate, n = memory.best_copy(8 * 2**20, 2)
    assert n >= 2
    assert 1e7 < rate < 1e13


def test_buffers_stay_within_memory():
    import psutil

    assert 0 < memory.buffer_bytes() <= psutil.virtual_memory().total // 8


def test_the_disk_probe_measures_and_leaves_nothing(tmp_path):
    (found,) = disk.rows(tmp_path)
    assert (found.metric, found.phase, found.statistic, found.n) == ("disk_write_bandwidth", "environment", "median", 3)
    assert found.value is not None
    assert found.value > 0
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        disk.rows(tmp_path / "not-there")


def test_a_failing_worker_says_what_it_said():
    with pytest.raises(ProbeFailed, match="--threads"):
        _worker("cpu", "many")


def test_products_are_counted_in_operations():
    import torch

    from plumbline.harness.probes.torch_worker import products

    rate, n = products(torch.device("cpu"), torch.float32, ((64, 32, 16),))
    assert n >= 3
    assert 1e6 < rate < 1e14
