"""Reference pages made from the code: commands, configuration, metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from typer.core import TyperGroup

from plumbline.cli.app import COMMANDS, load_command
from plumbline.cli.examples import EXAMPLES
from plumbline.declarations.loader import FILES
from plumbline.declarations.loader import FOLDERS as DECLARED_IN
from plumbline.metrics import METRICS


def commands() -> str:
    """Every command with its arguments and options, from the Typer app."""
    lines = ["# Every command", "", "Each also takes `--help`. [Command line](../command-line.md) groups them by task.", ""]
    for name in COMMANDS:
        lines += _command(f"plumbline {name}", load_command(name))
    return "\n".join(lines) + "\n"


def _command(path: str, command: Any) -> Iterator[str]:
    if isinstance(command, TyperGroup):
        yield from (f"## {path}", "", command.help or "", "")
        for name, found in command.commands.items():
            yield from _command(f"{path} {name}", found)
        return
    level = "##" if path.count(" ") == 1 else "###"
    yield from (f"{level} {path}", "", (command.help or "").replace("\b", "").strip(), "")
    rows = []
    for each in command.params:
        if getattr(each, "hidden", False) or each.name == "help":
            continue
        optional = each.param_type_name == "option"
        name = ", ".join((*each.opts, *each.secondary_opts)) if optional else (each.metavar or str(each.name).upper())
        default = each.default if isinstance(each.default, (str, int, float)) and not isinstance(each.default, bool) else ""
        needed = "required" if each.required else f"default {default}" if default != "" else ""
        rows.append((f"`{name}`", _cell(getattr(each, "help", None) or ""), needed))
    if rows:
        yield from (_table(("argument or option", "meaning", ""), rows), "")
    if example := EXAMPLES.get(path.removeprefix("plumbline ")):
        yield from (f"    plumbline {example.line}", "", f"Then: {_cell(example.then)}.", "")


def configuration() -> str:
    """Every key of every declaration, from its model."""
    lines = [
        "# Configuration",
        "",
        "Every key of every file below `include/config`. `plumbline check` validates them; the pages under *Measure* show whole files.",
        "",
    ]
    described: set[str] = set()
    for name, model in [*((f"{folder}/NAME.yaml", model) for folder, model in DECLARED_IN), *FILES.items()]:
        schema = model.model_json_schema(mode="validation")
        lines += [f"## {name}", ""]
        lines += _keys(model.__name__, schema)
        for part, found in schema.get("$defs", {}).items():
            if part not in described and found.get("properties"):
                described.add(part)
                lines += [f"### {part}", "", *_keys(part, found)]
    return "\n".join(lines) + "\n"


def _keys(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    needed = set(schema.get("required", ()))
    rows = []
    for key, found in schema.get("properties", {}).items():
        value = found.get("default")
        default = (
            "required"
            if key in needed
            else ""
            if value in (None, "", [])
            else f"`{str(value).lower() if isinstance(value, bool) else value}`"
        )
        rows.append((f"`{key}`", _type(found), default, _cell(found.get("description", ""))))
    yield from (_table(("key", "value", "default", "meaning"), rows), "")


def _type(found: Mapping[str, Any]) -> str:
    if "$ref" in found:
        return f"`{found['$ref'].rsplit('/', 1)[1]}`"
    for several in ("anyOf", "oneOf"):
        if several in found:
            return " or ".join(dict.fromkeys(_type(each) for each in found[several] if each.get("type") != "null"))
    if "const" in found:
        return f"`{found['const']}`"
    if "enum" in found:
        return ", ".join(f"`{each}`" for each in found["enum"])
    if found.get("type") == "array":
        return f"list of {_type(found['items'])}" if isinstance(found.get("items"), dict) else "list"
    if found.get("type") == "object":
        inner = found.get("additionalProperties")
        return f"map to {_type(inner)}" if isinstance(inner, dict) else "map"
    return str(found.get("type", "any"))


def metrics() -> str:
    """The catalogue of metrics, by group."""
    lines = [
        "# Metrics",
        "",
        "The catalogue of `include/plumbline/metrics/catalogue.toml`. `warn` and `page` are the smallest change that a finding reports, as a share.",
        "",
    ]
    for group in dict.fromkeys(each.group for each in METRICS.values()):
        rows = [
            (
                f"`{each.name}`",
                each.unit,
                each.statistic,
                each.direction.replace("_", " "),
                *(f"{limit:.0%}" if limit else "" for limit in (each.warn, each.page)),
                _cell(each.description),
            )
            for each in METRICS.values()
            if each.group == group
        ]
        lines += [
            f"## {group.replace('_', ' ').capitalize()}",
            "",
            _table(("metric", "unit", "statistic", "better", "warn", "page", "what it is"), rows),
            "",
        ]
    return "\n".join(lines) + "\n"


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    return "\n".join([f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}", *(f"| {' | '.join(row)} |" for row in rows)])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


PAGES = {"commands.md": commands, "configuration.md": configuration, "metrics.md": metrics}
