from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import checkpoints
from tests.fakes.trials import a_trial, cluster_provider
from tests.unit.declarations.workloads.test_prompts import declare, lines

from plumbline.declarations import InferenceWorkload, incompatibility
from plumbline.declarations.workloads.prompts import PRIVATE_FOLDER, PromptRow, load_prompts
from plumbline.formats.reading.text_file import UnusableFile
from plumbline.harness.inference.load.own_prompts import WITHHELD, OwnPrompts, PromptFetchFailed, safe_detail, selected_rows, without_text
from plumbline.harness.inference.load.prompts import prompts_of, shipped_tokenizer
from plumbline.harness.inference.load.schedule import schedule_of, turn_of
from plumbline.harness.inference.load.served_tokenizer import CheckpointTokenizer, ShippedTokenizer, Tokenized, tokenizer_of
from plumbline.launch.plan import PlanError


def conversation(turns: int, line: int = 1) -> PromptRow:
    said = [{"role": role, "content": f"{role} {line}.{i}"} for i in range(turns) for role in ("user", "assistant")]
    return PromptRow(line, messages=tuple(said))


def text_workload(folder: Path, *texts: str, **changes: Any) -> InferenceWorkload:
    (folder / "p.txt").write_text("".join(f"{text}\n" for text in texts))
    data = declare(source="file", path="p.txt", format="text", **changes.pop("prompts", {}))
    assert load_prompts(data, folder) == []
    return InferenceWorkload.model_validate_json(json.dumps(data | changes))


def chat_workload(turns: dict[str, Any] | None, phases: list[dict[str, Any]], **requests: Any) -> InferenceWorkload:
    """An external server's workload, whose prompts need no tokenizer here."""
    data = declare(source="url", url="memory://c.jsonl", format="messages", sha256="0" * 64)
    data["requests"] |= ({"turns": turns} if turns else {}) | requests
    data["server"] = {"backend": "external", "prefix_cache": "off", "client_placement": "other_region"}
    return InferenceWorkload.model_validate_json(json.dumps({**data, "acceptance": [], "phases": phases}))


def steady(arrivals: dict[str, Any], duration: str = "4s") -> list[dict[str, Any]]:
    return [{"name": "steady", "arrivals": arrivals, "duration": duration}]


CONSTANT = {"constant": {"rate": "2/s"}}


def test_prompts_are_the_files_own_and_their_lengths_the_tokenizers(tmp_path: Path) -> None:
    declared = text_workload(tmp_path, "brain flower", "a longer prompt, with more words in it.", "third")
    assert declared.requests.prompts is not None
    own = OwnPrompts(declared, selected_rows(declared.requests.prompts), tokenizer_of(declared, None))
    own.check()
    planned = schedule_of(declared)
    schedule, prompts = own.schedule(planned)
    texts = [prompt.text for phase in prompts.by_phase for prompt in phase]
    assert set(texts) == {"brain flower", "a longer prompt, with more words in it.", "third"}
    assert len(set(texts[:3])) == 3, "none twice before all were sent once"
    for load, phase, before in zip(schedule.phases, prompts.by_phase, planned.phases, strict=True):
        assert load.input_tokens.tolist() == [len(shipped_tokenizer().encode(str(prompt.text)).ids) for prompt in phase]
        assert np.array_equal(load.arrivals_s, before.arrivals_s) and np.array_equal(load.output_tokens, before.output_tokens)
    assert prompts.sha256 == own.schedule(planned)[1].sha256


def test_one_conversation_is_one_request_without_turns() -> None:
    declared = chat_workload(None, steady(CONSTANT))
    own = OwnPrompts(declared, [conversation(3)], None)
    _, prompts = own.schedule(schedule_of(declared))
    sent = prompts.by_phase[0][0]
    assert sent.messages is not None and sent.messages[-1] == {"role": "user", "content": "user 1.2"}
    assert len(sent.messages) == 5 and len(sent.ids) == 0


