"""The served model's own tokenizer and chat template: text and conversations to exactly the ids that the server will read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.workloads.checkpoints import FolderCheckpoint
from plumbline.declarations.workloads.prompt_files import Message
from plumbline.harness.inference.load.prompts import TokenIds, shipped_tokenizer


class TemplateFailed(ValueError):
    """A chat template that cannot render a conversation. `reason` may quote the conversation."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ServedTokenizer(Protocol):
    @property
    def context(self) -> int | None:
        """Longest sequence in tokens; None if unknown."""
        ...

    def encode(self, text: str) -> TokenIds:
        """The ids, int32 [tokens], that a server reads from this text, its own special tokens included."""
        ...

    def render(self, messages: Sequence[Message]) -> str:
        """The text that a server must be sent for this conversation, up to where the model answers. Raises TemplateFailed."""
        ...


@dataclass(frozen=True)
class ShippedTokenizer:
    """Of the project's own models and of dummy weights."""

    context: int | None

    def encode(self, text: str) -> TokenIds:
        return np.array(shipped_tokenizer().encode(text, add_special_tokens=False).ids, np.int32)

    def render(self, messages: Sequence[Message]) -> str:
        raise TemplateFailed("the model has no chat template; expected format text")


@dataclass(frozen=True)
class CheckpointTokenizer:
    """Of the checkpoint in `folder`: tokenizer.json, tokenizer_config.json, chat_template.jinja. `declared_context` goes before config.json's."""

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
        found = config.get("max_position_embeddings") or (config.get("text_config") or {}).get("max_position_embeddings")
        return found if isinstance(found, int) else None

    def encode(self, text: str) -> TokenIds:
        return np.array(self._tokenizer(text)["input_ids"], np.int32)

    def render(self, messages: Sequence[Message]) -> str:
        if not self._tokenizer.chat_template:
            raise TemplateFailed("the checkpoint has no chat template; expected chat_template.jinja, or format text")
        try:
            rendered: str = self._tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
        except Exception as error:  # noqa: BLE001 - a template's own code: any error of Jinja or of Python
            raise TemplateFailed(f"{type(error).__name__}: {error}") from None
        return self._sent(rendered)

    def _sent(self, rendered: str) -> str:
        """A server adds its special tokens to text, which a template has put there already: the text that leads to the template's ids."""
        ids = self._tokenizer(rendered, add_special_tokens=False)["input_ids"]
        first = self._tokenizer.bos_token
        candidates = [rendered, *([rendered.removeprefix(first)] if first else [])]
        for text in candidates:
            if self._tokenizer(text)["input_ids"] == ids:
                return text
        raise TemplateFailed("the rendered conversation, sent as text, has other token ids; expected an endpoint of protocol openai_chat")

    @cached_property
    def _tokenizer(self) -> Any:
        from transformers import AutoTokenizer  # seconds to import, and only own prompts of a checkpoint need it

        load: Any = AutoTokenizer.from_pretrained
        try:
            return load(str(self.folder), local_files_only=True, trust_remote_code=False)
        except Exception as error:  # noqa: BLE001 - OSError, ValueError and KeyError for a missing one, whatever its class raises for a broken one
            raise ValueError(
                f"the checkpoint's tokenizer cannot be loaded ({type(error).__name__}); expected tokenizer.json and tokenizer_config.json in it"
            ) from None


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
