"""Arguments and variables by which an engine runs code that no declaration shows: of a checkpoint, of a plugin, or of a module that is named.

Names are those of vLLM, SGLang, TensorRT-LLM and Hugging Face's text-generation-inference, with `_` for `-`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

RUNS_CODE = "makes the engine run code of a checkpoint, plugin or module"
_TRUST = "trust_remote_code"
_NAMES = (
    *(_TRUST, "middleware", "worker_extension_cls", "worker_cls", "scheduler_cls", "logits_processors", "custom_tokenizer", "auto_map"),
    *("custom_module_dirs", "custom_weight_loader", "enable_custom_logit_processor", "external_model_package", "extra_llm_api_options"),
    *("config", "connector_module"),
)
"""The last ones name a file of further arguments, or a module by its path."""
_ENDINGS = ("_cls", "_plugin", "_plugins", "_module_path", "_module_dirs")
_NAMED_CLASS = ("tokenizer_mode", "distributed_executor_backend", "backend", "load_format", "quantization")
"""Arguments whose value may be a registered `custom` or the path of a class, such as `package.module.Class`."""
_CLASS = re.compile(r"custom|[A-Za-z_]\w*([.:][A-Za-z_]\w*)+")
_TEXT = re.compile(r"trust[-_ ]?remote[-_ ]?code|auto_map", re.I)
_VARIABLES = re.compile(r"\w*TRUST_REMOTE_CODE\w*|VLLM_PLUGINS|VLLM_ALLOW_INSECURE_SERIALIZATION|SGLANG_EXTERNAL_\w+|SGLANG_PLUGINS")
_SHORTEST = 5
"""Characters of an abbreviated option that argparse could still complete to one of the names: `--trust`."""


def runs_remote_code(variable: str) -> bool:
    """Whether an environment variable of that name makes engines run such code."""
    return _VARIABLES.fullmatch(variable.upper()) is not None


def argument_with_code(args: Mapping[str, Any]) -> str | None:
    """The first of an engine's arguments that runs such code, such as kv_transfer_config.kv_connector_module_path; None without one."""
    return next(_arguments(args, ""), None)


def _arguments(value: Any, where: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            name = where + str(key)
            if _has_code(str(key), inner):
                yield name
            yield from _arguments(inner, f"{name}.")
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _arguments(inner, f"{where}{i}.")
    elif isinstance(value, str) and _TEXT.search(value):  # JSON as text
        yield where.rstrip(".")


def option_with_code(command: Sequence[str]) -> str | None:
    """The first part of a server's command that runs such code: an option, also abbreviated, a variable, or JSON that has one."""
    words = [(word, "{" in part) for part in command for word in re.split(r"[\s=,'\"{}\[\]]+", part) if word not in ("", ":")]
    for (word, of_json), (following, _) in zip(words, [*words[1:], ("", False)], strict=True):
        name = word.lstrip("-").rpartition(".")[2]
        if _TEXT.search(word) or _VARIABLES.fullmatch(word) or ((of_json or word.startswith("-")) and _has_code(name, following)):
            return word
        if word.startswith("--") and len(name) >= _SHORTEST and _abbreviates(name):
            return word
    return None


def _abbreviates(name: str) -> bool:
    return any(full.startswith(name.lower().replace("-", "_")) for full in _NAMES)


def _has_code(name: str, value: Any) -> bool:
    plain = name.lower().replace("-", "_")
    named = plain in _NAMED_CLASS and isinstance(value, str) and _CLASS.fullmatch(value)
    return plain in _NAMES or plain.endswith(_ENDINGS) or bool(named)
