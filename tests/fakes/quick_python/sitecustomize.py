"""Python processes of tests take less CPU: this folder is on the PYTHONPATH that they inherit.

Imports make hundreds of thousands of objects that live for ever. By default Python looks at them again after every 700 new ones, and once more
when the process ends; here it starts and ends in two thirds of the time. Threads of PyTorch that wait for each other sleep: where other tests
are on the cores, they would spin longer than they compute.
"""

import atexit
import gc
import os

gc.set_threshold(100_000, 50, 100)
atexit.register(gc.freeze)
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
