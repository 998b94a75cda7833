"""A command's output: lines, bounds, secrets."""

from __future__ import annotations

import io

import pytest

from plumbline.harness.training.script.output import KEPT_BYTES, ScriptOutput


def test_lines_come_whole_and_a_carriage_return_ends_one() -> None:
    kept = io.BytesIO()
    output = ScriptOutput(kept, {})
    assert output.lines(b"one\ntw") == ["one"]
    assert output.lines(b"o\r 10%\r\nthree") == ["two", " 10%"]
    assert output.close() == ["three"]
    assert kept.getvalue() == b"one\ntwo\n 10%\nthree\n"


def test_a_line_without_an_end_is_taken_in_parts() -> None:
    output = ScriptOutput(io.BytesIO(), {})
    assert sum(map(len, output.lines(b"x" * 200_000))) == 196_608
    assert len(output.close()[0]) == 200_000 - 196_608


@pytest.mark.fault("a training script writes more output than a disk holds", ends="valid", keeps="the first and the last MiB of it")
def test_of_much_output_the_beginning_and_the_end_are_kept() -> None:
    kept = io.BytesIO()
    output = ScriptOutput(kept, {})
    for number in range(40):
        output.lines(b"".join(b"%08d\n" % (number * 10_000 + line) for line in range(10_000)))
    output.close()
    lines = kept.getvalue().splitlines()
    assert len(kept.getvalue()) < 2 * KEPT_BYTES + 100
    assert (lines[0], lines[-1]) == (b"00000000", b"00399999")
    (gap,) = [line for line in lines if b"left out" in line]
    assert int(gap.split()[1]) == 40 * 10_000 * 9 - (len(kept.getvalue()) - len(gap) - 1)


def test_lines_that_may_hold_a_result_are_kept_wherever_they_come() -> None:
    kept = io.BytesIO()
    output = ScriptOutput(kept, {}, r"^p99 \d+")
    padding = b"padding of a line of output\n" * 80_000
    output.lines(padding + b"p99 7\n" + padding)
    output.close()
    assert b"\np99 7\n" in kept.getvalue() and b"left out" in kept.getvalue()


def test_values_of_secrets_are_in_no_line_that_is_kept() -> None:
    kept = io.BytesIO()
    output = ScriptOutput(kept, {"HF_TOKEN": "hf_abcdef", "AWS_SECRET_ACCESS_KEY": "q/w+e=", "KEYBOARD": "us", "HOME": "/home/her"})
    assert output.lines(b"token hf_abcdef q/w+e= us /home/her\n") == ["token hf_abcdef q/w+e= us /home/her"], "a reader sees what is there"
    output.close()
    assert kept.getvalue() == b"token *** *** us /home/her\n"
    assert output.last_lines() == "token *** *** us /home/her"


def test_the_last_lines_are_twenty_and_short() -> None:
    output = ScriptOutput(io.BytesIO(), {})
    output.lines(b"".join(b"%d %s\n" % (number, b"x" * 1000) for number in range(30)))
    lines = output.last_lines().splitlines()
    assert [line.split()[0] for line in lines] == [str(number) for number in range(10, 30)]
    assert max(map(len, lines)) == 300
