"""Every place that reads what others send: bytes have a bound, numbers and moments come from one place, patterns have a time limit.

The places are found in the sources, so that a new one is covered by itself; those that are exempt say why."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, get_args

import pytest
from pydantic import ValidationError
from tests.source_trees import source_tree

import plumbline
from plumbline.declarations.base import Declared, DeclaredPattern
from plumbline.formats.reading import foreign_number, pattern

SOURCES = Path(plumbline.__file__).parent
_NETWORK = {"http", "urllib", "urllib3", "httpx", "requests", "aiohttp", "fsspec", "huggingface_hub", "kubernetes"}
_WHOLE = {"extractall", "readall", "urlopen", "read_parquet"}
_INFLATE = {"zlib", "gzip", "bz2", "lzma", "zstandard", "brotli"}

_OWN_AIRFLOW = "the installation's own Airflow"
EXEMPT_BODIES = {
    "airflow/health.py": _OWN_AIRFLOW,
    "embedded/client.py": _OWN_AIRFLOW,
    "embedded/doctor/airflow.py": _OWN_AIRFLOW,
    "embedded/doctor/machine.py": _OWN_AIRFLOW,
    "embedded/server.py": _OWN_AIRFLOW,
    "results/bounded_parquet.py": "the one reader of Parquet, which checks rows and bytes",
}
EXEMPT_NUMBERS = {
    "formats/reading/foreign_number.py": "the one place",
    "formats/reading/lines.py": "asks only whether it is finite, before the one place",
    "formats/reading/records.py": "the day in the file's own zone, of a text that the one place took",
    "formats/access_logs/vllm.py": "two digits each of a month and a day, in a year of its own",
    "formats/perf_analyzer.py": "cells, of which Fields.number takes those that are read",
    "formats/vllm_bench.py": "four digits of a year, whose day the one place takes",
    "harness/training/script/data.py": "bytes that the harness counted",
    "harness/training/script/event_files.py": "a loss may be no number; reported() bounds the rest",
    "harness/training/script/reports.py": "a loss may be no number; reported() bounds the rest",
    "price_sources/gpuhunt_catalog.py": "a time of the file system, and eight digits of a date",
    "workflows/workload_from_log.py": "seconds between moments that the one place took",
}
DOORS = ("formats", "price_sources", "harness/training/script", "workflows/compare_invoice.py", "workflows/workload_from_log.py")
"""Rooms and files whose input others write."""


def calls(source: str) -> Iterator[tuple[ast.Call, str, str]]:
    """Each call with the name of its function and what it is called on, as written."""
    for node in ast.walk(source_tree(source)):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                yield node, node.func.attr, ast.unparse(node.func.value)
            elif isinstance(node.func, ast.Name):
                yield node, node.func.id, ""


def imported(source: str) -> set[str]:
    """First parts of the names of imported modules."""
    names = set()
    for node in ast.walk(source_tree(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


def unbounded(source: str) -> list[str]:
    """Calls that make as much memory of bytes as whoever sends them likes."""
    found, network = [], bool(imported(source) & _NETWORK)
    for call, name, on in calls(source):
        limited = bool(call.args) or any(word.arg in ("amt", "size", "end", "max_length") for word in call.keywords)
        bad = (
            (name == "decompress" and (on in _INFLATE or len(call.args) + len(call.keywords) < 2))
            or (name == "open" and on in _INFLATE)
            or (name == "read" and network and not limited)
            or (name == "cat_file" and not any(word.arg == "end" for word in call.keywords))
            or (on in ("httpx", "requests", "get_session()") and name in ("get", "post", "put", "request", "Client", "AsyncClient"))
            or name in _WHOLE
            or (name in ("read_table", "ParquetFile") and on in ("pq", "parquet"))
        )
        if bad:
            found.append(f"{call.lineno}: {ast.unparse(call)[:90]}")
    whole = (node for node in ast.walk(source_tree(source)) if isinstance(node, ast.Attribute) and node.attr in ("content", "data"))
    named = (f"{node.lineno}: {ast.unparse(node)}" for node in whole if re.fullmatch("answer|response|reply", ast.unparse(node.value)))
    return [*found, *(named if network else ())]


def foreign(source: str) -> list[str]:
    """Calls that make a number or a moment of a text by rules of their own."""
    found = []
    for call, name, on in calls(source):
        of_text = name in ("float", "Decimal") and on == "" and call.args and not isinstance(call.args[0], ast.Constant)
        if of_text or (name in ("fromisoformat", "fromtimestamp", "strptime") and "datetime" in on):
            found.append(f"{call.lineno}: {ast.unparse(call)[:90]}")
    return found


def sources() -> Iterator[tuple[str, str]]:
    """Path below the package and text of every file."""
    for file in sorted(SOURCES.rglob("*.py")):
        yield file.relative_to(SOURCES).as_posix(), file.read_text(encoding="utf-8")


def test_no_body_is_read_or_inflated_without_a_bound() -> None:
    found = {name: lines for name, text in sources() if (lines := unbounded(text))}
    assert {name: lines for name, lines in found.items() if name not in EXEMPT_BODIES} == {}
    assert set(EXEMPT_BODIES) == set(found)


@pytest.mark.parametrize(
    "line",
    [
        "import zlib; zlib.decompress(data)",
        "import gzip; gzip.open(path)",
        "stream.decompress(data)",
        "import http.client; answer.read()",
        "import httpx; httpx.get(url)",
        "import httpx; response.content",
        "import urllib3; response.data",
        "from huggingface_hub.utils import get_session; get_session().get(url)",
        "fs.cat_file(path)",
        "archive.extractall(folder)",
        "import pyarrow.parquet as pq; pq.read_table(path)",
        "from urllib.request import urlopen; urlopen(url)",
    ],
)
def test_a_new_reader_without_a_bound_is_found(line: str) -> None:
    assert len(unbounded(line)) == 1


def test_a_reader_with_a_bound_is_not() -> None:
    assert unbounded("import http.client; answer.read(most + 1); inflate.decompress(data, most); fs.cat_file(path, start=0, end=9)") == []


def test_numbers_and_moments_of_others_come_from_one_place() -> None:
    found = {name: lines for name, text in sources() if name.startswith(DOORS) and (lines := foreign(text))}
    assert {name: lines for name, lines in found.items() if name not in EXEMPT_NUMBERS} == {}
    assert set(EXEMPT_NUMBERS) == set(found)
    for line in ("float(cell)", "Decimal(row['cost'])", "datetime.fromisoformat(text)", "datetime.strptime(text, form)"):
        assert len(foreign(line)) == 1


BAD = (float("nan"), float("inf"), "-inf", "nan", 1e300, "1e300", "9" * 5000, 10**5000, None, True, "1_000", [], "")


@pytest.mark.parametrize("value", BAD, ids=lambda value: type(value).__name__)
def test_the_one_place_refuses_in_one_sentence(value: Any) -> None:
    for read in (foreign_number.number, foreign_number.whole):
        with pytest.raises(foreign_number.ForeignNumber, match="; expected a") as refused:
            read(value)
        assert len(str(refused.value)) < 200
    if isinstance(value, str):
        with pytest.raises(foreign_number.ForeignNumber):
            foreign_number.amount(value)


@pytest.mark.parametrize(
    "value",
    ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "1999-12-31", "2101-01-01", "soon", 1e300, float("nan"), -1, 4.2e9, None],
)
def test_moments_are_of_this_century(value: Any) -> None:
    with pytest.raises(foreign_number.ForeignNumber):
        foreign_number.moment(value)
    assert foreign_number.moment("2026-11-01T02:00:00+02:00").isoformat() == "2026-11-01T00:00:00+00:00"
    assert foreign_number.moment(1.79e9).year == 2026


def declared_models() -> list[type[Declared]]:
    """Every declaration that any module of the package defines."""
    import plumbline.declarations as room

    for module in walk_packages(room.__path__, f"{room.__name__}."):
        import_module(module.name)
    found: list[type[Declared]] = []
    todo = [Declared]
    while todo:
        todo += (below := todo.pop().__subclasses__())
        found += [model for model in below if model.__module__.startswith("plumbline.")]
    return list(dict.fromkeys(found))


def patterns(models: list[type[Declared]]) -> dict[str, bool]:
    """The fields that hold a regular expression, by their name or description, and whether each is tried."""
    tried = repr(get_args(DeclaredPattern)[1])
    found = {}
    for model in models:
        for name, field in model.model_fields.items():
            # `file` of a CSV report is a pattern of paths, as a shell has them.
            if name in ("pattern", "match", "regex") or "regular expression" in (field.description or ""):
                found[f"{model.__name__}.{name}"] = tried in repr((field.annotation, field.metadata))
    return found


def test_every_pattern_of_a_declaration_is_tried() -> None:
    found = patterns(declared_models())
    assert [name for name, tried in found.items() if not tried] == [] and len(found) >= 4
    for name, text in sources():
        if (
            name.startswith(("declarations", "formats", "harness", "analysis", "workflows", "kinds"))
            and name != "formats/reading/pattern.py"
        ):
            own = [ast.unparse(call) for call, what, on in calls(text) if on == "re" and what in _SEARCHES and _declared(call)]
            assert own == [], f"{name} searches with a declared pattern and without a limit"


_SEARCHES = ("compile", "search", "match", "fullmatch", "finditer", "sub")
_OF_DECLARATIONS = re.compile(r"\.(pattern|match)\b(?!\()")


def _declared(call: ast.Call) -> bool:
    # FACT_RULES and the known benchmark files have patterns of this repository.
    first = ast.unparse(call.args[0])
    return _OF_DECLARATIONS.search(first) is not None and first not in ("rule.pattern", "one.pattern")


class Toy(Declared):
    """A declaration of tomorrow."""

    name: str
    regex: DeclaredPattern | None = None


def test_a_new_field_is_covered_by_its_type() -> None:
    assert patterns([Toy]) == {"Toy.regex": True}
    assert Toy(name="a", regex=r"loss (?P<loss>[0-9.]+)").regex is not None
    for text, said in ((r"(.*a){12}$", "takes more than 1 s"), ("(", "no regular expression")):
        with pytest.raises(ValidationError, match=said):
            Toy(name="a", regex=text)


@pytest.mark.parametrize("text", ["{'loss': (?P<loss>[0-9.]+)}", r"[]a{]+(x{s})", r"a{2,3}b", r"[[a]+", r"[^]]b", r"\{\d+\}"])
def test_a_pattern_means_what_python_s_re_says(text: str) -> None:
    ours, lines = pattern.Pattern(text), ("{'loss': 2.5}", "]a{x{s}", "aab", "[a", "xb", "{12}", "")
    assert [bool(ours.search(line)) for line in lines] == [bool(re.search(text, line)) for line in lines]
