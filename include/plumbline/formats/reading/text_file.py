"""The lines of a text file and the objects of JSON and JSON lines, each with its place for messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TextIO


class UnusableFile(ValueError):
    """A file that cannot be used. The message has file, line, field and what was expected, and never text of a prompt.

    `field`: of the section that names the file, what is wrong; empty if it is the file."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


MAX_LINE = 1 << 20
"""Characters of one line of a table: a file without line ends is not read into memory as one."""


def short_lines(file: TextIO, name: str) -> Iterator[str]:
    """The lines of an open text file with their ends, one at a time. UnusableFile for one of more than MAX_LINE characters."""
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise UnusableFile(f"{name}:{number} has more than {MAX_LINE:,} characters; expected a table with a line end after each row")
        yield line


def text_lines(text: str) -> Iterator[tuple[int, str]]:
    """(number from 1, line) of the lines that hold something."""
    # By \n alone: splitlines would also cut at characters that JSON strings and prompts may hold.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line.removesuffix("\r")


def json_problem(error: ValueError | RecursionError) -> tuple[int, str]:
    """Line and problem of what `json.loads` refuses: also text nested too deeply, and integers with more digits than Python converts."""
    return (error.lineno, error.msg) if isinstance(error, json.JSONDecodeError) else (1, str(error))


def json_lines(text: str, name: str, expected: str = "one object a line") -> Iterator[tuple[str, int, Any]]:
    """Place, number and value of each line. UnusableFile, with what was `expected`, for one that is not JSON."""
    for number, line in text_lines(text):
        try:
            yield f"{name}:{number}", number, json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UnusableFile(f"{name}:{number} is not JSON ({json_problem(error)[1]}); expected {expected}") from None


def json_array(text: str, name: str) -> Iterator[tuple[str, int, Any]]:
    """Place, number from 1 and value of each item of a JSON array. UnusableFile if it is none."""
    try:
        items = json.loads(text)
    except (ValueError, RecursionError) as error:
        line, why = json_problem(error)
        raise UnusableFile(f"{name}:{line} is not JSON ({why}); expected an array of objects") from None
    if not isinstance(items, list):
        raise UnusableFile(f"{name} is not a JSON array; expected one of objects, or a .jsonl file")
    for number, item in enumerate(items, start=1):
        yield f"{name}[{number - 1}]", number, item
