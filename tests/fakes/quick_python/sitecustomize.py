"""Python processes of tests take less CPU: this folder is on the PYTHONPATH that they inherit.

Imports make hundreds of thousands of objects that live for ever. By default Python looks at them again after every 700 new ones, and once more
when the process ends; here it starts and ends in two thirds of the time. Threads of PyTorch that wait for each other sleep: where other tests
are on the cores, they would spin longer than they compute. Nothing waits for the disk to hold a small file, as a test's data need not survive a
power cut; the disk's own probes write large ones. Pydantic looks for no plugins among hundreds of installed packages.
"""

import atexit
import gc
import os

gc.set_threshold(100_000, 50, 100)
atexit.register(gc.freeze)
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

_to_disk, _LARGE = os.fsync, 2**20


def _quick_fsync(file: object) -> None:
    number = file if isinstance(file, int) else file.fileno()  # type: ignore[attr-defined]
    if os.fstat(number).st_size >= _LARGE:
        _to_disk(file)


os.fsync = _quick_fsync
