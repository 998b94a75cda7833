"""The prompts that a workload brings: where they come from, their formats, which of them are sent, and their compressed form inside a trial."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from plumbline.declarations.base import Declared
from plumbline.declarations.urls import DeclaredUrl
from plumbline.declarations.workloads.text_file import add_content, decode, deflated, inflated, read_bytes
from plumbline.declarations.workloads.workload import Seed
from plumbline.declarations.yaml_source import FieldPath, value_at
from plumbline.formats.reading.text_file import UnusableFile, json_array, json_lines, text_lines

MAX_PROMPTS = 100_000
DEFAULT_PROMPT_TOKENS = 512
"""For forecasts, where nothing is known of the prompts' lengths."""

PRIVATE_FOLDER = "PROMPTS_FOLDER"
"""The variable that names the folder with private prompt files where the trial runs; the installation's own prompts/ if unset."""

PromptFormat = Literal["text", "messages", "sharegpt"]
_Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_PATH = r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)*\.(jsonl|json|txt)$"


class _Prompts(Declared):
    """`format`: text (a line of a .txt file, or `prompt` or `text` of a JSON object), messages (`messages` with `role` and `content`), or
    sharegpt (`conversations` with `from` and `value`). `private`: documents, evidence and errors hold hashes and lengths, never text."""

    format: PromptFormat
    sample: int | None = Field(None, ge=1, le=MAX_PROMPTS, description="how many of them are used, drawn by `seed`; all if omitted")
    seed: Seed = 7
    private: bool = False
    expected_tokens: int | None = Field(
        None, ge=1, le=16_777_216, description="of a mean prompt, for cost forecasts; of a file a quarter of its characters if omitted"
    )

    @property
    def folder_variable(self) -> str | None:
        """The variable that must name the file's folder where the trial runs elsewhere; None if the trial brings or fetches the prompts."""
        return None


class FilePrompts(_Prompts):
    """A file in `prompts/` beside the declarations. When declarations are read, `sha256` (of the file), `selection` (SHA-256 of the sampled
    prompts) and, unless they are private, `content` (the sampled prompts, compressed) are added, so that a trial carries its prompts."""

    source: Literal["file"]
    path: str = Field(pattern=_PATH)
    sha256: _Sha256 | None = None
    selection: _Sha256 | None = None
    content: str | None = Field(None, repr=False)

    @property
    def folder_variable(self) -> str | None:
        """See _Prompts."""
        return PRIVATE_FOLDER if self.private else None


class UrlPrompts(_Prompts):
    """A file of any file system that fsspec knows (s3://, gs://, az://, https:// …), fetched by the trial and checked against `sha256`."""

    source: Literal["url"]
    url: DeclaredUrl = Field(
        pattern=r"^[a-z][a-z0-9+.-]*://.+\.(jsonl|json|txt)$", description="without user, password or query, since every result has it"
    )
    sha256: _Sha256


class HubPrompts(_Prompts):
    """A file of a dataset of the Hugging Face hub, fetched by the trial."""

    source: Literal["hub"]
    id: str = Field(pattern=r"^[\w.-]+/[\w.-]+$", description="owner/name of the dataset")
    revision: str = Field(pattern=r"^[0-9a-f]{40}$", description="the commit: a branch moves, and a series must not")
    path: str = Field(pattern=_PATH, description="the file in the dataset's repository")
    sha256: _Sha256 | None = None


PromptSet = Annotated[FilePrompts | UrlPrompts | HubPrompts, Field(discriminator="source")]


def file_name(prompts: PromptSet) -> str:
    """The file's name in messages."""
    return prompts.url.rpartition("/")[2] if isinstance(prompts, UrlPrompts) else prompts.path


MAX_FILE_BYTES = 32 * 2**20
"""Most bytes of a file beside the declarations, which is read with them. One that a trial fetches may be larger."""
MAX_CONTENT_BYTES = 2**20
"""Most bytes of the compressed prompts in a trial: its document, the archive's row and Airflow's metadata each hold them."""
MAX_SELECTION_BYTES = 256 * 2**20
_ROLES = ("system", "developer", "user", "assistant", "tool")
_SHAREGPT = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system", "tool": "tool"}
_TEXT_FIELDS = ("prompt", "text")

