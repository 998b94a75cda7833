from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.trials import a_trial

from plumbline.declarations import DeclarationError, InferenceWorkload, spec_hash
from plumbline.declarations.loader import load_file
from plumbline.declarations.trials import without_defaults
from plumbline.declarations.workloads import prompts
from plumbline.declarations.workloads.prompts import load_prompts, pack, read_rows, select, selection_hash, unpack
from plumbline.formats.reading.text_file import UnusableFile

CHAT = {
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}]
}
AGAIN = {"messages": [*CHAT["messages"], {"role": "user", "content": "Bye"}]}
SHAREGPT = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yes?"}, {"from": "human", "value": "Bye"}]}


def lines(*records: Any) -> bytes:
    return "".join(f"{json.dumps(record)}\n" for record in records).encode()


def declare(**prompts: Any) -> dict[str, Any]:
    """The shipped chat workload's declaration with own prompts."""
    data: dict[str, Any] = json.loads(json.dumps(without_defaults(a_trial("inference"))["workload"]))
    data["requests"] = {"output_tokens": {"constant": 4}, "text": True, "seed": 3, "prompts": prompts}
    data["model"] = {**data["model"], "vocabulary": 2048}
    return data | {"kind": "inference"}


def workload(folder: Path, content: bytes, name: str = "p.jsonl", **prompts: Any) -> InferenceWorkload:
    (folder / name).write_bytes(content)
    data = declare(**{"source": "file", "path": name, "format": "text", **prompts})
    assert load_prompts(data, folder) == []
    return InferenceWorkload.model_validate_json(json.dumps(data))


def test_each_format_gives_its_rows() -> None:
    assert [row.text for row in read_rows(b"one\n\ntwo\r\n", "p.txt", "text")] == ["one", "two"]
    assert [row.text for row in read_rows(lines({"prompt": "a"}, {"text": "b"}, "c"), "p.jsonl", "text")] == ["a", "b", "c"]
    (chat,) = read_rows(lines(AGAIN), "p.jsonl", "messages")
    assert chat.turns == (2, 4)
    (shared,) = read_rows(json.dumps([SHAREGPT]).encode(), "p.json", "sharegpt")
    assert [(m["role"], m["content"]) for m in shared.messages] == [("user", "Hi"), ("assistant", "Yes?"), ("user", "Bye")]
    assert shared.turns == (1, 3)


