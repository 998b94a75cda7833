"""The lock that gives an exclusive test the machine for itself."""

from __future__ import annotations

import fcntl
import threading
import time
import uuid
from collections.abc import Iterator

import pytest
from tests.fakes.exclusive_lock import ExclusiveLock


@pytest.fixture
def lock() -> Iterator[ExclusiveLock]:
    made = ExclusiveLock(uuid.uuid4().hex)
    yield made
    made.remove()


def test_shared_holders_do_not_wait_for_each_other(lock: ExclusiveLock) -> None:
    with lock.hold(exclusive=False), lock.hold(exclusive=False):
        pass


def test_an_exclusive_holder_waits_for_the_shared_one_and_precedes_later_ones(lock: ExclusiveLock) -> None:
    order: list[str] = []

    def take(exclusive: bool) -> None:
        with lock.hold(exclusive=exclusive):
            order.append("exclusive" if exclusive else "shared")

    threads = [threading.Thread(target=take, args=(exclusive,)) for exclusive in (True, False)]
    with lock.hold(exclusive=False):
        threads[0].start()
        while not _held(lock):
            time.sleep(0.01)
        threads[1].start()
        assert order == []
    for thread in threads:
        thread.join(60)
    assert order == ["exclusive", "shared"]


def _held(lock: ExclusiveLock) -> bool:
    with lock.gate.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
