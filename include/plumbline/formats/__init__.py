"""Formats of what other programs write, one file a format. A new file with `@register` is all that a format needs.

registry        formats by name; `register`
reading         what formats share: checked fields, runs and their gaps, the base class of each kind of format
access_logs     one log of requests each (`AccessLogFormat`), which becomes a workload
training_logs   one program's log each (`TrainingLog`), from which a script's steps are read
the others      one format each: a tool's file (`ToolFile`), a command's output (`CommandOutput`), or a publisher's table (`PublishedTable`)
"""

from typing import TYPE_CHECKING

from plumbline.on_demand import names_on_demand

if TYPE_CHECKING:
    from plumbline.formats.reading.command_output import COMMAND_OUTPUTS, CommandOutput, DeclaredNumbers, Output, UnreadableOutput
    from plumbline.formats.reading.fields import Fields, UnreadableFile
    from plumbline.formats.reading.published_table import PublishedRun, PublishedTable, RejectedRow
    from plumbline.formats.reading.run import BenchmarkFile, Gap, Load, Run
    from plumbline.formats.reading.tool_file import TOOL_FILES, JsonFile, OtherJson, OtherText, TextFile, ToolFile, read_benchmark_file
    from plumbline.formats.registry import Format, register
else:
    __getattr__ = names_on_demand(__name__)

__all__ = [
    "COMMAND_OUTPUTS",
    "TOOL_FILES",
    "BenchmarkFile",
    "CommandOutput",
    "DeclaredNumbers",
    "Fields",
    "Format",
    "Gap",
    "JsonFile",
    "Load",
    "OtherJson",
    "OtherText",
    "Output",
    "PublishedRun",
    "PublishedTable",
    "RejectedRow",
    "Run",
    "TextFile",
    "ToolFile",
    "UnreadableFile",
    "UnreadableOutput",
    "read_benchmark_file",
    "register",
]
