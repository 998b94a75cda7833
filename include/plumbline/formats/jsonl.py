"""Lines of JSON objects, among others: a metric's field is a path of keys."""

from __future__ import annotations

from typing import Any

from plumbline.formats.reading.command_output import CommandOutput, DeclaredNumbers, Output
from plumbline.formats.reading.lines import json_object, lines_of
from plumbline.formats.registry import register


@register
class JsonLines(CommandOutput):
    name = "jsonl"
    order = 110
    lines = r"^[^{]{0,200}\{"

    def read(self, text: str, declared: DeclaredNumbers) -> Output:
        """Lines that hold no object are skipped."""
        values: dict[str, list[float]] = {name: [] for name in declared.numbers}
        for line in filter(None, map(json_object, lines_of(text))):
            for name in declared.numbers:
                found: Any = line
                for key in declared.field(name).split("."):
                    found = found.get(key) if isinstance(found, dict) else None
                values[name] += declared.read(name, found)
        return Output(declared.rows(values, f"no line of JSON has any of {', '.join(values)}"))
