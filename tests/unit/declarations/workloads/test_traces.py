"""Published traces' layouts are read; what is wrong in a file is named by its line and column."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.data.example_trace import example_trace

from plumbline.declarations import DeclarationError, InferenceWorkload, load, spec_hash
from plumbline.declarations.installation import REPOSITORY
from plumbline.declarations.workloads.load import MAX_TRACE_ROWS, TraceLayout
from plumbline.declarations.workloads.traces import read_trace
from plumbline.formats.reading.text_file import UnusableFile
from plumbline.harness.inference.load.schedule import schedule_of

Break = Callable[[str, str, str], Path]
CHAT = "workloads/inference/chat.yaml"
AZURE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2026-11-16 18:17:03.9799600,24,8
2026-11-16 18:17:04.0319600,30,5
2026-11-16 18:17:10.9799600,12,16
"""
BURSTGPT = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,a,24,8,32,API log\n5.052,a,30,5,35,API log\n12,a,12,16,28,API log\n"
MOONCAKE = '{"timestamp": 0, "input_length": 24, "output_length": 8, "hash_ids": [1]}\n' + "".join(
    json.dumps({"timestamp": at, "input_length": read, "output_length": written, "hash_ids": []}) + "\n"
    for at, read, written in ((52, 30, 5), (7000, 12, 16))
)
ROWS = ((0.0, 24, 8), (0.052, 30, 5), (7.0, 12, 16))


