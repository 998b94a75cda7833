"""Lines that match a pattern of the workload: a metric's field is a named group."""

from __future__ import annotations

from plumbline.formats.reading.command_output import CommandOutput, DeclaredNumbers, Output
from plumbline.formats.reading.lines import lines_of
from plumbline.formats.reading.pattern import compiled
from plumbline.formats.registry import register


@register
class Regex(CommandOutput):
    name = "regex"
    order = 120
    has_pattern = True

    def check(self, declared: DeclaredNumbers) -> None:
        """Also ValueError for a pattern that does not compile, or lacks the group of a metric."""
        super().check(declared)
        groups = compiled(declared.pattern or "").groups
        if missing := [name for name in declared.numbers if declared.field(name) not in groups]:
            raise ValueError(f"results.pattern has no group for the metric {missing[0]}; expected such as (?P<{missing[0]}>[0-9.]+)")

    def wanted(self, declared: DeclaredNumbers) -> str:
        """The declared pattern."""
        return declared.pattern or ""

    def read(self, text: str, declared: DeclaredNumbers) -> Output:
        """Alternatives of the pattern may match different lines."""
        pattern = compiled(declared.pattern or "")
        values: dict[str, list[float]] = {name: [] for name in declared.numbers}
        for line in lines_of(text):
            for match in pattern.finditer(line):
                for name in declared.numbers:
                    values[name] += declared.read(name, match[declared.field(name)])
        return Output(declared.rows(values, f"no line matches {declared.pattern}"))
