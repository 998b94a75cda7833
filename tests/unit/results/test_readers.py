"""What others wrote is read within bounds: text nested a hundred thousand times, integers of five thousand digits and broken UTF-8 are one sentence."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic_core import from_json
from tests.fakes.peak_memory import peak_mib
from tests.source_trees import source_tree

from plumbline.cli.compare import _values
from plumbline.declarations.installation import REPOSITORY
from plumbline.declarations.yaml_source import UnreadableYaml, read_yaml
from plumbline.formats import TOOL_FILES, UnreadableFile, read_benchmark_file
from plumbline.formats.reading.fields import Fields, without_long_lists
from plumbline.formats.reading.text_file import UnusableFile, json_array, json_lines
from plumbline.harness.launcher_protocol import PROGRESS_EVENT, parse_progress
from plumbline.loadclient.http_responses import InvalidResponse, _object
from plumbline.loadclient.stated_errors import body_message

PRODUCT = REPOSITORY / "include" / "plumbline"
DEEP = "[" * 100_000
BAD = {"deep": DEEP, "deep object": '{"a":' * 100_000, "digits": '{"a": ' + "1" * 5000 + "}"}
OWN = {
    "declarations": {"loader.py", "evaluation.py"},  # what json.dumps of declarations gave
    "embedded": None,  # files and answers of the embedded Airflow
    "airflow": None,
    "harness": {
        *("worker_protocol.py", "__main__.py", "folder.py", "preparation.py", "collectives.py", "__init__.py", "inter_node.py", "engine_python.py"),
        *("generation.py", "exported.py", "served_tokenizer.py", "serving.py", "cache.py", "persistent_state.py", "torch_checks.py", "load_client.py"),
        *("local_server.py", "launcher_protocol.py"),
    },  # processes that the harness starts, and its own files
    "workflows": {"claim.py"},
    "launch": {"progress.py", "machine_access.py", "gpu_provider.py", "attempts.py", "sweep.py", "api.py"},
}  # fmt: skip
"""Readers of what Plumbline itself wrote, by room; None: all of the room."""


def unguarded(tree: ast.Module) -> Iterator[int]:
    """Lines of `json.loads` and `json.load` outside of a `try` that catches RecursionError."""
    guarded = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.Try) and any("RecursionError" in ast.unparse(h.type) for h in block.handlers if h.type is not None)
        for part in block.body
        for node in ast.walk(part)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("json.loads", "json.load") and id(node) not in guarded:
            yield node.lineno


def test_every_reader_of_json_from_elsewhere_is_bounded() -> None:
    """`from_json` of pydantic raises ValueError alone; `json.loads` also RecursionError."""
    found = []
    for file in sorted(PRODUCT.rglob("*.py")):
        room = file.relative_to(PRODUCT).parts[0]
        own = OWN.get(room, set())
        if own is not None and file.name not in own:
            found += [f"{file.relative_to(PRODUCT)}:{line}" for line in unguarded(source_tree(file.read_text()))]
    assert found == []


@pytest.mark.fault("JSON or YAML of others: too deep, or with huge integers", ends="one sentence", keeps="file and line")
@pytest.mark.parametrize("case", BAD)
def test_text_that_no_parser_takes_is_a_sentence(case: str, tmp_path: Path) -> None:
    text = BAD[case]
    for tool in TOOL_FILES:
        with pytest.raises(UnreadableFile, match=r"a\.json"):
            read_benchmark_file(text.encode(), "a.json", tool)
    with pytest.raises(UnusableFile, match=r"a\.jsonl:1 is not JSON"):
        list(json_lines(text, "a.jsonl"))
    with pytest.raises(UnusableFile, match=r"a\.json"):
        list(json_array(text, "a.json"))
    with pytest.raises(InvalidResponse, match="not JSON"):
        _object(text.encode())
    with pytest.raises(ValueError, match="not JSON"):
        _values(text)
    assert body_message(text.encode()).message
    assert parse_progress(f"{PROGRESS_EVENT} {text}") is None
    (tmp_path / "a.yaml").write_text(f"a: {text}")
    with pytest.raises(UnreadableYaml) if case != "digits" else pytest.raises(UnreadableYaml, match="plain value"):
        read_yaml(tmp_path / "a.yaml")


def test_declarations_of_moderate_depth_are_refused_before_another_step_fails_on_them(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: " + "[" * 70 + "1" + "]" * 70)
    with pytest.raises(UnreadableYaml, match="nested too deeply; expected at most 64 levels"):
        read_yaml(tmp_path / "a.yaml")


ROW = {"id": "r", "text": 'some "[]{} text', "itl": [0.25] * 40, "usage": {"in": 1, "out": 2.5}}
WHOLE = {
    "completed": 3,
    "benchmarks": [{"mean": 1.5, "requests": [ROW] * 300}, {"requests": []}],
    "errors": [""] * 5000,
    "tail": [1, [2], {"a": 3}],
}


def test_lists_of_requests_of_a_large_file_are_their_length() -> None:
    raw = json.dumps([WHOLE, WHOLE]).encode()
    first, second = from_json(without_long_lists(raw))
    assert first == second
    assert Fields("a.json", first["benchmarks"][0]).length("requests") == 300 and first["benchmarks"][1] == WHOLE["benchmarks"][1]
    assert {**first, "benchmarks": 0, "errors": 0} == {**WHOLE, "benchmarks": 0, "errors": 0}
    assert Fields("a.json", first).length("errors") == 5000 and Fields("a.json", WHOLE).length("tail") == 3
    assert Fields("a.json", WHOLE).length("completed") is None
    small = json.dumps({**WHOLE, "benchmarks": [], "errors": [0] * 150}).encode()
    assert without_long_lists(small) == small
    for cut in range(0, len(raw), 7919):
        with pytest.raises(ValueError, match=r"EOF|line"):
            from_json(without_long_lists(raw[:cut]))


@pytest.mark.fault("a benchmark report lists each request", ends="imported", keeps="memory of 2.5 times its text")
def test_a_report_of_each_request_takes_less_memory_than_its_own_text() -> None:
    imports = "import json; from plumbline.formats.reading.fields import json_documents"
    work = f"""
raw = b'{{"completed": 3, "benchmarks": [{{"requests": [' + b",".join([{json.dumps(ROW)!r}.encode()] * 60_000) + b']}}], "itls": [' + b",".join([b"[0.123]"] * 100_000) + b"]}}"
(one,) = json_documents(raw, "a.json")
print(len(raw), one.length("itls"))
"""
    peak, printed = peak_mib(imports, work)
    size, listed = map(int, printed.split())
    assert size > 15 * 2**20 and listed == 100_000 and peak < 2.5 * size / 2**20, "the text, and the parts that it was joined of"