def test_a_conversation_sends_each_turn_with_what_was_said_before() -> None:
    declared = chat_workload({"count": 3, "think": "1s"}, steady(CONSTANT, "2s"))
    own = OwnPrompts(declared, [conversation(1, 1), conversation(4, 2), conversation(2, 3)], None)
    planned = schedule_of(declared)
    assert planned.n == 12
    schedule, prompts = own.schedule(planned)
    (load,), (sent,) = schedule.phases, prompts.by_phase
    # Four conversations, beginning with the second row: of 3 (at most), 2, 1 and 3 turns.
    assert turn_of(load, declared.requests).tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 2]
    assert load.after.tolist() == [-1, -1, -1, -1, 0, 1, 3, 4, 6]
    assert [len(prompt.messages or ()) for prompt in sent] == [1, 1, 1, 1, 3, 3, 3, 5, 5]
    for i, before in enumerate(load.after.tolist()):
        if before >= 0:
            assert load.arrivals_s[i] == 1.0
            assert (sent[i].messages or ())[: len(sent[before].messages or ())] == sent[before].messages


def test_users_of_a_closed_loop_go_on_with_the_next_conversation() -> None:
    closed = {"closed": {"users": 2, "requests": 12, "think": "0.5s"}}
    declared = chat_workload({"count": 3, "think": "1s"}, steady(closed, "60s"))
    own = OwnPrompts(declared, [conversation(1, 1), conversation(2, 2)], None)
    schedule, prompts = own.schedule(schedule_of(declared))
    (load,) = schedule.phases
    lines_sent = [(prompt.messages or ())[-1]["content"] for prompt in prompts.by_phase[0]]
    assert lines_sent == ["user 2.0", "user 1.0", "user 2.1", "user 2.0", "user 1.0", "user 2.1"]
    assert load.after.tolist() == [-1, -1, 0, 2, 1, 3]
    assert load.arrivals_s[2:].tolist() == [1.0, 0.5, 0.5, 1.0]


def test_a_searchs_probe_has_own_prompts() -> None:
    declared = chat_workload(None, steady(CONSTANT))
    own = OwnPrompts(declared, [conversation(1, i) for i in range(5)], None)
    load = schedule_of(declared).phases[0]
    fitted, prompts = own.probe(load, 0, 1)
    assert (fitted.n, len(prompts)) == (load.n, load.n)
    assert [p.messages for p in own.probe(load, 0, 1)[1]] == [p.messages for p in prompts]


def test_a_prompt_beyond_the_context_is_named_with_its_tokens(tmp_path: Path) -> None:
    long = " ".join(["word"] * 300)
    declared = text_workload(tmp_path, "short", long)
    tokens = len(shipped_tokenizer().encode(long).ids)
    own = OwnPrompts(declared, (PromptRow(1, "short"), PromptRow(2, long)), ShippedTokenizer(declared.model.context))
    with pytest.raises(UnusableFile, match=rf"^p\.txt:2: {tokens} tokens"):
        own.check()
    with pytest.raises(PlanError, match=rf"p\.txt:2: {tokens} tokens"):
        a_trial("inference", declare=json.loads(declared.model_dump_json()))


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llama")
    checkpoints.tokenizer(512, checkpoints.LLAMA_TEMPLATE, ["<|user|>", "<|assistant|>"]).save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 64}))
    return folder


def test_a_checkpoints_template_is_applied_and_sent_as_the_text_of_its_ids(llama: Path) -> None:
    served = CheckpointTokenizer(llama)
    assert served.context == 64 and CheckpointTokenizer(llama, 32).context == 32
    said = conversation(1).messages[:1]
    chat, text = served.read([said, "Just a text."])
    assert isinstance(chat, Tokenized) and isinstance(text, Tokenized)
    assert chat.text.endswith("<|user|>user 1.0</s><|assistant|>")
    from transformers import AutoTokenizer

    load: Any = AutoTokenizer.from_pretrained
    tokenizer = load(str(llama))
    assert chat.ids.tolist() == tokenizer.apply_chat_template(list(said), add_generation_prompt=True, return_dict=False)
    assert chat.ids.tolist() == tokenizer(chat.text)["input_ids"] and text.ids.tolist() == tokenizer("Just a text.")["input_ids"]


@pytest.mark.full
@pytest.mark.parametrize("private", [False, True])
def test_a_template_that_fails_names_the_line_and_quotes_nothing_private(llama: Path, tmp_path: Path, private: bool) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((llama / name).read_bytes())
    (tmp_path / "chat_template.jinja").write_text("{{ raise_exception('cannot render ' + messages[0]['content']) }}")
    declared = chat_workload(None, steady(CONSTANT))
    assert declared.requests.prompts is not None
    prompts = declared.requests.prompts.model_copy(update={"private": private})
    declared = declared.model_copy(update={"requests": declared.requests.model_copy(update={"prompts": prompts})})
    with pytest.raises(UnusableFile) as refused:
        OwnPrompts(declared, [conversation(1, 5)], CheckpointTokenizer(tmp_path)).check()
    assert str(refused.value).startswith("c.jsonl:5: ") and "chat template" in str(refused.value)
    assert ("user 5.0" in str(refused.value)) is not private


