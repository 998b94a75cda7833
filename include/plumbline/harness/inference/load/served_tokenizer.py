"""The served model's own tokenizer and chat template: text and conversations to exactly the ids that the server will read."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.workloads.checkpoints import FolderCheckpoint
from plumbline.declarations.workloads.prompts import Message
from plumbline.harness import engine_python
from plumbline.harness.inference.load.prompts import shipped_tokenizer
from plumbline.loadclient.prompt import TokenIds

_WITHIN_S = 600.0

Unread = str | tuple[Message, ...]
"""A text, or a conversation up to a message of the user."""


@dataclass(frozen=True)
class Tokenized:
    """The text that a server must be sent, and the ids, int32 [tokens], that it reads from it, its own special tokens included."""

    text: str
    ids: TokenIds


@dataclass(frozen=True)
class TemplateFailed:
    """A conversation that the chat template cannot render. `reason` may quote it."""

    reason: str


@dataclass(frozen=True)
class ShippedTokenizer:
    """The tokenizer of the project's own models and of dummy weights. It has no chat template. `context`: longest sequence in tokens; None if
    unknown."""

    context: int | None

    def read(self, prompts: Sequence[Unread]) -> list[Tokenized | TemplateFailed]:
        """One for each prompt."""
        encoded = iter(shipped_tokenizer().encode_batch([text for text in prompts if isinstance(text, str)], add_special_tokens=False))
        return [
            Tokenized(prompt, np.array(next(encoded).ids, np.int32)) if isinstance(prompt, str) else TemplateFailed("the model has none")
            for prompt in prompts
        ]


@dataclass(frozen=True)
class CheckpointTokenizer:
    """The tokenizer of the checkpoint in `folder`: tokenizer.json, tokenizer_config.json, chat_template.jinja. `declared_context` goes before config.json's."""

    folder: Path
    declared_context: int | None = None

    @cached_property
    def context(self) -> int | None:
        if self.declared_context is not None:
            return self.declared_context
        try:
            config = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        limit = config.get("max_position_embeddings") or (config.get("text_config") or {}).get("max_position_embeddings")
        return limit if isinstance(limit, int) else None

    def read(self, prompts: Sequence[Unread]) -> list[Tokenized | TemplateFailed]:
        """One for each prompt. ValueError for a tokenizer that cannot be loaded.

        In a process of its own: transformers imports torch, which has no place beside the client."""
        with tempfile.TemporaryDirectory(prefix="plumbline-tokens-") as folder:
            (Path(folder) / _ASKED).write_text(json.dumps({"checkpoint": str(self.folder), "prompts": prompts}), encoding="utf-8")
            try:
                done = engine_python.run("-c", f"from {__name__} import main; main()", folder, limit_s=_WITHIN_S)
            except subprocess.TimeoutExpired:
                raise ValueError(f"{len(prompts)} prompts were not tokenised within {_WITHIN_S:g}s; expected fewer prompts") from None
            answered = Path(folder) / _ANSWERED
            if not answered.exists():
                last = (done.stderr.strip().splitlines() or ["no output"])[-1]
                raise ValueError(f"the tokenizer's process ended with exit status {done.returncode} ({last.partition(':')[0]})")
            answer = json.loads(answered.read_text(encoding="utf-8"))
            if "failed" in answer:
                raise ValueError(
                    f"the checkpoint's tokenizer cannot be loaded ({answer['failed']}); expected tokenizer.json and tokenizer_config.json in it"
                )
            ids = np.load(Path(folder) / _IDS)
        ends = np.cumsum([item.get("tokens", 0) for item in answer["prompts"]]).tolist()
        return [
            TemplateFailed(item["error"]) if "error" in item else Tokenized(item["text"], ids[end - item["tokens"] : end].copy())
            for item, end in zip(answer["prompts"], ends, strict=True)
        ]


ServedTokenizer = ShippedTokenizer | CheckpointTokenizer


def tokenizer_of(workload: InferenceWorkload, folder: Path | None) -> ServedTokenizer | None:
    """The tokenizer of the workload's server; `folder`: of the checkpoint, where one was fetched. None for an external server, which counts
    tokens itself, and for a checkpoint that is not on this machine."""
    if workload.server.backend == "external":
        return None
    context: int | None = workload.model.context
    architecture: str = workload.model.architecture
    if architecture != "checkpoint":
        return ShippedTokenizer(context)
    if folder is None and isinstance(workload.model, FolderCheckpoint) and Path(workload.model.path).is_dir():
        folder = Path(workload.model.path)
    return CheckpointTokenizer(folder, context) if folder is not None else None


# What runs in the process of its own: prompts in, texts and ids out, as files of the folder that is its argument.

_ASKED, _ANSWERED, _IDS = "asked.json", "answered.json", "ids.npy"


def main() -> None:
    """Tokenise the prompts of the folder named by the first argument."""
    folder = Path(sys.argv[1])
    request = json.loads((folder / _ASKED).read_text(encoding="utf-8"))
    try:
        from transformers import AutoTokenizer

        load: Any = AutoTokenizer.from_pretrained
        tokenizer = load(request["checkpoint"], local_files_only=True, trust_remote_code=False)
    except Exception as error:  # noqa: BLE001 - OSError, ValueError, KeyError …: whatever its class raises for a broken one
        (folder / _ANSWERED).write_text(json.dumps({"failed": type(error).__name__}), encoding="utf-8")
        return
    answers: list[dict[str, Any]] = []
    ids: list[TokenIds] = []
    for prompt in request["prompts"]:
        try:
            text = prompt if isinstance(prompt, str) else _rendered(tokenizer, prompt)
        except Exception as error:  # noqa: BLE001 - a template's own code: any error of Jinja or of Python
            answers.append({"error": f"{type(error).__name__}: {error}"})
            continue
        ids.append(np.array(tokenizer(text)["input_ids"], np.int32))
        answers.append({"text": text, "tokens": len(ids[-1])})
    np.save(folder / _IDS, np.concatenate(ids) if ids else np.empty(0, np.int32))
    (folder / _ANSWERED).write_text(json.dumps({"prompts": answers}), encoding="utf-8")


def _rendered(tokenizer: Any, messages: list[Message]) -> str:
    """The conversation as text. A server adds its special tokens to text, which a template has put there already: the text that leads to the
    template's ids."""
    if not tokenizer.chat_template:
        raise ValueError("the checkpoint has no chat template; expected chat_template.jinja, or format text")
    rendered: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    ids = tokenizer(rendered, add_special_tokens=False)["input_ids"]
    first = tokenizer.bos_token
    for text in (rendered, rendered.removeprefix(first) if first else rendered):
        if tokenizer(text)["input_ids"] == ids:
            return text
    raise ValueError("sent as text, the rendered conversation has other token ids; expected an endpoint of protocol openai_chat")
