from __future__ import annotations

import errno
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.trials import CONFIG
from typer.testing import CliRunner

from plumbline.cli.app import app
from plumbline.declarations import DeclarationError, InferenceWorkload
from plumbline.declarations.loader import load_file
from plumbline.formats.reading.access_log import read_log
from plumbline.formats.reading.text_file import UnusableFile
from plumbline.harness.inference.load.prompts import prompts_of
from plumbline.harness.inference.load.schedule import schedule_of
from plumbline.workflows.workload_from_log import WorkloadOfLog, workload_from_log

SECRET = "our grandmother's recipe, max_tokens=7, prompt_token_ids: [1]"
PARAMS = "SamplingParams(n=1, temperature=0.7, stop=[], ignore_eos=False, max_tokens=200, min_tokens=0)"


def vllm_line(at: str, request: str, ids: str, prompt: str = SECRET) -> str:
    return (
        f"(APIServer pid=1) INFO {at} [logger.py:39] Received request {request}: prompt: {prompt!r}, params: {PARAMS}, "
        f"prompt_token_ids: {ids}, prompt_embeds shape: None, lora_request: None."
    )


def answer(at: str, request: str, ids: str, stream: str = "") -> str:
    return (
        f"INFO {at} [logger.py:71] Generated response {request}{stream}: output: {SECRET!r}, output_token_ids: {ids}, finish_reason: stop"
    )


VLLM = "\n".join(
    [
        "INFO 12-31 23:59:50 [api_server.py:1] vLLM API server version 0.11.0",
        'INFO:     127.0.0.1:53212 - "GET /health HTTP/1.1" 200 OK',
        vllm_line("12-31 23:59:58", "chatcmpl-a", "[1, 2, 3, 4]"),
        vllm_line("12-31 23:59:58", "cmpl-b-0", "[1, 2]"),
        "INFO 12-31 23:59:59 [async_llm.py:270] Added request chatcmpl-a.",
        answer("12-31 23:59:59", "chatcmpl-a", "[5, 6, 7]", " (streaming complete)"),
        answer("01-01 00:00:01", "cmpl-b", "[5]"),
        "INFO 01-01 00:00:02 [logger.py:40] Received request chatcmpl-c: params: " + PARAMS + ", lora_request: None.",
        "DEBUG 01-01 00:00:02 [logger.py:31] Request chatcmpl-d details: prompt: 'x', prompt_token_ids: [1, 2, 3, 4, 5], prompt_embeds shape: None.",
        "INFO 01-01 00:00:03 [logger.py:40] Received request chatcmpl-d: params: " + PARAMS + ", lora_request: None.",
        answer("01-01 00:00:04", "chatcmpl-d", "[1, 2]", " (streaming delta)"),
        answer("01-01 00:00:04", "chatcmpl-d", "[3, 4]", " (streaming delta)"),
        answer("01-01 00:00:05", "chatcmpl-d", "None", " (streaming complete)"),
        "DEBUG 01-01 00:00:05 [logger.py:31] Request chatcmpl-e details: prompt: 'x', prompt_token_ids: [1, 2], prompt_embeds shape: None.",
        "INFO 01-01 00:00:05 [request_logger.py:66] Received request chatcmpl-e: params: " + PARAMS + ", lora_request: None.",
        "DEBUG 01-01 00:00:06 [request_logger.py:95] Generated response chatcmpl-e (streaming delta) details: output_token_ids: [1, 2]",
        "DEBUG 01-01 00:00:06 [request_logger.py:95] Generated response chatcmpl-e (streaming delta) details: output_token_ids: [3]",
        f"INFO 01-01 00:00:06 [request_logger.py:102] Generated response chatcmpl-e (streaming complete): output: {SECRET!r}, finish_reason: stop",
    ]
)


def spend(start: str, end: str, read: int, written: int, session: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "request_id": "chatcmpl-1",
        "call_type": "acompletion",
        "startTime": start,
        "endTime": end,
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "model": "gpt-4o",
        "session_id": session,
        "status": "success",
        "messages": [{"role": "user", "content": SECRET}],
        **more,
    }


LITELLM = [
    spend("2026-11-16T10:00:00.250Z", "2026-11-16T10:00:01.250Z", 100, 20, "alice@example.com"),
    spend("2026-11-16T10:00:00.500Z", "2026-11-16T10:00:04.000Z", 50, 10),
    spend("2026-11-16T10:00:03.250Z", "2026-11-16T10:00:05Z", 130, 30, "alice@example.com"),
    spend("2026-11-16T10:00:04.500Z", "2026-11-16T10:00:06Z", 40, 5, "alice@example.com"),  # before the last answer had ended
    spend("2026-11-16T10:00:07Z", "2026-11-16T10:00:09Z", 60, 8, "alice@example.com"),  # shorter than what was said
    spend("2026-11-16T10:00:08Z", "2026-11-16T10:00:09Z", 60, 0, status="failure"),
    spend("2026-11-16T10:00:08Z", "2026-11-16T10:00:09Z", 60, 0, call_type="aembedding"),
    spend("2026-11-16T10:00:08Z", "2026-11-16T10:00:08Z", 60, 9, cache_hit="True"),
]