@pytest.mark.full
def test_a_checkpoint_without_a_tokenizer_or_a_template_is_refused(llama: Path, tmp_path: Path) -> None:
    declared = chat_workload(None, steady(CONSTANT))
    with pytest.raises(ValueError, match=r"tokenizer\.json"):
        OwnPrompts(declared, [conversation(1)], CheckpointTokenizer(tmp_path)).check()
    (tmp_path / "tokenizer.json").write_bytes((llama / "tokenizer.json").read_bytes())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    with pytest.raises(UnusableFile, match="chat template"):
        OwnPrompts(declared, [conversation(1)], CheckpointTokenizer(tmp_path)).check()


def test_prompts_at_an_address_are_fetched_and_checked(tmp_path: Path) -> None:
    import hashlib

    data = lines({"prompt": "a"}, {"prompt": "b"})
    (tmp_path / "p.jsonl").write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()

    def declared(url: str, sha256: str) -> Any:
        requests = {"output_tokens": {"constant": 4}, "text": True, "seed": 3}
        prompts = {"source": "url", "url": url, "format": "text", "sha256": sha256, "sample": 1}
        return a_trial("inference", declare={"requests": {**requests, "prompts": prompts}}).workload.requests.prompts  # type: ignore[union-attr]

    (row,) = selected_rows(declared((tmp_path / "p.jsonl").as_uri(), digest))
    assert row.text in ("a", "b")
    with pytest.raises(UnusableFile, match=digest):
        selected_rows(declared((tmp_path / "p.jsonl").as_uri(), "0" * 64))
    with pytest.raises(PromptFetchFailed, match="FileNotFoundError"):
        selected_rows(declared((tmp_path / "none.jsonl").as_uri(), digest))


def test_a_private_file_is_read_where_the_trial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = text_workload(tmp_path, "our secret", "another", prompts={"private": True}).requests.prompts
    assert declared is not None
    monkeypatch.setenv(PRIVATE_FOLDER, str(tmp_path))
    assert {row.text for row in selected_rows(declared)} == {"our secret", "another"}
    (tmp_path / "p.txt").write_text("our secret\nchanged\n")
    with pytest.raises(UnusableFile):
        selected_rows(declared)
    monkeypatch.setenv(PRIVATE_FOLDER, str(tmp_path / "none"))
    with pytest.raises(UnusableFile, match=r"^p\.txt "):
        selected_rows(declared)


def test_a_private_file_does_not_travel_to_a_pod(tmp_path: Path) -> None:
    declared = text_workload(tmp_path, "our secret", prompts={"private": True})
    assert "private file" in str(incompatibility(declared, cluster_provider()))
    assert incompatibility(declared, cluster_provider(env={PRIVATE_FOLDER: "/prompts"})) is None
    assert incompatibility(text_workload(tmp_path, "not secret"), cluster_provider()) is None


def test_drawn_prompts_are_as_before() -> None:
    declared = a_trial("inference").workload
    assert isinstance(declared, InferenceWorkload)
    assert prompts_of(declared, schedule_of(declared)).own is None


@pytest.mark.parametrize(
    ("detail", "kept"),
    [
        ("HTTP 429: you asked: our secret", f"HTTP 429: {WITHHELD}"),
        ("HTTP 500", "HTTP 500"),
        ("INVALID_ARGUMENT: our secret", f"INVALID_ARGUMENT: {WITHHELD}"),
        ("7 tokens; expected 8 tokens", "7 tokens; expected 8 tokens"),
        ("3 of 8 tokens within 2s", "3 of 8 tokens within 2s"),
        ("not JSON (x): our secret", WITHHELD),
        ("error in the stream: our secret", WITHHELD),
    ],
)
def test_an_error_of_a_private_request_keeps_what_the_client_wrote(detail: str, kept: str) -> None:
    assert safe_detail(detail) == kept


def test_lines_that_quote_a_private_text_are_withheld() -> None:
    log = "server ended\nTraceback: prompt='tell me about our secret\\nrecipe'\nValueError: no memory"
    assert without_text(log, ["Please tell me about our secret\nrecipe"]) == f"server ended\nValueError: no memory\n{WITHHELD}"
    assert without_text(log, ["something else that was never said"]) == log
