"""Lines of JSON objects, among others: a metric's field is a path of keys."""

from __future__ import annotations

from typing import Any

from plumbline.formats.reading.command_output import Asked, CommandOutput, Output
from plumbline.formats.reading.lines import json_object, lines_of, numbers
from plumbline.formats.registry import register


@register
class JsonLines(CommandOutput):
    name = "jsonl"
    order = 110

    def read(self, text: str, asked: Asked) -> Output:
        """Lines that hold no object are skipped."""
        values: dict[str, list[float]] = {name: [] for name in asked.numbers}
        for line in filter(None, map(json_object, lines_of(text))):
            for name, each in asked.numbers.items():
                found: Any = line
                for key in asked.field(name).split("."):
                    found = found.get(key) if isinstance(found, dict) else None
                values[name] += numbers(found, each.scale)
        return Output(asked.rows(values, f"no line of JSON has any of {', '.join(values)}"))
