"""What a trial prints: whole lines, a file with a limit, a short tail for people."""

from __future__ import annotations

import io
from typing import IO

from plumbline.launch.local.process import TrialOutput


def output(file: IO[bytes], told: list[str]) -> TrialOutput:
    def tell(line: str) -> bool:
        told.append(line)
        return line.startswith("progress")

    return TrialOutput(file, tell)


def test_lines_are_told_whole_however_they_arrive() -> None:
    told: list[str] = []
    file = io.BytesIO()
    printed = output(file, told)
    for piece in (b"on", b"e\ntw", b"o\nthree \xc3", b"\xa9"):
        printed.feed(piece)
    printed.close()
    lines = ["one", "two", "three é"]
    assert told == lines
    assert file.getvalue().decode() == printed.tail == "\n".join(lines)


def test_the_tail_is_short_and_of_whole_lines_for_people() -> None:
    printed = output(io.BytesIO(), [])
    printed.feed(("é" * 5000 + "\n").encode())
    for i in range(2000):
        printed.feed(f"line {i}\n".encode())
    assert len(printed.tail.encode()) <= 4096
    assert printed.tail.startswith("line ")
    for i in range(2000):
        printed.feed(f"progress {i}\n".encode())
    assert printed.tail.endswith("line 1999"), "progress does not push the last words out"


def test_a_flood_without_line_ends_does_not_fill_the_memory() -> None:
    told: list[str] = []
    file = io.BytesIO()
    printed = output(file, told)
    for _ in range(64):
        printed.feed(b"x" * 65536)
    printed.feed(b"\nafter\n")
    assert told[-1] == "after"
    assert max(map(len, told)) <= 2 * 65536
    assert len(printed.tail.encode()) <= 4096
    assert len(file.getvalue()) == 64 * 65536 + 7