@pytest.mark.parametrize(
    ("content", "name", "kind", "place"),
    [
        (b"", "p.jsonl", "text", "p.jsonl holds no prompt"),
        (b"\n \n", "p.txt", "text", "p.txt holds no prompt"),
        (b"{}\n{", "p.jsonl", "text", "p.jsonl:1 has no field prompt"),
        (lines({"prompt": "a"}) + b"{", "p.jsonl", "text", "p.jsonl:2 is not JSON"),
        (lines({"prompt": 7}), "p.jsonl", "text", "p.jsonl:1, prompt is a int"),
        (b'{"prompt": "a\\ud800"}', "p.jsonl", "text", "p.jsonl:1, prompt has half"),
        (lines({"prompt": " "}), "p.jsonl", "text", "p.jsonl:1, prompt is empty"),
        (lines({"prompt": "a"}), "p.jsonl", "messages", "p.jsonl:1 has no list messages"),
        (lines(CHAT, {"messages": [{"role": "boss", "content": "a"}]}), "p.jsonl", "messages", "p.jsonl:2, messages[0].role"),
        (lines({"messages": [{"role": "user", "content": [{"type": "image"}]}]}), "p.jsonl", "messages", "p.jsonl:1, messages[0].content"),
        (lines({"messages": [{"role": "system", "content": "a"}]}), "p.jsonl", "messages", "p.jsonl:1, messages has no message of a user"),
        (lines(SHAREGPT, {"conversations": [{"value": "a"}]}), "p.jsonl", "sharegpt", "p.jsonl:2, conversations[0] has no from"),
        (b"{}", "p.json", "sharegpt", "p.json is not a JSON array"),
        (json.dumps([SHAREGPT, {}]).encode(), "p.json", "sharegpt", "p.json[1] has no list conversations"),
        (b"a\n", "p.txt", "messages", "p.txt holds plain text"),
        (b"\xff", "p.txt", "text", "p.txt is not UTF-8"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line_and_field(content: bytes, name: str, kind: Any, place: str) -> None:
    with pytest.raises(UnusableFile) as refused:
        read_rows(content, name, kind)
    assert str(refused.value).startswith(place) and "expected" in str(refused.value)


def test_a_sample_is_the_same_everywhere_and_differs_by_seed() -> None:
    rows = read_rows("".join(f"prompt {i}\n" for i in range(50)).encode(), "p.txt", "text")
    chosen = select(rows, "p.txt", 5, 7)
    assert [row.line for row in chosen] == [22, 32, 44, 40, 3]
    assert select(rows, "p.txt", 5, 8) != chosen
    assert sorted(row.line for row in select(rows, "p.txt", None, 7)) == list(range(1, 51))
    with pytest.raises(UnusableFile, match=r"^sample 51 "):
        select(rows, "p.txt", 51, 7)


def test_a_trial_carries_the_sample_and_refuses_another_one(tmp_path: Path) -> None:
    declared = workload(tmp_path, b"".join(b"prompt %d\n" % i for i in range(9)), "p.txt", sample=4).requests.prompts
    assert declared is not None and declared.source == "file" and declared.content is not None
    rows = unpack(declared.content, declared.selection)
    assert (len(rows), selection_hash(rows)) == (4, declared.selection)
    for content, selection in ((pack(rows[:3]), declared.selection), ("eJw", declared.selection), ("?", declared.selection)):
        with pytest.raises(UnusableFile):
            unpack(content, selection)


def test_the_specification_is_that_of_the_prompts_and_not_of_their_compression(tmp_path: Path) -> None:
    one = workload(tmp_path, b"a b c\n", "p.txt")
    packed = one.requests.prompts.model_copy(update={"content": "other", "expected_tokens": 9})  # type: ignore[union-attr]
    assert spec_hash(one.model_copy(update={"requests": one.requests.model_copy(update={"prompts": packed})})) == spec_hash(one)
    assert spec_hash(workload(tmp_path, b"a b c\n", "p.txt", private=True)) == spec_hash(one)
    assert spec_hash(workload(tmp_path, b"a b d\n", "p.txt")) != spec_hash(one)


def test_private_prompts_are_not_in_the_trial(tmp_path: Path) -> None:
    declared = workload(tmp_path, lines({"prompt": "Our secret recipe"}), private=True)
    assert "recipe" not in declared.model_dump_json()
    assert declared.requests.prompts.content is None and declared.requests.prompts.selection is not None  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"path": "none.txt"}, "path"),
        ({"sample": 3}, "sample"),
        ({"sha256": "0" * 64}, "sha256"),
        ({"content": "eJw="}, "content"),
        ({"format": "messages"}, "path"),
    ],
)
def test_a_wrong_declaration_names_its_field(tmp_path: Path, changes: dict[str, Any], field: str) -> None:
    (tmp_path / "p.txt").write_text("one\ntwo\n")
    ((found, message),) = load_prompts(declare(**{"source": "file", "path": "p.txt", "format": "text", **changes}), tmp_path)
    assert found == ("requests", "prompts", field) and "expected" in message


def test_a_large_sample_does_not_swell_the_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompts, "MAX_CONTENT_BYTES", 100)
    (tmp_path / "p.txt").write_text("".join(f"{i * i} prompt {i}\n" for i in range(100)))
    (problem,) = load_prompts(declare(source="file", path="p.txt", format="text"), tmp_path)
    assert problem[0][-1] == "path"
    assert load_prompts(declare(source="file", path="p.txt", format="text", sample=3), tmp_path) == []


@pytest.mark.parametrize(
    ("requests", "named"),
    [
        ({"text": False}, "text"),
        ({"input_tokens": {"constant": 5}}, "input_tokens"),
        ({"shared_prefix": {"tokens": 4}}, "shared_prefix"),
        ({"turns": {"count": 2}}, "turns"),
        ({"prompts": None}, "input_tokens"),
        ({"output": "natural"}, "requests.output"),
        ({"output_tokens": {"constant": 4096}}, "requests.output_tokens"),
    ],
)
def test_what_does_not_go_with_own_prompts_is_refused(tmp_path: Path, requests: dict[str, Any], named: str) -> None:
    (tmp_path / "p.txt").write_text("one\n")
    data = declare(source="file", path="p.txt", format="text")
    data["requests"] |= requests
    (tmp_path / "w.yaml").write_text(json.dumps(data))
    with pytest.raises(DeclarationError) as refused:
        load_file(tmp_path / "w.yaml", InferenceWorkload)
    (problem,) = refused.value.problems
    assert named in f"{problem.field} {problem.message}" and "expected" in problem.message


def test_a_chat_template_needs_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_bytes(lines(CHAT))
    (tmp_path / "w.yaml").write_text(json.dumps(declare(source="file", path="p.jsonl", format="messages")))
    with pytest.raises(DeclarationError) as refused:
        load_file(tmp_path / "w.yaml", InferenceWorkload)
    assert "requests.prompts" in refused.value.problems[0].field
