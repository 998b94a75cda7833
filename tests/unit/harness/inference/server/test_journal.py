"""What a model wrote down is there after its death."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from plumbline.harness.inference.models import journal
from plumbline.harness.inference.models.journal import Entries, Journal

DIES = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from journal import Journal
book = Journal(Path(sys.argv[2]))
book.started("0"); book.started("1"); book.finished("0")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.fault(
    "SIGKILL while the served model counts its requests", ends="both incarnations are counted", keeps="every request before the kill"
)
def test_it_survives_sigkill_and_tells_incarnations_apart(tmp_path: Path) -> None:
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", DIES, str(Path(journal.__file__).parent), str(tmp_path)], check=False).returncode == -9
    assert journal.read(tmp_path, {}) == [Entries((0, 1), (0,))] * 2


def test_reading_goes_on_where_it_stood(tmp_path: Path) -> None:
    book = Journal(tmp_path)
    book.started("7")
    before = journal.position(tmp_path)
    book.finished("7")
    book.started("8")
    book.started("warm-up")  # no number: somebody else's request
    assert journal.read(tmp_path, before) == [Entries((8,), (7,))]


def test_a_record_cut_off_did_not_happen(tmp_path: Path) -> None:
    Journal(tmp_path).started("3")
    file = next(tmp_path.iterdir())
    file.write_bytes(file.read_bytes() + b"\x02\x00\x00")
    assert journal.read(tmp_path, {}) == [Entries((3,), ())]


def test_an_id_that_is_no_number_of_ours_is_left_out(tmp_path: Path) -> None:
    """Other clients give names, or count from beyond what a record holds."""
    journal = Journal(tmp_path)
    for request_id in ("7", "a-name", "", str(2**31), str(2**63)):
        journal.started(request_id)
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size == 8
