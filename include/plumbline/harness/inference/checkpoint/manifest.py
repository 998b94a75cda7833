"""A checkpoint's files with their sizes and SHA-256: the model's identity, wherever the files come from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from plumbline.declarations import digest

_BLOCK = 4 << 20
_THREADS = 8  # hashlib computes without the interpreter's lock
_TOKENIZERS = ("tokenizer.model", "tokenizer.model.v3", "tekken.json", "merges.txt", "vocab.txt")
_WEIGHTS = (".safetensors", ".gguf")
_KNOWN = (*_WEIGHTS, ".json", ".jinja", ".tiktoken")


class BrokenCheckpoint(ValueError):
    """What is wrong with which file, and what was expected."""


@dataclass(frozen=True, order=True)
class ManifestFile:
    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """Files by path, relative to the checkpoint's folder."""

    files: tuple[ManifestFile, ...]

    @cached_property
    def sha256(self) -> str:
        """Hash (hex) of the list of files as canonical JSON; no date or source is in it."""
        return digest([asdict(file) for file in self.files])

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    def to_json(self) -> str:
        return json.dumps({"sha256": self.sha256, "files": [asdict(file) for file in self.files]}, indent=1) + "\n"

    @classmethod
    def of_json(cls, text: str) -> Manifest:
        """ValueError if the list does not hash to its own `sha256`."""
        data = json.loads(text)
        found = cls(tuple(sorted(ManifestFile(**file) for file in data["files"])))
        if found.sha256 != data["sha256"]:
            raise ValueError(f"the manifest hashes to {found.sha256}; expected {data['sha256']}")
        return found

    @classmethod
    def of_folder(cls, folder: Path, names: Iterable[str]) -> Manifest:
        """Reads every byte of the files."""
        ordered = sorted(names)
        with ThreadPoolExecutor(_THREADS) as pool:
            return cls(tuple(pool.map(lambda name: hash_file(folder, name), ordered)))


def hash_file(folder: Path, name: str) -> ManifestFile:
    hashed, size = hashlib.sha256(), 0
    with (folder / name).open("rb") as file:
        while block := file.read(_BLOCK):
            hashed.update(block)
            size += len(block)
    return ManifestFile(name, size, hashed.hexdigest())


def needed_files(names: Iterable[str]) -> list[str]:
    """Of a repository or folder those that an engine loads: weights, configuration, tokenizer, chat template, none of a subfolder.

    Weights in pickle files (`.bin`, `.pth`) are left out, as they run code when they are loaded, and so is a second copy of sharded
    weights (`consolidated.safetensors`, or `.gguf` beside safetensors)."""
    own = [name for name in names if "/" not in name and not name.startswith(".") and (name.endswith(_KNOWN) or name in _TOKENIZERS)]
    shards = any(name.endswith(".safetensors") for name in own)
    has_standard = any(name.startswith("model") and name.endswith(".safetensors") for name in own)
    return sorted(
        name for name in own if not (has_standard and name.startswith("consolidated")) and not (shards and name.endswith(".gguf"))
    )
