"""A GPU's event timer and its counter of energy. Needs torch with a device."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch

from plumbline.harness.gpu_meters import Meters, open_meters
from plumbline.harness.selfcheck.lines import compared, failed, not_applicable
from plumbline.results import CheckLine

_SPIN_S = 1.0
_SPIN_SHARE = 0.05
"""The clock is read every few milliseconds and may change between two readings."""
_WARM_S, _DRAWN_S = 2.0, 4.0
"""Power sensors of data-centre GPUs tell a mean over the last second: it must be steady before anything is compared."""
_ENERGY_SHARE = 0.10
_READ_EVERY_S = 0.02
_SIDE = 4096

Spin = Callable[[int, Callable[[], None]], float]
"""Keep the device busy for so many cycles and return the seconds by its events; the second argument is called meanwhile."""


def event_timer(spin: Spin | None = None, meters: Meters | None = None) -> CheckLine:
    """CUDA's events over a kernel that waits for a known number of the multiprocessors' cycles, at the clock that the driver tells meanwhile."""
    if torch.version.hip is not None and spin is None:
        return not_applicable("event_timer", "ROCm has no kernel whose length is counted in the multiprocessors' cycles", of="gpu")
    opened = meters or open_meters()
    if opened is None:
        return not_applicable("event_timer", "no driver library tells the GPU's clock", of="gpu")
    try:
        return _event_timer(spin or _spin, opened)
    finally:
        opened.close()


def _event_timer(spin: Spin, meters: Meters) -> CheckLine:
    clocks: list[float] = []

    def read() -> None:
        if "sm_clock" in (reading := meters.read(0)):
            clocks.append(reading["sm_clock"] * 1e6)

    # The clock rises with the first work: the one of a short spin sizes the one that counts.
    spin(100_000_000, read)
    if not clocks:
        return not_applicable("event_timer", "the driver does not tell the GPU's clock", of="gpu")
    cycles = int(clocks[-1] * _SPIN_S)
    clocks.clear()
    measured = spin(cycles, read)
    if not clocks:
        return failed("event_timer", "the GPU's clock was not readable while the kernel ran", of="gpu")
    expected = cycles / (sum(clocks) / len(clocks))
    reason = f"CUDA events over a kernel of {cycles:,} cycles, expected by the mean clock of {len(clocks)} readings"
    return compared("event_timer", measured, expected, _SPIN_SHARE * expected, "s", reason, of="gpu")


def _spin(cycles: int, meanwhile: Callable[[], None]) -> float:
    begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    begun.record()
    torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]
    ended.record()
    while not ended.query():  # type: ignore[no-untyped-call]
        meanwhile()
        time.sleep(_READ_EVERY_S)
    return float(begun.elapsed_time(ended)) / 1e3


def energy_counter(
    load: Callable[[], None] | None = None, meters: Meters | None = None, warm_s: float = _WARM_S, s: float = _DRAWN_S
) -> CheckLine:
    """The driver's counter over seconds of steady matrix products, against the power that it tells meanwhile, integrated."""
    opened = meters or open_meters()
    if opened is None:
        return not_applicable("energy_counter", "no driver library tells the GPU's power")
    try:
        if opened.joules(0) is None or "power" not in opened.read(0):
            return not_applicable("energy_counter", "the GPU tells not both its energy and its power")
        work = load or _products()
        _busy(work, opened, warm_s)
        first = opened.joules(0)
        samples = _busy(work, opened, s)
        last = opened.joules(0)
    finally:
        opened.close()
    if first is None or last is None:
        return failed("energy_counter", "the GPU's counter of energy stopped answering")
    expected = integrated(samples)
    reason = f"the driver's counter of energy, expected by the integral of {len(samples)} samples of its power"
    return compared("energy_counter", last - first, expected, _ENERGY_SHARE * expected, "J", reason)


def integrated(samples: Sequence[tuple[float, float]]) -> float:
    """Joules under (seconds, watts), by trapezoids."""
    return sum((t2 - t1) * (w1 + w2) / 2 for (t1, w1), (t2, w2) in pairwise(samples))


def _busy(work: Callable[[], None], meters: Meters, seconds: float) -> list[tuple[float, float]]:
    """(monotonic s, W) from the beginning to the end of so many seconds of work."""
    samples = [(time.monotonic(), meters.read(0)["power"])]
    while samples[-1][0] - samples[0][0] < seconds:
        work()
        samples.append((time.monotonic(), meters.read(0)["power"]))
    return samples


def _products() -> Callable[[], None]:
    one = torch.randn(_SIDE, _SIDE, device="cuda", dtype=torch.bfloat16)

    def work() -> None:
        for _ in range(8):
            torch.mm(one, one)
        torch.cuda.synchronize()

    return work