Message = dict[str, str]
"""`role` and `content`."""


@dataclass(frozen=True)
class PromptRow:
    """A prompt (`text`) or a conversation (`messages`). `line` of the file, or number in a JSON array, from 1."""

    line: int
    text: str | None = None
    messages: tuple[Message, ...] = ()

    @property
    def canonical(self) -> bytes:
        """One line of canonical JSON."""
        data = {"text": self.text} if self.text is not None else {"messages": self.messages}
        return json.dumps({"line": self.line, **data}, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"

    @property
    def turns(self) -> tuple[int, ...]:
        """Where each turn's prompt ends in `messages`: after a message of the user. Of a text: (0,)."""
        return tuple(i + 1 for i, message in enumerate(self.messages) if message["role"] == "user") if self.text is None else (0,)

    @property
    def contents(self) -> tuple[str, ...]:
        """The text, or the text of each message."""
        return (self.text,) if self.text is not None else tuple(message["content"] for message in self.messages)

    @property
    def characters(self) -> int:
        """Characters of the text, or of all messages up to the last one of the user."""
        return len(self.text) if self.text is not None else sum(len(message["content"]) for message in self.messages[: self.turns[-1]])


def read_rows(data: bytes, name: str, kind: PromptFormat) -> tuple[PromptRow, ...]:
    """All rows of a file's bytes. UnusableFile for a file without rows and for the first row of another shape."""
    text = decode(data, name)
    if name.endswith(".txt"):
        if kind != "text":
            raise UnusableFile(f"{name} holds plain text, but format is {kind}; expected format text, or a .jsonl file")
        rows = tuple(PromptRow(line, text=row) for line, row in text_lines(text))
    else:
        records = json_array(text, name) if name.endswith(".json") else json_lines(text, name)
        rows = tuple(_row(where, line, record, kind) for where, line, record in records)
    if not rows:
        raise UnusableFile(f"{name} holds no prompt; expected at least one")
    if len(rows) > MAX_PROMPTS:
        raise UnusableFile(f"{name} holds {len(rows):,} prompts; expected at most {MAX_PROMPTS:,}")
    return rows


def select(rows: Sequence[PromptRow], name: str, sample: int | None, seed: int) -> tuple[PromptRow, ...]:
    """`sample` rows (None: all), in an order drawn by `seed`. UnusableFile if there are fewer.

    Ordered by a hash, which gives the same rows on every machine and in every version of Python.
    """
    if sample is not None and sample > len(rows):
        raise UnusableFile(f"sample {sample} of {name}, which holds {len(rows)} prompts; expected at most {len(rows)}", "sample")
    return tuple(sorted(rows, key=lambda row: hashlib.sha256(f"{seed} {row.line}".encode()).digest())[:sample])


def selection_hash(rows: Sequence[PromptRow]) -> str:
    """SHA-256 (hex) of the rows in their order, as canonical JSON lines."""
    hashed = hashlib.sha256()
    for row in rows:
        hashed.update(row.canonical)
    return hashed.hexdigest()


def pack(rows: Sequence[PromptRow]) -> str:
    """The rows as base64 of their compressed lines."""
    return deflated(b"".join(row.canonical for row in rows))


def unpack(content: str, selection: str | None) -> tuple[PromptRow, ...]:
    """The rows of `pack`; UnusableFile if they are damaged or another selection."""
    try:
        records = [json.loads(line) for line in inflated(content, MAX_SELECTION_BYTES).splitlines()]
        rows = tuple(PromptRow(int(r["line"]), r.get("text"), tuple(r.get("messages", ()))) for r in records)
    except (ValueError, KeyError, TypeError, RecursionError, zlib.error) as error:
        raise UnusableFile(f"requests.prompts.content is damaged ({type(error).__name__}); expected the trial as it was planned") from None
    if (hash_of_rows := selection_hash(rows)) != selection:
        raise UnusableFile(f"requests.prompts.content hashes to {hash_of_rows}; expected selection {selection}")
    return rows


def load_prompts(data: Any, folder: Path) -> list[tuple[FieldPath, str]]:
    """Add what a trial needs of a prompt file to an inference workload's data; its problems, by field."""
    field = ("requests", "prompts")
    if value_at(data, (*field, "source")) != "file":
        return []
    return add_content(data, field, FilePrompts, "path", ("content", "selection"), lambda prompts: _content_of(folder, prompts))


def _content_of(folder: Path, prompts: FilePrompts) -> dict[str, Any]:
    rows, digest = read_file(folder, prompts)
    if prompts.sha256 not in (None, digest):
        raise UnusableFile(f"{prompts.path} has SHA-256 {digest}; expected {prompts.sha256}", "sha256")
    chosen = select(rows, prompts.path, prompts.sample, prompts.seed)
    content = None if prompts.private else pack(chosen)
    if content is not None and len(content) > MAX_CONTENT_BYTES:
        raise UnusableFile(
            f"{len(chosen)} prompts of {prompts.path} take {len(content):,} bytes in each trial; expected at most {MAX_CONTENT_BYTES:,}: "
            "a smaller sample, or source url"
        )
    expected = prompts.expected_tokens or max(1, round(sum(row.characters for row in chosen) / len(chosen) / 4))
    found = {"sha256": digest, "selection": selection_hash(chosen), "expected_tokens": expected}
    return found if content is None else {**found, "content": content}


def read_file(folder: Path, prompts: FilePrompts) -> tuple[tuple[PromptRow, ...], str]:
    """All rows of a declared file and its SHA-256 (hex). UnusableFile if it cannot be read."""
    content = read_bytes(folder / prompts.path, prompts.path, f"a file in {folder.name}/", MAX_FILE_BYTES, "a smaller file, or source url")
    return read_rows(content, prompts.path, prompts.format), hashlib.sha256(content).hexdigest()


def _row(where: str, line: int, record: Any, kind: PromptFormat) -> PromptRow:
    if kind == "text":
        if isinstance(record, str):
            return PromptRow(line, text=_content(where, "text", record))
        field = next((name for name in _TEXT_FIELDS if isinstance(record, dict) and name in record), None)
        if field is None:
            raise UnusableFile(f"{where} has no field prompt; expected an object such as {{prompt: …}}")
        return PromptRow(line, text=_content(where, field, record[field]))
    listed = "messages" if kind == "messages" else "conversations"
    if not isinstance(record, dict) or not isinstance(record.get(listed), list):
        raise UnusableFile(f"{where} has no list {listed}; expected an object with {listed} for format {kind}")
    messages = tuple(_message(where, f"{listed}[{i}]", message, kind) for i, message in enumerate(record[listed]))
    if not any(message["role"] == "user" for message in messages):
        raise UnusableFile(f"{where}, {listed} has no message of a user; expected at least one")
    return PromptRow(line, messages=messages)


def _message(where: str, field: str, message: Any, kind: PromptFormat) -> Message:
    role, content = ("role", "content") if kind == "messages" else ("from", "value")
    if not isinstance(message, dict) or role not in message:
        raise UnusableFile(f"{where}, {field} has no {role}; expected {role} and {content}")
    roles = {name: name for name in _ROLES} if kind == "messages" else _SHAREGPT
    named = message[role]
    if not isinstance(named, str) or named not in roles:
        raise UnusableFile(f"{where}, {field}.{role} is not known; expected one of {', '.join(roles)}")
    return {"role": roles[named], "content": _content(where, f"{field}.{content}", message.get(content), may_be_empty=named != "user")}


def _content(where: str, field: str, value: Any, *, may_be_empty: bool = False) -> str:
    if not isinstance(value, str):
        problem = "missing" if value is None else f"a {type(value).__name__}"
        raise UnusableFile(f"{where}, {field} is {problem}; expected text")
    if any("\ud800" <= character <= "\udfff" for character in value):  # half of a pair, which JSON can hold and UTF-8 cannot
        raise UnusableFile(f"{where}, {field} has half of a surrogate pair; expected Unicode text")
    if not value.strip() and not may_be_empty:
        raise UnusableFile(f"{where}, {field} is empty; expected text")
    return value
