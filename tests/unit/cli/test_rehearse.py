"""`plumbline rehearse`: an archive of its own, marked; and what it refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from plumbline.archive import open_archive
from plumbline.declarations.installation import override_home


def test_a_month_is_rehearsed_apart_from_what_is_measured(home: Path, said: Callable[..., Any]) -> None:
    found, code = said(
        "rehearse", "--provider", "simulated-2core", "--campaigns", "2026-02", "--workload", "gpt-tiny-cpu", "--repeats", "2"
    )
    assert code == 0
    assert [(one["campaign_id"], one["provider"], one["statuses"]) for one in found] == [
        ("2026-02", "simulated-2core", {"valid": found[0]["trials"]})
    ]
    assert (home / "rehearsal" / "archive.db").exists() and not (home / "archive.db").exists()


@pytest.mark.fault("two rehearsals in one folder at once", ends="the second is refused", keeps="the first's trials")
def test_a_second_rehearsal_in_the_same_folder_waits_for_nothing_and_says_so(home: Path, plumbline: Callable[..., Result]) -> None:
    with override_home(home / "rehearsal"), open_archive() as archive, archive.alone("rehearsal", 0.0) as first:
        assert first
        result = plumbline("rehearse", "--provider", "simulated-2core", "--campaigns", "2026-02", "--home", str(home / "rehearsal"))
    assert result.exit_code == 2 and "another rehearsal runs" in result.stderr.replace("\n", " ")


def test_what_is_not_simulated_is_refused(plumbline: Callable[..., Result]) -> None:
    result = plumbline("rehearse", "--provider", "local-2core")
    assert result.exit_code == 2 and '"local-2core" is local' in result.stderr


def test_the_future_is_refused(plumbline: Callable[..., Result]) -> None:
    result = plumbline("rehearse", "--campaigns", "2999-01")
    assert result.exit_code == 2 and "2999-01" in result.stderr


def test_a_workload_that_nobody_knows_and_a_home_that_is_a_file_are_named(plumbline: Callable[..., Result], tmp_path: Path) -> None:
    month = ("rehearse", "--provider", "simulated-2core", "--campaigns", "2026-02")
    result = plumbline(*month, "--workload", "nope")
    assert result.exit_code == 2 and "nope" in result.stderr and "simulated-2core" in result.stderr
    (tmp_path / "file").touch()
    result = plumbline(*month, "--home", str(tmp_path / "file"))
    assert result.exit_code == 2 and str(tmp_path / "file") in result.stderr.replace("\n", "")


@pytest.mark.full
def test_a_simulated_node_of_gpus_rehearses_the_standard_set_without_naming_it(home: Path, said: Callable[..., Any]) -> None:
    ((one,), _) = said("rehearse", "--provider", "simulated-h100", "--campaigns", "2026-02", "--repeats", "1")
    assert one["trials"] == 4 * 3, "four workloads in three slots"
