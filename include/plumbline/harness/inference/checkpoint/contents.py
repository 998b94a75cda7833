"""Contents of a checkpoint: its files with sizes and SHA-256, its configuration and safetensors headers. No weights are read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, Protocol

from pydantic_core import from_json

from plumbline.declarations import digest
from plumbline.declarations.workloads.models import ServingPrecision
from plumbline.whole_file import sha256_file

_THREADS = 8  # hashlib computes without the interpreter's lock
_TOKENIZERS = ("tokenizer.model", "tokenizer.model.v3", "tekken.json", "merges.txt", "vocab.txt")
_WEIGHTS = (".safetensors", ".gguf")
_KNOWN = (*_WEIGHTS, ".json", ".jinja", ".tiktoken")


class BrokenCheckpoint(ValueError):
    """A checkpoint cannot be used; the message names the file, the fault and the expected content."""


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
        """ValueError if the list does not hash to its own `sha256`, or names a file of another folder."""
        data = from_json(text)
        manifest = cls(tuple(sorted(ManifestFile(**file) for file in data["files"])))
        if manifest.sha256 != data["sha256"]:
            raise ValueError(f"the manifest hashes to {manifest.sha256}; expected {data['sha256']}")
        if other := next((file.path for file in manifest.files if "/" in file.path or file.path.startswith(".")), None):
            raise ValueError(f"the manifest names {other}; expected files of the checkpoint's own folder")
        return manifest

    @classmethod
    def of_folder(cls, folder: Path, names: Iterable[str]) -> Manifest:
        """Reads every byte of the files."""
        ordered = sorted(names)
        with ThreadPoolExecutor(_THREADS) as pool:
            return cls(tuple(pool.map(lambda name: hash_file(folder, name), ordered)))


def hash_file(folder: Path, name: str) -> ManifestFile:
    return ManifestFile(name, (folder / name).stat().st_size, sha256_file(folder / name))


def needed_files(names: Iterable[str]) -> list[str]:
    """The files of a repository or folder that an engine loads: weights, configuration, tokenizer, chat template, none of a subfolder.

    Weights in pickle files (`.bin`, `.pth`) are left out, as they run code when they are loaded, and so is a second copy of sharded
    weights (`consolidated.safetensors`, or `.gguf` beside safetensors)."""
    own = [name for name in names if "/" not in name and not name.startswith(".") and (name.endswith(_KNOWN) or name in _TOKENIZERS)]
    shards = any(name.endswith(".safetensors") for name in own)
    has_standard = any(name.startswith("model") and name.endswith(".safetensors") for name in own)
    return sorted(
        name for name in own if not (has_standard and name.startswith("consolidated")) and not (shards and name.endswith(".gguf"))
    )


INDEX = "model.safetensors.index.json"
_HEADER_LIMIT = 100 << 20  # as safetensors itself has it
_BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "I64": 64, "I32": 32, "I16": 16, "I8": 8}
_BITS |= {"U8": 8, "U16": 16, "U32": 32, "U64": 64, "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}
_PRECISIONS: dict[str, ServingPrecision] = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
_SPLIT = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
_EXPERTS = re.compile(r"\.experts\.")
_PACKED = re.compile(r"\.(qweight|weight_packed|.*_blocks)$")
_SCALES = re.compile(r"\.(scales?|qzeros|g_idx|weight_scale.*|weight_zero_point|weight_shape|input_scale|.*_scales)$")


class Files(Protocol):
    """A checkpoint's files, here or elsewhere."""

    def sizes(self) -> Mapping[str, int]:
        """Bytes by name, of the files that an engine loads."""

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """The bytes from `start` up to `end`, which is not included."""


@dataclass(frozen=True)
class StoredTensor:
    name: str
    dtype: str
    elements: int
    bytes: int


