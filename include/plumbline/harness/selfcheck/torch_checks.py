"""`python -m plumbline.harness.selfcheck.torch_checks cpu|cuda ARCHITECTURE...`: the lines that need torch, as one line of JSON."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from plumbline.harness.selfcheck.lines import failed, not_applicable
from plumbline.results import CheckLine, CheckName


def main(device: str, *architectures: str) -> int:
    """Print the lines; 0 whatever they say."""
    from plumbline.harness.selfcheck.counted_flops import lines as counted

    with tempfile.TemporaryDirectory(prefix="plumbline-selfcheck-") as folder:
        found = _guarded("counted_flops", lambda: counted(Path(folder), architectures))
    if device == "cuda":
        from plumbline.harness.selfcheck import gpu

        found += _guarded("event_timer", lambda: [gpu.event_timer()]) + _guarded("energy_counter", lambda: [gpu.energy_counter()])
    else:
        found.append(not_applicable("energy_counter", "the harness counts no energy on a CPU"))
    sys.stdout.write(json.dumps([line.model_dump(mode="json") for line in found]) + "\n")
    return 0


def _guarded(check: CheckName, lines: Callable[[], list[CheckLine]]) -> list[CheckLine]:
    try:
        return lines()
    except Exception as error:  # noqa: BLE001 - whatever it is, the line says so and the others go on
        return [failed(check, f"{type(error).__name__}: {error}")]


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