def written(folder: Path, text: str) -> Path:
    """The folder, with `t.csv` in it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "t.csv").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        ("azure", AZURE),
        ("azure", "\ufeff" + AZURE.replace("\n", "\r\n")),
        ("azure", AZURE.replace(",24,", "+00:00,24,").replace(",30,", "Z,30,").replace("18:17:10.9799600,12", "20:17:10.9799600+0200,12")),
        ("burstgpt", BURSTGPT),
        ("mooncake", MOONCAKE),
    ],
)
def test_each_layout_becomes_seconds_and_lengths(tmp_path: Path, layout: TraceLayout, text: str) -> None:
    assert read_trace(written(tmp_path, text), "t.csv", layout, until_s=60.0) == ROWS


def test_a_trace_is_cut_at_the_end_of_its_phase(tmp_path: Path) -> None:
    folder = written(tmp_path, AZURE + "no time,0,0\n")
    assert read_trace(folder, "t.csv", "azure", until_s=7.0) == ROWS[:2], "and what comes after is not even looked at"
    with pytest.raises(UnusableFile):
        read_trace(folder, "t.csv", "azure", until_s=7.1)


@pytest.mark.parametrize(
    ("layout", "text", "said"),
    [
        ("azure", AZURE.replace("GeneratedTokens", "Generated"), "t.csv:1 has no column GeneratedTokens; expected a header with TIMESTAMP"),
        ("azure", AZURE.replace(",30,", ",many,"), 't.csv:3, ContextTokens is "many"; expected a whole number of tokens, at least 1'),
        (
            "azure",
            AZURE.replace(",5\n", ",0\n"),
            't.csv:3, GeneratedTokens is "0"; expected a whole number of tokens, at least 1: leave out',
        ),
        ("azure", AZURE.replace(",30,", ",,"), "t.csv:3 has no ContextTokens; expected a value"),
        ("azure", AZURE.replace(",30,5", ""), "t.csv:3 has no ContextTokens; expected a value"),
        ("azure", AZURE.replace("2026-11-16 18:17:04", "16.11.2026 18:17:04"), 't.csv:3, TIMESTAMP is "16.11.2026'),
        ("azure", AZURE.replace("11-16 18:17:04", "13-16 18:17:04"), "t.csv:3, TIMESTAMP is"),
        ("azure", AZURE.replace("18:17:10", "18:17:01"), "t.csv:4, TIMESTAMP decreases"),
        ("azure", "TIMESTAMP,ContextTokens,GeneratedTokens\n", "expected rows with TIMESTAMP"),
        ("azure", "", "t.csv:1 has no column TIMESTAMP, ContextTokens, GeneratedTokens"),
        ("burstgpt", BURSTGPT.replace("5.052", "soon"), 't.csv:3, Timestamp is "soon"; expected seconds, such as 5.2'),
        ("burstgpt", BURSTGPT.replace("5.052", "nan"), 't.csv:3, Timestamp is "nan"'),
        ("mooncake", MOONCAKE.replace('"timestamp": 52', '"timestamp": "?"'), 't.csv:2, timestamp is "?"; expected milliseconds'),
        ("mooncake", MOONCAKE.replace('{"timestamp": 52', '"timestamp": 52'), "t.csv:2 is not JSON"),
        ("mooncake", MOONCAKE + "[1]\n", "t.csv:4 is not a JSON object; expected one with timestamp"),
        ("mooncake", MOONCAKE.replace('"input_length": 30', '"input_length": true'), "t.csv:2 has no input_length"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, layout: TraceLayout, text: str, said: str) -> None:
    with pytest.raises(UnusableFile) as raised:
        read_trace(written(tmp_path, text), "t.csv", layout, until_s=60.0)
    assert said in str(raised.value)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UnusableFile, match=r"t\.csv.*UTF-8.*byte 0"):
        read_trace(tmp_path, "t.csv", "azure", until_s=1.0)


def test_too_many_rows_are_refused(tmp_path: Path) -> None:
    folder = written(tmp_path, "Timestamp,Request tokens,Response tokens\n" + "".join(f"{i},1,1\n" for i in range(MAX_TRACE_ROWS + 1)))
    assert len(read_trace(folder, "t.csv", "burstgpt", until_s=MAX_TRACE_ROWS)) == MAX_TRACE_ROWS
    with pytest.raises(UnusableFile, match=rf"t\.csv:100002\b.*{MAX_TRACE_ROWS:,}"):
        read_trace(folder, "t.csv", "burstgpt", until_s=MAX_TRACE_ROWS + 1)


POISSON = "{poisson: {rate: 6/s}}"
DECLARED = "{trace: {file: azure/t.csv, layout: azure}}"


def with_trace(broken: Break, text: str = AZURE, declared: str = DECLARED) -> Path:
    config = broken(CHAT, POISSON, declared)
    written(config / "traces" / "azure", text)
    return config


def chat(config: Path) -> InferenceWorkload:
    found = load(config).workloads["chat"]
    assert isinstance(found, InferenceWorkload)
    return found


def only_problem(config: Path) -> str:
    with pytest.raises(DeclarationError) as raised:
        load(config)
    assert len(raised.value.problems) == 1, str(raised.value)
    return str(raised.value)


def test_a_declared_trace_travels_with_the_workload_and_its_hash(broken: Break) -> None:
    config = with_trace(broken)
    before = chat(config)
    trace = before.phases[1].arrivals.trace  # type: ignore[union-attr]
    assert trace is not None and trace.rows == ROWS
    assert InferenceWorkload.model_validate_json(before.model_dump_json()) == before
    written(config / "traces" / "azure", AZURE.replace(",16\n", ",15\n"))
    assert spec_hash(chat(config)) != spec_hash(before)


def test_twice_the_speed_reads_twice_as_far(broken: Break) -> None:
    config = broken(CHAT, "duration: 15s", "duration: 4s")
    config = with_trace(broken)
    assert len(chat(config).phases[1].arrivals.trace.rows) == 2  # type: ignore[union-attr, arg-type]
    config = broken(CHAT, "layout: azure}", "layout: azure, speed: 2}")
    assert len(chat(config).phases[1].arrivals.trace.rows) == 3  # type: ignore[union-attr, arg-type]


@pytest.mark.parametrize(
    ("declared", "text", "said"),
    [
        (DECLARED.replace("t.csv", "u.csv"), AZURE, "trace.file: azure/u.csv cannot be read (No such file or directory); expected a file"),
        (DECLARED, AZURE.replace(",30,", ",many,"), 'trace.file: azure/t.csv:3, ContextTokens is "many"; expected a whole number'),
        (
            DECLARED,
            AZURE.replace(",30,", ",300,"),
            "trace: azure/t.csv:3: 300 tokens in, 5 out, over model.context 128; expected at most the context",
        ),
        (DECLARED.replace("layout: azure", "layout: gcp"), AZURE, 'trace.layout: "gcp" is not valid'),
        (DECLARED.replace("azure/t.csv", "../t.csv"), AZURE, "trace.file: "),
        (DECLARED.replace("azure/t.csv", "a/../../t.csv"), AZURE, "trace.file: "),
        (DECLARED.replace("layout: azure", "layout: azure, rows: []"), AZURE, "trace.rows: is read from the file; expected file"),
    ],
)
def test_a_bad_trace_is_one_problem_of_the_declaration(broken: Break, declared: str, text: str, said: str) -> None:
    problem = only_problem(with_trace(broken, text, declared))
    assert problem.startswith(f"config/{CHAT}:13  phases[1].arrivals.trace"), problem
    assert said in problem


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("shared_prefix: {tokens: 7}", None),
        ("shared_prefix: {tokens: 12}", "azure/t.csv:4: 12 tokens in; expected above requests.shared_prefix.tokens 12"),
        ("turns: {count: 2}", "with requests.turns"),
    ],
)
def test_a_trace_and_what_prompts_have_in_common(broken: Break, more: str, said: str | None) -> None:
    config = with_trace(broken)
    broken(CHAT, "  seed: 1\n", f"  seed: 1\n  {more}\n")
    if said is None:
        assert chat(config).requests.shared_prefix is not None
    else:
        broken(CHAT, "min: 8,", "min: 13,")
        problem = only_problem(config)
        assert problem.startswith(f"config/{CHAT}:14  phases[1].arrivals.trace: "), problem
        assert said in problem


def test_an_encoder_answers_each_recorded_request_once(broken: Break) -> None:
    config = with_trace(broken)
    broken(CHAT, "{architecture: gpt,", "{architecture: encoder, task: embedding,")
    broken(CHAT, "output_tokens: {constant: 16}", "output_tokens: {constant: 1}")
    assert "azure/t.csv:2: " in only_problem(config)
    written(config / "traces" / "azure", AZURE.replace(",8\n", ",1\n").replace(",5\n", ",1\n").replace(",16\n", ",1\n"))
    assert chat(config).model.architecture == "encoder"


def test_the_shipped_trace_is_what_its_command_makes() -> None:
    assert (REPOSITORY / "include" / "config" / "traces" / "afternoon.csv").read_text(encoding="utf-8") == example_trace()


def test_the_shipped_example_replays_it() -> None:
    workload = load(REPOSITORY / "include" / "config").workloads["chat-replay-cpu"]
    assert isinstance(workload, InferenceWorkload)
    replayed = schedule_of(workload).phases[1]
    assert (replayed.n, replayed.arrivals_s[0]) == (139, 0.0)
