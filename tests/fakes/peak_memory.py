"""How much memory a piece of work takes over the idle process, as the kernel counts it: in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
# Not getrusage's ru_maxrss: across exec it keeps the peak of the process that started this one, and a large pytest would hide any growth.
_SCRIPT = """
import sys
sys.path.insert(0, {root!r})
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
{imports}
before = peak()
{work}
print("peak KiB", peak() - before)
"""


def peak_mib(imports: str, work: str) -> tuple[float, str]:
    """MiB by which the peak rose during `work`, after `imports`; and what the work printed."""
    script = _SCRIPT.format(root=str(_ROOT), imports=imports, work=work)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    said, _, peak = done.stdout.rpartition("peak KiB ")
    return int(peak) / 1024, said
