"""How long a backward waited for other ranks: by the clock on a CPU, by a GPU's own events, here simulated ones."""

from __future__ import annotations

import time

import pytest
import torch

from plumbline.harness.training.distributed.waits import Waits

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
    waits = Waits(torch.device("cuda", 0))
    assert waits.until_now() is None
    for given in (1.0, 4.0):  # two layers' gradients
        stream.given_ms = given
        waits.own_gradients_are_there()
    stream.given_ms = 11.0
    waited = waits.until_now()
    stream.given_ms = 50.0
    assert waited is not None and waited() == 7 * MS
    assert waits.until_now() is None


def test_on_a_cpu_by_the_clock() -> None:
    waits = Waits(torch.device("cpu"))
    assert waits.until_now() is None
    waits.own_gradients_are_there()
    time.sleep(0.01)
    waited = waits.until_now()
    time.sleep(0.01)
    assert waited is not None
    first = waited()
    assert 10 * MS <= first == waited() < 60_000 * MS
    assert waits.until_now() is None
