"""Run in a mount namespace of its own: a small disk that is filled to its last bytes at each step from a finished trial to its report.

`python -m tests.fakes.filled_disk MOUNT`: prints one JSON line for each time the disk was full, {"room", "step", "error", "sentence",
"left": half-written files}, and at the end {"done": trials in the archive, "broken": what verify names}.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOMS = (0, 49152)


def main(mount: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(mount)], check=True)
    os.environ["PLUMBLINE_HOME"] = str(mount)
    from tests.fakes.trials import CONFIG
    from tests.unit.workflows.test_record import measured

    from plumbline.archive import open_archive
    from plumbline.launch import stores
    from plumbline.launch.plan import RunRequest
    from plumbline.workflows import collect, plan_trials, record, validate
    from plumbline.workflows.plan import TRIAL_GROUPS
    from plumbline.workflows.report import write_report

    os.environ["PLUMBLINE_CONFIG"] = str(CONFIG)
    open_archive().close()
    for number, room in enumerate(ROOMS):
        campaign = f"full-{number}"
        retry = partial(_tried, mount, room)
        (spec,) = retry(
            "plan", partial(plan_trials.plan_trials, "local-1core", TRIAL_GROUPS["training"], RunRequest(campaign, "a test", repeats=1))
        )
        trial = stores.planned_trial(stores.home(), spec)
        retry("announce", partial(stores.home().put_trial, trial))
        retry("document", partial(stores.home().put_document, measured(trial)))
        retry("collect", partial(collect.collect_trial, spec))
        (checked,) = retry("validate", partial(validate.validate_group, "local-1core", "training", [spec]))
        retry("record", lambda checked=checked: record.record_group([checked]).require_all())
        retry("report", partial(write_report, campaign))
    with open_archive() as archive:
        sys.stdout.write(f"{json.dumps({'done': len(archive.trials()), 'broken': archive.verify()})}\n")


def _tried(mount: Path, room: int, step: str, action: Callable[[], Any]) -> Any:
    """The step on a disk with `room` bytes left; again with room once it failed."""
    from plumbline.declarations import installation

    filler = mount / "filler"
    _fill(filler, mount, room)
    try:
        return action()
    except Exception as error:  # noqa: BLE001 - what it is is what is tested
        filler.unlink()
        left = [
            str(f.relative_to(mount))
            for f in mount.rglob("*")
            if f.name.endswith((".part", ".new")) or (f.suffix == ".json" and not f.stat().st_size)
        ]
        said = {"room": room, "step": step, "error": repr(error), "sentence": installation.full_disk_message(error), "left": left}
        sys.stdout.write(f"{json.dumps(said)}\n")
        return action()
    finally:
        filler.unlink(missing_ok=True)


def _fill(filler: Path, mount: Path, room: int) -> None:
    free = os.statvfs(mount).f_bavail * os.statvfs(mount).f_frsize
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(free - room, 1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
