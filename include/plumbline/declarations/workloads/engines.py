"""Inference engines by name, and how one is set up: arguments, parallelism, speculative decoding, adapters, an OpenAI-compatible server's command."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, JsonValue, ValidatorFunctionWrapHandler, model_validator

from plumbline.declarations.base import Declared, is_archived
from plumbline.declarations.workloads.checkpoints import Checkpoint, ModelFiles
from plumbline.declarations.workloads.remote_code import RUNS_CODE, argument_with_code, option_with_code

if TYPE_CHECKING:
    from plumbline.declarations.workloads.workload import Needs


GROUP = "plumbline.inference_engines"
PATH_MEASURED = ("python", "vllm", "tensorrtllm", "onnxruntime")
"""Engines of which a trial measures what their server carries without the model."""
ENGINE_MEMORY_SHARE = 0.9
"""Share of an accelerator's memory that engines may take (vLLM's gpu_memory_utilization); the rest is for activations and CUDA."""


@dataclass(frozen=True)
class InferenceEngine:
    """An engine's properties for planning; the module `writer` does the rest and is imported in the trial's process only.

    `writer` has `write(workload, folder, threads) -> Repository` (of a checkpoint with its folder as `checkpoint`), and
    `model_hash(workload) -> str` if the model is made from more than its declaration. `triton_backend` is Triton's backend that runs the model, `image` the suffix of NVIDIA's image that has it. `amd`: it
    computes on AMD GPUs too. `starts_slowly`: it loads a compiler or captures graphs before it is ready. `disk_bytes_per_parameter`: files
    that it writes. `package`: what the engine Python must be able to import.
    """

    architectures: tuple[str, ...]
    writer: str
    triton_backend: str
    image: str = "py3"
    reads_text: bool = True
    amd: bool = False
    starts_slowly: bool = False
    disk_bytes_per_parameter: float = 0.0
    package: str = ""


_WRITERS = "plumbline.harness.inference.server.backends"
ENGINES = {
    "python": InferenceEngine(("gpt", "encoder", "checkpoint"), f"{_WRITERS}.python", "python", amd=True),
    "vllm": InferenceEngine(("llama", "checkpoint"), f"{_WRITERS}.vllm", "python", "vllm-python-py3", starts_slowly=True, package="vllm"),
    "tensorrtllm": InferenceEngine(
        ("llama", "checkpoint"), f"{_WRITERS}.tensorrtllm", "python", "trtllm-python-py3", starts_slowly=True, package="tensorrt_llm"
    ),
    "openai": InferenceEngine(("llama", "checkpoint"), "", "", starts_slowly=True),
    "onnxruntime": InferenceEngine(("encoder",), f"{_WRITERS}.exported", "onnxruntime", reads_text=False, disk_bytes_per_parameter=4.0),
    "external": InferenceEngine(("gpt", "llama", "encoder", "checkpoint"), "", "", amd=True),
}


def engine(name: str) -> InferenceEngine:
    """The engine that `server.backend` names; KeyError if no package registers it."""
    if name in ENGINES:
        return ENGINES[name]
    for entry in entry_points(group=GROUP, name=name):
        registered = entry.load()
        if not isinstance(registered, InferenceEngine):
            raise TypeError(f"entry point {entry.value} in {GROUP}: expected an InferenceEngine")
        return registered
    raise KeyError(name)


def engines_of(architecture: str) -> list[str]:
    """Names of Plumbline's own engines that serve models of the architecture."""
    return [name for name, own in ENGINES.items() if architecture in own.architectures]


