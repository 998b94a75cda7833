"""A fault is one file of `harness/faults`; no other code of a trial or its launcher knows one by its name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

import plumbline
from plumbline.declarations.workloads.training import Fault
from plumbline.harness import faults
from plumbline.harness.training import fault
from plumbline.harness.training.fault import FaultKind, fault_kind, register

PACKAGE = Path(plumbline.__file__).parent
DECLARED = {one.model_fields["inject"].annotation: one for one in get_args(get_args(Fault)[0])}
KNOWN_IN = {
    "declarations/providers/launchers.py",  # its word in the description of launcher.volume_claim
    "declarations/workloads/faults.py",
    "harness/faults/pod_delete.py",
}


def knowing(sources: dict[str, str]) -> set[str]:
    """The files whose text has the name of the fault that replaces pods."""
    return {name for name, text in sources.items() if re.search(r"pod_delete\b", text)}


def test_each_declared_fault_is_a_file_that_registers_it() -> None:
    names = {get_args(annotation)[0] for annotation in DECLARED}
    files = {path.stem for path in Path(faults.__path__[0]).glob("*.py")} - {"__init__"}
    assert files == names
    assert {fault_kind(name).name for name in names} == names
    assert len({fault_kind(name).event for name in names}) == len(names)


def test_no_other_code_knows_the_fault_that_replaces_pods() -> None:
    sources = {str(path.relative_to(PACKAGE)): path.read_text() for path in PACKAGE.rglob("*.py")}
    assert knowing(sources) == KNOWN_IN


def test_a_planted_name_is_found() -> None:
    assert knowing({"a.py": 'if fault.inject == "pod_delete":', "b.py": "pod_deletions"}) == {"a.py"}


def test_a_new_fault_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy_stop.py").write_text(
        """
from plumbline.harness.training.fault import register
from plumbline.harness.training.job.job_fault import JobFault


@register
class ToyStop(JobFault):
    name, event = "toy_stop", "toy_stopped"

    def strike(self, held):
        return 1.0, 2.0
"""
    )
    monkeypatch.setattr(faults, "__path__", [*faults.__path__, str(tmp_path)])
    monkeypatch.setattr(fault, "_REGISTERED", dict(fault._REGISTERED))
    kind = fault_kind("toy_stop")
    assert (kind.event, kind.detected) == ("toy_stopped", "rank_death_detected")
    with pytest.raises(LookupError, match="no file of harness/faults is called toy_go"):
        fault_kind("toy_go")

    class Second(FaultKind):
        name, event = "toy_stop", "other"

    with pytest.raises(ValueError, match="a fault is called toy_stop already"):
        register(Second)