@dataclass(frozen=True)
class Contents:
    """`config`: config.json. `weights`: bytes of all tensors. None: the files do not say."""

    config: Mapping[str, Any]
    parameters: int | None
    active_parameters: int | None
    weights_bytes: int
    has_tokenizer: bool
    has_chat_template: bool
    format: str

    @cached_property
    def _text(self) -> Mapping[str, Any]:
        """The configuration of the part that generates text, in a model with several modalities."""
        inner: Mapping[str, Any] = next(
            (self.config[key] for key in ("text_config", "llm_config", "language_config") if isinstance(self.config.get(key), dict)), {}
        )
        return {**self.config, **inner}

    def _number(self, *names: str) -> int | None:
        value = next((self._text[name] for name in names if isinstance(self._text.get(name), int)), None)
        return None if value is None else int(value)

    @property
    def architectures(self) -> tuple[str, ...]:
        return tuple(map(str, self.config.get("architectures") or ()))

    @property
    def vocabulary(self) -> int | None:
        return self._number("vocab_size")

    @property
    def context(self) -> int | None:
        return self._number("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length", "n_ctx")

    @property
    def experts(self) -> tuple[int, int] | None:
        """Experts of a layer, and those that one token passes through; None for a dense model."""
        all_ = self._number("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
        each = self._number("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_top_k", "moe_k")
        return (all_, each) if all_ and each and all_ > 1 else None

    @property
    def quantised_to(self) -> ServingPrecision | None:
        """The precision that the files are quantised to; None if they are not, or in an unknown way."""
        declared = self._text.get("quantization_config")
        return None if not isinstance(declared, dict) else _quantised_precision(declared)

    @property
    def precision(self) -> ServingPrecision | None:
        """The precision of the weights in the files."""
        return self.quantised_to or _PRECISIONS.get(str(self._text.get("dtype") or self._text.get("torch_dtype")))

    @property
    def kv_cache_bytes_per_token(self) -> int | None:
        """Keys and values of all layers at the activations' precision; of multi-head latent attention its compressed rows.

        Windows of attention are not subtracted: an upper bound."""
        layers = self._attention_layers
        size = 4 if self.precision == "fp32" else 2
        if layers is None:
            return None
        if (latent := self._number("kv_lora_rank")) is not None:
            return layers * (latent + (self._number("qk_rope_head_dim") or 0)) * size
        heads, width = self._number("num_attention_heads", "n_head", "n_heads"), self._number("hidden_size", "n_embd", "d_model")
        kv_heads = 1 if self._text.get("multi_query") else self._number("num_key_value_heads", "num_kv_heads", "n_head_kv") or heads
        head = self._number("head_dim") or (width // heads if width and heads else None)
        return None if kv_heads is None or head is None else 2 * layers * kv_heads * head * size

    @property
    def _attention_layers(self) -> int | None:
        kinds = self._text.get("layer_types")
        if isinstance(kinds, list) and kinds:
            return sum("attention" in str(kind) and "linear" not in str(kind) for kind in kinds)
        return self._number("num_hidden_layers", "n_layer", "n_layers", "num_layers")


def _quantised_precision(declared: Mapping[str, Any]) -> ServingPrecision | None:
    """The precision by the configuration of AWQ, GPTQ, compressed-tensors, fp8, MXFP4 and bitsandbytes."""
    method = str(declared.get("quant_method") or declared.get("quant_algo") or "").lower()
    groups = declared.get("config_groups")
    if isinstance(groups, dict) and groups:
        weights = next((g.get("weights") or {} for g in groups.values() if isinstance(g, dict)), {})
        bits, floats = weights.get("num_bits"), weights.get("type") == "float"
    else:
        bits = (
            declared.get("bits")
            or declared.get("w_bit")
            or (4 if declared.get("load_in_4bit") else 8 if declared.get("load_in_8bit") else None)
        )
        floats = "fp8" in method
        bits = 8 if floats else 4 if "fp4" in method else bits
    return {4: "int4", 8: "fp8" if floats else "int8"}.get(bits)  # type: ignore[arg-type]


def examine(files: Files) -> Contents:
    """BrokenCheckpoint if a file is missing, truncated or not what its name says."""
    sizes = files.sizes()
    gguf = [name for name in sizes if name.endswith(".gguf")]
    shards = sorted(name for name in sizes if name.endswith(".safetensors"))
    if gguf and not shards:
        if len({_SPLIT.sub("", name) for name in gguf}) > 1:
            raise BrokenCheckpoint(f"there are several .gguf files, {gguf[0]} and {gguf[1]}; expected a folder with the one that is served")
        return Contents({}, None, None, sum(sizes[name] for name in gguf), True, False, "gguf")
    if "config.json" not in sizes:
        raise BrokenCheckpoint("config.json is missing; expected a checkpoint in Hugging Face's layout, or one .gguf file")
    config = _json(files, "config.json")
    if not shards:
        raise BrokenCheckpoint(
            "there is no .safetensors file; expected the weights in safetensors (pickle files are not loaded, as they run code)"
        )
    if INDEX in sizes:
        _check_index(_json(files, INDEX), shards)
    tensors = [tensor for name in shards for tensor in _tensors(files, name, sizes[name])]
    contents = Contents(
        config, None, None, sum(tensor.bytes for tensor in tensors), _has_tokenizer(sizes), _has_template(files, sizes), "safetensors"
    )
    total, active = _parameters(tensors, contents.experts, contents.quantised_to)
    return replace(contents, parameters=total, active_parameters=active)


def _json(files: Files, name: str) -> dict[str, Any]:
    try:
        data = from_json(files.read(name))
    except ValueError as error:
        raise BrokenCheckpoint(f"{name} is not JSON ({error}); expected the checkpoint's own file") from error
    if not isinstance(data, dict):
        raise BrokenCheckpoint(f"{name} holds a {type(data).__name__}; expected an object")
    return data


def _check_index(index: Mapping[str, Any], shards: list[str]) -> None:
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict):
        raise BrokenCheckpoint(f"{INDEX} has no weight_map; expected tensors' names with their files")
    missing = sorted({str(name) for name in weight_map.values()} - set(shards))
    if missing:
        raise BrokenCheckpoint(f"{missing[0]} is missing; expected all {len(set(weight_map.values()))} files that {INDEX} names")


def _tensors(files: Files, name: str, size: int) -> list[StoredTensor]:
    if size < 8:
        raise BrokenCheckpoint(f"{name} has {size} bytes; expected a safetensors file")
    length = int.from_bytes(files.read(name, 0, 8), "little")
    if length > min(_HEADER_LIMIT, size - 8):
        raise BrokenCheckpoint(
            f"{name} is truncated or not a safetensors file: its header has {length} bytes, the file {size}; expected the whole file"
        )
    try:
        header = from_json(files.read(name, 8, 8 + length))
        rows = {str(key): row for key, row in header.items() if key != "__metadata__"}
        tensors = [
            StoredTensor(key, str(r["dtype"]), prod(r["shape"]), r["data_offsets"][1] - r["data_offsets"][0]) for key, r in rows.items()
        ]
        ends = max((row["data_offsets"][1] for row in rows.values()), default=0)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise BrokenCheckpoint(f"{name} has an unreadable header ({type(error).__name__}); expected a safetensors file") from error
    if (expected := 8 + length + ends) != size:
        raise BrokenCheckpoint(f"{name} has {size} bytes, but its header describes {expected}; expected the whole file")
    return tensors


def _parameters(tensors: list[StoredTensor], experts: tuple[int, int] | None, quantised: ServingPrecision | None) -> tuple[int, int]:
    """All weights, and those that a token passes through. Packed weights count by their bits; scales and zero points are none."""
    bits = {"int4": 4, "int8": 8, "fp8": 8}.get(quantised or "")
    total = routed = 0
    for tensor in tensors:
        if bits is not None and _SCALES.search(tensor.name):
            continue
        packed = bits is not None and (_PACKED.search(tensor.name) is not None) and _BITS.get(tensor.dtype, bits) > bits
        count = tensor.bytes * 8 // bits if packed and bits is not None else tensor.elements
        total += count
        routed += count if _EXPERTS.search(tensor.name) else 0
    if experts is None or not routed:
        return total, total
    return total, total - routed + routed * experts[1] // experts[0]


def _has_tokenizer(sizes: Mapping[str, int]) -> bool:
    whole = ("tokenizer.json", "tokenizer.model", "tokenizer.model.v3", "tekken.json", "vocab.txt")
    return (
        any(name in sizes for name in whole) or {"vocab.json", "merges.txt"} <= sizes.keys() or any(n.endswith(".tiktoken") for n in sizes)
    )


def _has_template(files: Files, sizes: Mapping[str, int]) -> bool:
    if "chat_template.jinja" in sizes or "chat_template.json" in sizes:
        return True
    return "tokenizer_config.json" in sizes and bool(_json(files, "tokenizer_config.json").get("chat_template"))