def registered_or_own(name: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """Validate `server.backend`: entry points are looked up for a name that is not Plumbline's own only."""
    if isinstance(name, str) and name not in ENGINES and entry_points(group=GROUP, name=name):
        return name
    return handler(name)


PLACEHOLDERS = ("model", "host", "port", "served_name", "context", "threads", "tensor", "pipeline", "data")
"""Names that a command's `{…}` can hold."""
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
AdapterName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
ArgName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
EngineArgs = dict[ArgName, JsonValue]
"""Arguments of an engine by its own names: scalars, lists and mappings."""

_OWNED: Mapping[str, Mapping[str, str]] = {
    "vllm": {
        "model": "model",
        "tokenizer": "model",
        "seed": "model.seed",
        "dtype": "model.precision",
        "max_model_len": "model.context",
        "max_num_seqs": "server.sequences",
        "enable_prefix_caching": "server.prefix_cache",
        "tensor_parallel_size": "server.parallel.tensor",
        "pipeline_parallel_size": "server.parallel.pipeline",
        "data_parallel_size": "server.parallel.data",
        "enable_expert_parallel": "server.parallel.expert",
        "speculative_config": "server.speculative",
        "kv_cache_dtype": "server.kv_cache_precision",
        "enable_lora": "server.adapters",
        "disable_log_stats": "nothing: stage times need them",
        "trust_remote_code": "server.trust_remote_code",
    },
    "tensorrtllm": {
        "model": "model",
        "tokenizer": "model",
        "dtype": "model.precision",
        "max_seq_len": "model.context",
        "max_batch_size": "server.sequences",
        "tensor_parallel_size": "server.parallel.tensor",
        "pipeline_parallel_size": "server.parallel.pipeline",
        "moe_expert_parallel_size": "server.parallel.expert",
        "speculative_config": "server.speculative",
        "trust_remote_code": "server.trust_remote_code",
    },
}
"""Arguments that other fields set, by backend."""


class Parallel(Declared):
    """How one model is divided over its accelerators; tensor × pipeline × data is their number."""

    tensor: int = Field(1, ge=1, le=1024, description="each matrix over so many")
    pipeline: int = Field(1, ge=1, le=1024, description="the layers over so many")
    data: int = Field(1, ge=1, le=1024, description="copies, which one engine feeds")
    expert: int = Field(1, ge=1, le=1024, description="the experts of a mixture over so many, in place of dividing each of them")

    @property
    def accelerators(self) -> int:
        return self.tensor * self.pipeline * self.data


class Speculative(Declared):
    """Tokens are proposed cheaply and verified by the model in one step; the answer is the model's own."""

    method: Literal["ngram", "draft_model", "eagle", "eagle3"] = Field(
        description="ngram: proposals are copied from the prompt and the answer so far"
    )
    tokens: int = Field(ge=1, le=64, description="proposed at once")
    model: ModelFiles | None = Field(
        None,
        description="the draft model or EAGLE head: source: hub, url or folder, or a path (or hub id) that the engine reads; none for ngram",
    )
    lookup: int = Field(4, ge=1, le=64, description="longest n-gram that is looked up")

    @model_validator(mode="after")
    def _drafter(self) -> Speculative:
        if (self.method == "ngram") == (self.model is not None):
            expected = "no model" if self.method == "ngram" else "model: {source: folder, path: /models/draft}, or another source"
            raise ValueError(f"method {self.method} {'with' if self.model else 'without'} a model; expected {expected}")
        return self


class EngineOptions(Declared):
    """Fields of `server` that concern the engine."""

    engine_args: EngineArgs = Field(
        default_factory=dict, description="further arguments of vLLM (AsyncEngineArgs) or TensorRT-LLM (LLM), by the engine's own names"
    )
    trust_remote_code: bool = Field(
        False,
        description="the engine may run code of the checkpoint, and of plugins and modules that engine_args or command name; refused otherwise",
    )
    triton_backend: Literal["vllm"] | None = Field(
        None, description="backend vllm: NVIDIA's own vllm backend of Triton, where the image has it; Plumbline's model file if omitted"
    )
    parallel: Parallel | None = Field(
        None, description="tensor parallel over needs.count accelerators if omitted; backend openai: what the command's {tensor} … are"
    )
    speculative: Speculative | None = None
    adapters: dict[AdapterName, ModelFiles] | None = Field(
        None,
        min_length=1,
        description="LoRA adapters served together, by name: source: hub, url or folder, or a path that the engine reads; requests take them in turn",
    )
    kv_cache_precision: Literal["bf16", "fp8"] | None = Field(None, description="of keys and values; the engine's choice if omitted")
    command: tuple[str, ...] | None = Field(
        None,
        min_length=1,
        description="backend openai: the program and its arguments, with {model}, {host}, {port}, {served_name}, {context}, {threads}, "
        "{tensor}, {pipeline} and {data}",
    )
    protocol: Literal["openai", "openai_chat"] | None = Field(None, description="backend openai: completions or chat; openai if omitted")
    exact_output: bool = Field(True, description="backend openai: false for a server that has no min_tokens and ignore_eos")

    @property
    def fetched_files(self) -> dict[str, Checkpoint]:
        """Drafts and adapters that are fetched before the server starts, by their field: `speculative`, and `adapters` with the adapter's name."""
        declared = {"speculative": self.speculative.model} if self.speculative is not None else {}
        named_files: dict[str, object] = {**declared, **{f"adapters.{name}": files for name, files in (self.adapters or {}).items()}}
        return {field: files for field, files in named_files.items() if isinstance(files, Checkpoint)}

    @property
    def draft_path(self) -> str | None:
        """Path of the draft model or EAGLE head, once it is fetched."""
        files = self.speculative.model if self.speculative is not None else None
        if isinstance(files, Checkpoint):
            raise TypeError("server.speculative.model is not fetched yet")
        return files

    @property
    def adapter_paths(self) -> dict[str, str]:
        """Paths of the adapters by name, once they are fetched."""
        adapters = self.adapters or {}
        if unread := [name for name, files in adapters.items() if not isinstance(files, str)]:
            raise TypeError(f"server.adapters.{unread[0]} is not fetched yet")
        return {name: str(files) for name, files in adapters.items()}


def check_engine_options(options: EngineOptions, backend: str, needs: Needs, *, text: bool) -> None:
    """ValueError, with the field, for options that the backend does not have or that contradict the workload."""
    engines = ("vllm", "tensorrtllm")
    for field in ("engine_args", "parallel", "speculative", "kv_cache_precision", "trust_remote_code"):
        if getattr(options, field) and backend not in (*engines, *(("openai",) if field in ("parallel", "trust_remote_code") else ())):
            hint = "; with backend openai write them into server.command" if backend == "openai" else ""
            raise ValueError(f"server.{field} on server.backend {backend}; expected backend vllm or tensorrtllm{hint}")
    if options.adapters and backend not in ("vllm", "openai"):
        raise ValueError(f"server.adapters on server.backend {backend}; expected backend vllm or openai")
    if options.triton_backend is not None and backend != "vllm":
        raise ValueError(f"server.triton_backend on server.backend {backend}; expected backend vllm")
    if backend == "openai" and options.fetched_files:
        raise ValueError(
            f"server.{next(iter(options.fetched_files))} with a source on server.backend openai, whose command reads the folders; expected a "
            "path, or backend vllm"
        )
    check_engine_args(options.engine_args, backend, "server.engine_args", remote_code=options.trust_remote_code)
    if options.parallel is not None:
        _check_parallel(options.parallel, backend, needs)
    _check_command(options, backend, text=text)


def check_engine_args(args: EngineArgs, backend: str, where: str, *, remote_code: bool = False) -> None:
    """ValueError for an argument that another field sets, or that runs code of others without `remote_code`."""
    if not (remote_code or is_archived()) and (found := argument_with_code(args)) is not None:
        raise ValueError(f"{where}.{found} {_RUNS_CODE}")
    for name in args:
        if (field := _OWNED.get(backend, {}).get(name)) is not None and not (name == "trust_remote_code" and is_archived()):
            raise ValueError(f"{where}.{name} is set by {field}; expected it there")


_RUNS_CODE = f"{RUNS_CODE}; expected none, or server.trust_remote_code: true in the workload that needs it"


def _check_parallel(parallel: Parallel, backend: str, needs: Needs) -> None:
    used, cpu = parallel.accelerators, needs.accelerator == "cpu"  # cores need not all be used
    if used > needs.count or (used != needs.count and not cpu):
        raise ValueError(
            f"server.parallel divides the model over {used} (tensor {parallel.tensor} × pipeline {parallel.pipeline} × data {parallel.data}) "
            f"with needs.count {needs.count}; expected a product of {'at most ' if cpu else ''}{needs.count}"
        )
    if backend == "openai":
        if parallel.expert != 1:
            raise ValueError(f"server.parallel.expert {parallel.expert} on server.backend openai; expected it in server.command")
        return
    if parallel.data > 1 and backend == "tensorrtllm":
        raise ValueError("server.parallel.data on server.backend tensorrtllm, which runs one copy; expected 1, or replicas: fill")
    ranks = parallel.tensor * parallel.data
    whole = backend == "vllm" and parallel.expert not in (1, ranks)
    if whole or math.gcd(parallel.expert, ranks) != parallel.expert:
        expected = f"1 or {ranks} (tensor × data)" if backend == "vllm" else f"a divisor of tensor {parallel.tensor}"
        raise ValueError(f"server.parallel.expert {parallel.expert} on server.backend {backend}; expected {expected}")


def _check_command(options: EngineOptions, backend: str, *, text: bool) -> None:
    if backend != "openai":
        for field in ("command", "protocol"):
            if getattr(options, field) is not None:
                raise ValueError(f"server.{field} on server.backend {backend}; expected backend openai")
        if not options.exact_output:
            raise ValueError(f"server.exact_output on server.backend {backend}; expected backend openai")
        return
    if options.command is None:
        raise ValueError(
            "server.backend openai without server.command; expected the command of an OpenAI-compatible server, such as "
            '[vllm, serve, "{model}", --port, "{port}"]'
        )
    if not (options.trust_remote_code or is_archived()) and (found := option_with_code(options.command)) is not None:
        raise ValueError(f"server.command: {found} {_RUNS_CODE}")
    placeholders = [name for part in options.command for name in _PLACEHOLDER.findall(part)]
    for name in placeholders:
        if name not in PLACEHOLDERS:
            raise ValueError(f"server.command names {{{name}}}; expected one of {', '.join(f'{{{each}}}' for each in PLACEHOLDERS)}")
    for name in ("tensor", "pipeline", "data"):
        if getattr(options.parallel or Parallel(), name) > 1 and name not in placeholders:
            raise ValueError(
                f"server.command does not name {{{name}}}, which server.parallel.{name} is for; expected it among the arguments"
            )
    if "port" not in placeholders:
        raise ValueError("server.command does not name {port}, which the trial chooses; expected it among the arguments")
    if options.protocol == "openai_chat" and not text:
        raise ValueError(
            "server.protocol openai_chat with requests.text false: a chat has no token ids; expected text: true, or protocol openai"
        )


def fill_command(command: tuple[str, ...], values: Mapping[str, str | int]) -> list[str]:
    """The command with its placeholders replaced; other braces, such as JSON's, stay."""
    return [_PLACEHOLDER.sub(lambda match: str(values[match[1]]), part) for part in command]
