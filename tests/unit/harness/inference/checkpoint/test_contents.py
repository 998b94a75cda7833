"""What is read from a checkpoint's configuration and headers, and which file a broken one is refused for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM

from plumbline.harness.inference.checkpoint.contents import INDEX, BrokenCheckpoint, Contents, examine, needed_files
from plumbline.harness.inference.checkpoint.sources import LocalFiles

SECOND = "model-00002-of-00002.safetensors"


class Described:
    """A checkpoint of a declared configuration and declared tensors, without bytes of weights."""

    def __init__(self, config: Mapping[str, Any], tensors: Mapping[str, tuple[str, list[int], int]]) -> None:
        offset, header = 0, {}
        for name, (dtype, shape, size) in tensors.items():
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
            offset += size
        packed = json.dumps(header).encode()
        self._files = {
            "config.json": json.dumps(config).encode(),
            "tokenizer.json": b"{}",
            "model.safetensors": len(packed).to_bytes(8, "little") + packed,
        }
        self._weights = offset

    def sizes(self) -> Mapping[str, int]:
        return {name: len(data) + self._weights * (name == "model.safetensors") for name, data in self._files.items()}

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        return self._files[name][start:end]


def described(config: Mapping[str, Any], **tensors: tuple[str, list[int], int]) -> Contents:
    return examine(Described(config, {name.replace("__", "."): row for name, row in tensors.items()}))


@pytest.mark.parametrize("which", ["llama", "mixture"])
def test_sizes_are_those_that_transformers_counts(which: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(which)
    model = AutoModelForCausalLM.from_pretrained(folder)
    found = examine(LocalFiles(folder))
    assert found.parameters == model.num_parameters()
    assert found.weights_bytes == sum(p.numel() * p.element_size() for p in model.parameters())
    assert (found.vocabulary, found.context, found.precision) == (model.config.vocab_size, 512, "bf16")
    assert found.kv_cache_bytes_per_token == 2 * 2 * 1 * 32 * 2
    assert found.has_tokenizer and found.has_chat_template and found.quantised_to is None
    experts = sum(p.numel() for name, p in model.named_parameters() if ".experts." in name)
    assert found.active_parameters == model.num_parameters() - experts // 2
    assert (found.experts is None) == (which == "llama")


@pytest.mark.parametrize(
    ("config", "bytes_per_token"),
    [
        ({"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096}, 2 * 32 * 8 * 128 * 2),
        (
            {"num_hidden_layers": 61, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "num_attention_heads": 128, "hidden_size": 7168},
            61 * 576 * 2,
        ),
        ({"n_layer": 12, "n_head": 12, "n_embd": 768, "dtype": "float32"}, 2 * 12 * 12 * 64 * 4),
        ({"text_config": {"num_hidden_layers": 4, "num_attention_heads": 4, "hidden_size": 64, "head_dim": 32}}, 2 * 4 * 4 * 32 * 2),
        (
            {"layer_types": ["linear_attention", "full_attention"], "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 64},
            2 * 1 * 2 * 32 * 2,
        ),
        ({"num_hidden_layers": 4}, None),
    ],
)
def test_the_cache_of_each_kind_of_attention(config: dict[str, Any], bytes_per_token: int | None) -> None:
    assert described(config, w=("BF16", [8], 16)).kv_cache_bytes_per_token == bytes_per_token


@pytest.mark.parametrize(
    ("quantization", "precision"),
    [
        ({"quant_method": "awq", "bits": 4}, "int4"),
        ({"quant_method": "gptq", "bits": 8}, "int8"),
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "mxfp4"}, "int4"),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "int"}}}}, "int8"),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}}}, "fp8"),
        ({"quant_method": "unheard-of"}, None),
    ],
)
def test_what_the_files_are_quantised_to(quantization: dict[str, Any], precision: str | None) -> None:
    assert described({"quantization_config": quantization}, w=("BF16", [8], 16)).quantised_to == precision


def test_packed_weights_count_by_their_bits_and_scales_do_not() -> None:
    found = described(
        {"quantization_config": {"quant_method": "awq", "bits": 4}},
        layer__qweight=("I32", [8, 4], 128),
        layer__scales=("F16", [8, 2], 32),
        norm__weight=("F16", [8], 16),
    )
    assert (found.parameters, found.weights_bytes) == (8 * 4 * 8 + 8, 176)


def _truncated(folder: Path) -> None:
    data = (folder / SECOND).read_bytes()
    (folder / SECOND).write_bytes(data[:-100])


def _other_header(folder: Path) -> None:
    (folder / SECOND).write_bytes((4).to_bytes(8, "little") + b"????")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_truncated, SECOND),
        (_other_header, SECOND),
        (lambda folder: (folder / SECOND).unlink(), SECOND),
        (lambda folder: (folder / SECOND).write_bytes(b"version https://git-lfs.github.com/spec/v1\n"), SECOND),
        (lambda folder: (folder / SECOND).write_bytes(b""), SECOND),
        (lambda folder: (folder / "config.json").unlink(), "config.json"),
        (lambda folder: (folder / "config.json").write_text("{"), "config.json"),
        (lambda folder: (folder / INDEX).write_text("[]"), INDEX),
        (lambda folder: [path.unlink() for path in folder.glob("*.safetensors")], ".safetensors"),
    ],
)
def test_a_broken_checkpoint_is_refused_for_its_file(copy: Callable[[], Path], change: Callable[[Path], None], named: str) -> None:
    folder = copy()
    change(folder)
    with pytest.raises(BrokenCheckpoint) as raised:
        examine(LocalFiles(folder))
    assert named in str(raised.value) and "expected" in str(raised.value)


def test_only_what_an_engine_loads_is_needed() -> None:
    names = ["config.json", "model-1.safetensors", "consolidated.safetensors", "pytorch_model.bin", "original/a.pth", "README.md", "x.py"]
    assert needed_files(names) == ["config.json", "model-1.safetensors"]
    assert needed_files(["a.gguf", "model.safetensors"]) == ["model.safetensors"]
    assert needed_files(["consolidated.safetensors", "tekken.json", ".gitattributes"]) == ["consolidated.safetensors", "tekken.json"]


def test_one_gguf_file_is_a_checkpoint_and_several_are_a_choice(tmp_path: Path) -> None:
    for part in (1, 2):
        (tmp_path / f"model-q8-0000{part}-of-00002.gguf").write_bytes(b"GGUF")
    assert (examine(LocalFiles(tmp_path)).format, examine(LocalFiles(tmp_path)).weights_bytes) == ("gguf", 8)
    (tmp_path / "model-q4.gguf").write_bytes(b"GGUF")
    with pytest.raises(BrokenCheckpoint):
        examine(LocalFiles(tmp_path))
