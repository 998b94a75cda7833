"""Lines that match a pattern of the workload: a metric's field is a named group."""

from __future__ import annotations

import re

from plumbline.formats.reading.command_output import Asked, CommandOutput, Output
from plumbline.formats.reading.lines import lines_of, numbers
from plumbline.formats.registry import register


@register
class Regex(CommandOutput):
    name = "regex"
    order = 120
    has_pattern = True

    def check(self, asked: Asked) -> None:
        """Also ValueError for a pattern that does not compile, or lacks the group of a metric."""
        super().check(asked)
        try:
            groups = re.compile(asked.pattern or "").groupindex
        except re.error as error:
            raise ValueError(f"results.pattern is no regular expression ({error}); expected one of Python's re") from None
        if missing := [name for name in asked.numbers if asked.field(name) not in groups]:
            raise ValueError(f"results.pattern has no group for the metric {missing[0]}; expected such as (?P<{missing[0]}>[0-9.]+)")

    def read(self, text: str, asked: Asked) -> Output:
        """Alternatives of the pattern may match different lines."""
        pattern = re.compile(asked.pattern or "")
        values: dict[str, list[float]] = {name: [] for name in asked.numbers}
        for line in lines_of(text):
            for match in pattern.finditer(line):
                for name, each in asked.numbers.items():
                    values[name] += numbers(match[asked.field(name)], each.scale)
        return Output(asked.rows(values, f"no line matches {asked.pattern}"))
