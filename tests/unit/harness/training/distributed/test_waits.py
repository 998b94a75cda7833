"""How long a backward waited for other ranks: by the clock on a CPU, by a GPU's own events, here simulated ones."""

from __future__ import annotations

import time

import pytest
import torch

from plumbline.harness.training.distributed.process_group import GradientWait

MS = 1_000_000


class Stream:
    """A device that has been given so much work."""

    given_ms = 0.0


class Event:
    """As much of `torch.cuda.Event` as is called."""

    def __init__(self, enable_timing: bool = False) -> None:
        assert enable_timing

    def record(self, stream: Stream) -> None:
        self.at_ms = stream.given_ms

    def elapsed_time(self, other: Event) -> float:
        return other.at_ms - self.at_ms


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Stream:
    device = Stream()
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "default_stream", lambda device_: device)
    return device


def test_on_a_gpu_the_last_gradient_counts_and_each_backward_for_itself(stream: Stream) -> None:
    waits = GradientWait(torch.device("cuda", 0))
    assert waits.elapsed() is None
    for given in (1.0, 4.0):  # two layers' gradients
        stream.given_ms = given
        waits.mark_gradients_ready()
    stream.given_ms = 11.0
    waited = waits.elapsed()
    stream.given_ms = 50.0
    assert waited is not None and waited() == 7 * MS
    assert waits.elapsed() is None


def test_on_a_cpu_by_the_clock() -> None:
    waits = GradientWait(torch.device("cpu"))
    assert waits.elapsed() is None
    waits.mark_gradients_ready()
    time.sleep(0.01)
    waited = waits.elapsed()
    time.sleep(0.01)
    assert waited is not None
    first = waited()
    assert 10 * MS <= first == waited() < 60_000 * MS
    assert waits.elapsed() is None