def lines(records: list[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


def config_of(folder: Path) -> Path:
    config = folder / "config"
    (config / "workloads" / "inference").mkdir(parents=True)
    shipped = CONFIG / "workloads" / "inference" / "chat-replay-cpu.yaml"
    (config / "workloads" / "inference" / shipped.name).write_text(shipped.read_text())
    return config


def made_from(folder: Path, text: str, **options: Any) -> WorkloadOfLog:
    (folder / "access.log").write_text(text)
    return workload_from_log(folder / "access.log", "mine", config=config_of(folder), **options)


def loaded(made: WorkloadOfLog) -> InferenceWorkload:
    """As `plumbline check` reads it, the trace beside it."""
    (made.workload.parent / made.trace.name).write_text(made.trace.read_text())
    return load_file(made.workload, InferenceWorkload)


def rows_of(workload: InferenceWorkload) -> Any:
    return workload.phases[1].arrivals.trace  # type: ignore[union-attr]


def test_a_vllm_log_gives_arrivals_and_the_lengths_that_it_has(tmp_path: Path) -> None:
    log = read_log(VLLM, "vllm.log")
    assert log.format == "vllm"
    assert [(r.input_tokens, r.output_tokens) for r in log.requests] == [(4, 3), (2, 1), (None, None), (5, 4), (2, 3)]
    assert [round(r.at - log.requests[0].at, 3) for r in log.requests] == [0, 0.5, 4.25, 5.25, 7.25], "over New Year, spread over seconds"
    made = made_from(tmp_path, VLLM)
    trace = rows_of(loaded(made))
    assert [row[1:] for row in trace.rows] == [(4, 3), (2, 1), (3, 3), (5, 4), (2, 3)]
    assert trace.after is None and made.conversations == 0
    assert len(made.unknown) == 4, "whole seconds, conversations, both lengths of a request"


def test_a_litellm_log_gives_conversations_with_their_pauses(tmp_path: Path) -> None:
    made = made_from(tmp_path, json.dumps(LITELLM))
    assert (made.format, made.requests, made.conversations) == ("litellm", 5, 1)
    assert made.skipped == {"failed": 1, "no generation of text (call_type)": 1, "answered by the gateway's cache": 1}
    workload = loaded(made)
    trace = rows_of(workload)
    assert trace.rows == ((0.0, 100, 20), (0.25, 50, 10), (3.0, 130, 30), (4.25, 40, 5), (6.75, 60, 8))
    assert trace.after == ((2, 0, 2.0), (4, 2, 2.0))
    load = schedule_of(workload).phases[1]
    assert load.after.tolist() == [-1, -1, 0, -1, 2]
    assert load.turn is not None and load.turn.tolist() == [0, 0, 1, 0, 0], "a prompt shorter than what was said does not hold it"
    prompts = prompts_of(workload, schedule_of(workload)).by_phase[1]
    assert [len(prompt.ids) for prompt in prompts] == [100, 50, 130, 40, 60]
    assert prompts[2].ids[:100].tolist() == prompts[0].ids.tolist()
    assert workload.model.context == 256, "enough for the longest request"
    assert any(re.search(r"conversations: 1\b", line) for line in made.unknown)


@pytest.mark.parametrize("text", [VLLM, json.dumps(LITELLM)])
def test_no_text_and_no_id_of_the_log_is_kept(tmp_path: Path, text: str) -> None:
    made = made_from(tmp_path, text)
    written = made.workload.read_text() + made.trace.read_text()
    assert "grandmother" not in written and "alice" not in written and "chatcmpl" not in written


@pytest.mark.parametrize(
    ("text", "kind", "place"),
    [
        ("hello\n", None, "access.log is of no known format"),
        ("", "vllm", "access.log holds no finished request"),
        (f"Received request x: params: {PARAMS}\n", None, "access.log:1 has no time"),
        (vllm_line("13-40 10:00:00", "a", "[1]"), None, "access.log:1, the time is 13-40"),
        (lines(LITELLM[:1]) + "{", "litellm", "access.log:2 is not JSON"),
        (lines(LITELLM[:1]) + "5", "litellm", "access.log:2 is not an object"),
        (json.dumps({"metadata": {"request_start_ns": 1}, "metrics": {}}), None, "access.log is of no known format"),
        (json.dumps([LITELLM[0], {"startTime": "x"}]), None, "access.log[1] has no prompt_tokens"),
        (json.dumps([{**LITELLM[0], "startTime": "noon"}]), None, 'access.log[0], startTime is "noon"'),
        (json.dumps([{**LITELLM[0], "prompt_tokens": "many"}]), None, 'access.log[0], prompt_tokens is "many"'),
        (json.dumps([{**LITELLM[0], "prompt_tokens": SECRET}]), None, "access.log[0], prompt_tokens is a str"),
        (json.dumps([LITELLM[5]]), None, "access.log holds no finished request (1 left out: failed)"),
        (json.dumps([LITELLM])[:-9], "litellm", "access.log:1 is not JSON"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_written(tmp_path: Path, text: str, kind: Any, place: str) -> None:
    with pytest.raises(UnusableFile) as refused:
        made_from(tmp_path, text, kind=kind)
    assert str(refused.value).startswith(place) and "expected" in str(refused.value)
    assert not (tmp_path / "config" / "traces").exists()
    assert [path.name for path in (tmp_path / "config" / "workloads" / "inference").iterdir()] == ["chat-replay-cpu.yaml"]


def test_lengths_that_no_request_has_must_be_given(tmp_path: Path) -> None:
    text = "\n".join(vllm_line(f"11-23 10:00:0{i}", f"chatcmpl-{i}", "[1, 2]") for i in range(3))
    (tmp_path / "a").mkdir()
    with pytest.raises(UnusableFile, match="--output-tokens"):
        made_from(tmp_path / "a", text)
    made = made_from(tmp_path, text, output_tokens=9)
    assert made.output_tokens == (9, 9, 9, 9) and made.input_tokens == (2, 2, 2, 2)
    assert any(re.search(r"output tokens.* 3 of 3 .*9", line) for line in made.unknown)


def test_a_part_of_the_log(tmp_path: Path) -> None:
    made = made_from(tmp_path, json.dumps(LITELLM), start_s=0.1, duration_s=4.0)
    assert [row[0] for row in rows_of(loaded(made)).rows] == [0.0, 2.75]
    with pytest.raises(UnusableFile, match="exists already"):
        workload_from_log(tmp_path / "access.log", "mine", config=tmp_path / "config")
    with pytest.raises(UnusableFile, match="chosen part"):
        workload_from_log(tmp_path / "access.log", "other", config=tmp_path / "config", start_s=100)


@pytest.mark.fault(
    "the disk fills between the two files of a workload from a log",
    ends="an error",
    keeps="no half declaration; the same command works again",
)
@pytest.mark.parametrize("full_at", [1, 2])
def test_a_full_disk_leaves_neither_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full_at: int) -> None:
    works, written = Path.write_text, []

    def fills(path: Path, *arguments: Any, **named: Any) -> int:
        if path.suffix == ".part":
            written.append(path)
            if len(written) == full_at:
                raise OSError(errno.ENOSPC, "No space left on device")
        return works(path, *arguments, **named)

    with monkeypatch.context() as full:
        full.setattr(Path, "write_text", fills)
        with pytest.raises(OSError, match="No space left"):
            made_from(tmp_path, json.dumps(LITELLM))
    config = tmp_path / "config"
    assert not (config / "traces" / "mine.csv").exists() and not (config / "workloads" / "inference" / "mine.yaml").exists()
    assert not list(config.rglob("*.part"))
    assert workload_from_log(tmp_path / "access.log", "mine", config=config).workload.exists()


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_lines_may_end_with_a_carriage_return(tmp_path: Path, end: str) -> None:
    (tmp_path / "access.log").write_bytes(VLLM.replace("\n", end).encode())
    assert workload_from_log(tmp_path / "access.log", "mine", config=config_of(tmp_path)).requests == 5


def test_a_log_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnusableFile, match=r"none\.log cannot be read .*; expected an access log"):
        workload_from_log(tmp_path / "none.log", "mine", config=config_of(tmp_path))


def test_what_the_declarations_would_refuse_is_not_written(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    template = config / "workloads" / "inference" / "chat-replay-cpu.yaml"
    fixed = "{source: hub, id: org/model, revision: 0123456789012345678901234567890123456789, context: 128}"
    text = template.read_text()
    template.write_text(
        text.replace(next(line for line in text.splitlines() if line.startswith("model:")), f"model: {fixed}").replace(
            "backend: python", "backend: vllm"
        )
    )
    (tmp_path / "access.log").write_text(json.dumps(LITELLM))
    with pytest.raises(DeclarationError, match=r"mine\.csv:4: 130 tokens"):
        workload_from_log(tmp_path / "access.log", "mine", config=config)
    assert not (config / "traces").exists()


def test_the_command_writes_what_check_accepts(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    (tmp_path / "our_spend.jsonl").write_text(lines(LITELLM))
    done = CliRunner().invoke(app, ["workload", "from-log", str(tmp_path / "our_spend.jsonl"), "--config", str(config), "--json"])
    assert done.exit_code == 0, done.output
    made = json.loads(done.stdout)
    assert (made["name"], made["requests"], made["format"]) == ("our-spend", 5, "litellm")
    again = CliRunner().invoke(app, ["workload", "from-log", str(tmp_path / "our_spend.jsonl"), "--config", str(config)])
    assert again.exit_code == 2 and "expected another --name" in again.output
    wrong = CliRunner().invoke(app, ["workload", "from-log", str(tmp_path / "our_spend.jsonl"), "--format", "apache"])
    assert wrong.exit_code == 2 and "is not one of" in wrong.output
