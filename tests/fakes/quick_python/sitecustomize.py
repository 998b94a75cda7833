"""Python processes of tests start and end in two thirds of the CPU time: this folder comes first on the PYTHONPATH that they inherit.

Imports make hundreds of thousands of objects that live for ever. By default Python looks at them again after every 700 new ones, and once more
when the process ends.
"""

import atexit
import gc

gc.set_threshold(100_000, 50, 100)
atexit.register(gc.freeze)
