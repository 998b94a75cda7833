"""JSON of others: what is too large, too deep or of no database's range is refused in one sentence, before it costs memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.data.result_documents import document
from tests.fakes.peak_memory import peak_mib

from plumbline.results import InvalidResult, LaunchRecord, Reason, ResultDocument, ResultStore, bounded_json

VALUES = bounded_json.MAX_VALUES


def refused(raw: bytes) -> str:
    with pytest.raises(InvalidResult) as error:
        bounded_json.parse_model(ResultDocument, raw, "s3://x/result.json")
    said = str(error.value)
    assert said.startswith("s3://x/result.json") and "\n" not in said and "\0" not in said
    return said


@pytest.mark.fault("a document is nested 200,000 levels deep", ends="harness_error", keeps="a copy in quarantine")
@pytest.mark.parametrize("raw", [b"[" * 200_000, b'{"a":' * 100 + b"1" + b"}" * 100, b'{"a":' + b"[" * 199 + b"]" * 199 + b"}"])
def test_deep_json(raw: bytes) -> None:
    assert "nested too deeply" in refused(raw)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b'{"a":{"b":[1,' + b"9" * 30 + b"]}}", "a.b.1 is an integer of 100 bits"),
        (b'{"a":' + b"9" * 5000 + b"}", "not a JSON object"),
        (b'{"a":["\\u0000"]}', "a.0 holds a NUL"),
        (b'{"a":{"x\\u0000":1}}', "holds a NUL"),
        (b'{"a":"\\ud800"}', "not a JSON object"),
        (b" " * (bounded_json.MAX_BYTES + 1), "larger than 8 MiB"),
        (b"[" + b"1," * VALUES + b"1]", f"{VALUES + 1:,} values"),
        (b"{" + b",".join(b'"k%d":1' % i for i in range(bounded_json.MAX_KEYS + 1)) + b"}", "the document has more than 5,000 values"),
        (b'{"trial":{"a":[' + b"[]," * bounded_json.MAX_KEYS + b"[]]}}", "trial.a has more than 5,000 values"),
    ],
)
@pytest.mark.fault("a document holds what no database stores: NUL, 65 bits", ends="harness_error", keeps="a copy in quarantine")
def test_what_no_database_stores(raw: bytes, said: str) -> None:
    assert said in refused(raw)


def test_what_is_within_the_bounds() -> None:
    whole = document()
    assert bounded_json.parse_model(ResultDocument, whole.model_dump_json().encode(), "x") == whole
    edge = b'{"a":[9223372036854775807,-9223372036854775808,"\\\\u0000"]}'
    assert bounded_json.parse_object(edge, "x")["a"][:2] == [2**63 - 1, -(2**63)]


@pytest.mark.parametrize("field", ["n", "bytes"])
def test_counts_are_as_large_as_the_columns(field: str) -> None:
    text = document().model_dump_json()
    old, new = ('"n":20', f'"n":{2**31}') if field == "n" else ('"bytes":1000', f'"bytes":{2**63}')
    assert old in text
    assert field in refused(text.replace(old, new, 1).encode())


def test_what_a_program_printed_loses_its_nul() -> None:
    """A log with a NUL is our own to record: it must not keep the result that it belongs to out of the archive."""
    assert Reason(code="x", detail="a\0b").detail == "a\ufffdb"
    assert "\0" not in LaunchRecord(launcher="local", events=(), log_tail="\0", failure_detail="\0").model_dump_json()


def test_a_file_is_not_read_when_it_is_too_large(tmp_path: Path) -> None:
    for url in (tmp_path.as_uri(), f"memory://{tmp_path}"):
        store = ResultStore(url)
        store.put("a", b"x" * 100)
        store.put("empty", b"")
        assert (store.get("a", 100), store.get("empty", 0), store.head("a", 7)) == (b"x" * 100, b"", b"x" * 7)
        with pytest.raises(InvalidResult, match="99 B"):
            store.get("a", 99)
    with pytest.raises(InvalidResult, match="8 MiB"):
        ResultStore("file:///dev", patience_s=0.0).get("zero")


_JSON = {
    "deep": "b'[' * 200_000",
    "90 MiB": "b'{\"metrics\":[' + b'{},' * (30 * 2**20) + b'{}]}'",
    "many lists": f"b'{{\"a\":[' + b'[],' * {VALUES // 2 - 3} + b'[]]}}'",
    "many bad rows": f"b'{{\"metrics\":[' + b'{{}},' * {VALUES // 2 - 3} + b'{{}}]}}'",
    "many texts": f"b'{{\"a\":[' + b'\"aaaaaaaaaaaaaa\",' * {VALUES - 9} + b'1]}}'",
}


@pytest.mark.fault("a document of 90 MiB, or of as many values as fit", ends="harness_error", keeps="200 MiB of memory are enough")
@pytest.mark.parametrize("case", _JSON)
def test_no_document_takes_200_mib(case: str, tmp_path: Path) -> None:
    store = ResultStore(tmp_path.as_uri())
    store.put("x/result.json", eval(_JSON[case]))
    peak, said = peak_mib(
        "from plumbline.results import ResultStore, InvalidResult",
        f"try: ResultStore({store.url!r}).document('x')\nexcept InvalidResult as error: print('refused', error)",
    )
    assert said.startswith("refused")
    assert peak < 200


def test_the_measure_sees_what_a_process_takes() -> None:
    """Also when the process that starts it is larger than what it takes."""
    ballast = b"x" * (300 * 2**20)
    allocation = "data = b'x' * (100 * 2**20)"
    assert peak_mib("", allocation)[0] > 90
    assert peak_mib("", "pass")[0] < 10 and len(ballast)
