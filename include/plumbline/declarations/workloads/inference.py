"""An inference workload: model, server, requests, load phases, service-level objective, retrieval."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, PlainSerializer, WrapValidator, model_validator

from plumbline.declarations.base import Declared
from plumbline.declarations.workloads.checkpoints import UNQUANTISED, Checkpoint, ServedModel
from plumbline.declarations.workloads.engines import EngineOptions, check_engine_options, engine, engines_of, registered_or_own
from plumbline.declarations.workloads.evaluation import Evaluation, Quality
from plumbline.declarations.workloads.load import (
    ContextPhaseSpec,
    FaultPhaseSpec,
    LoadPhaseSpec,
    PhaseSpec,
    Requests,
    ScaleOutPhaseSpec,
    Trace,
)
from plumbline.declarations.workloads.models import Encoder, Llama, unsupported_precision
from plumbline.declarations.workloads.prompts import UrlPrompts
from plumbline.declarations.workloads.retrieval import Retrieval, unsupported_retrieval
from plumbline.declarations.workloads.workload import Workload
from plumbline.metrics import PHASES
from plumbline.metrics.units import Duration

TOKENIZER_VOCABULARY = 2048
"""Tokens of the shipped tokenizer (harness/inference/load/tokenizer.json), which makes the text of `requests.text`."""


def check_request_lengths(requests: Requests, phases: Sequence[PhaseSpec], model: ServedModel, *, own_tokenizer: bool) -> None:
    """ValueError, with the field and the line of a trace, for requests that the model cannot serve.

    `own_tokenizer`: the server's tokenizer is the shipped one; an external server has its own. A checkpoint whose context is not declared is
    checked when it has been fetched.
    """
    _check_unique_part(requests)
    context = model.context if model.context is not None else sys.maxsize
    if requests.prompts is not None:
        _check_prompts(requests, phases, model, context)
    elif (longest := _longest_sequence(requests)) > context:
        raise ValueError(
            f"requests can be {longest} tokens long ({_describe_turns(requests)}), over model.context {context}; expected at most the context"
        )
    if requests.text and own_tokenizer and not isinstance(model, Checkpoint) and model.vocabulary != TOKENIZER_VOCABULARY:
        raise ValueError(
            f"requests.text with model.vocabulary {model.vocabulary}: the shipped tokenizer makes ids of {TOKENIZER_VOCABULARY}; "
            f"expected vocabulary {TOKENIZER_VOCABULARY}, or text: false"
        )
    for i, phase in enumerate(phases):
        if isinstance(phase, ContextPhaseSpec):
            _check_context_phase(f"phases[{i}].input_tokens", phase, requests, context)
        elif isinstance(phase, LoadPhaseSpec | FaultPhaseSpec) and phase.arrivals.trace is not None:
            _check_trace(f"phases[{i}].arrivals.trace", phase.arrivals.trace, requests, context, model)


def _check_prompts(requests: Requests, phases: Sequence[PhaseSpec], model: ServedModel, context: int) -> None:
    """Their own lengths are checked where there is a tokenizer: when a trial is planned, or when it begins."""
    if (written := requests.output_tokens.longest) >= context:
        raise ValueError(f"requests.output_tokens can be {written}, with model.context {context}; expected room for a prompt")
    if isinstance(model, Encoder) and (model.task == "vision" or requests.prompts is None or requests.prompts.format != "text"):
        raise ValueError(f"requests.prompts for a model of task {model.task}; expected format text, and a model that reads text")
    for i, phase in enumerate(phases):
        if isinstance(phase, ContextPhaseSpec):
            raise ValueError(
                f"phases[{i}] context with requests.prompts, but the phase sets the lengths of its prompts; expected no prompts"
            )
        if (
            isinstance(phase, LoadPhaseSpec | FaultPhaseSpec)
            and phase.arrivals.trace is not None
            and phase.arrivals.trace.after is not None
        ):
            raise ValueError(
                f"phases[{i}].arrivals.trace has conversations with requests.prompts, which have their own; expected a trace without conversations"
            )


def _check_unique_part(requests: Requests) -> None:
    prefix = requests.shared_prefix
    if prefix is not None and requests.input_tokens is not None and requests.input_tokens.shortest <= prefix.tokens:
        raise ValueError(
            f"requests.input_tokens can be {requests.input_tokens.shortest}, not more than the shared_prefix of {prefix.tokens} tokens; "
            f"expected at least {prefix.tokens + 1}: input_tokens include the prefix, and a prompt has its own part"
        )


def _longest_sequence(requests: Requests) -> int:
    """Maximum of a request's tokens, input and output."""
    prefix = requests.shared_prefix.tokens if requests.shared_prefix else 0
    a_turn = requests.prompt_lengths.longest - prefix + requests.output_tokens.longest
    return prefix + a_turn * (requests.turns.count if requests.turns else 1)


def _describe_turns(requests: Requests) -> str:
    return f"{requests.turns.count} turns of input + output" if requests.turns else "input + output"


def _check_context_phase(where: str, phase: ContextPhaseSpec, requests: Requests, context: int) -> None:
    longest, written = phase.input_tokens[-1], requests.output_tokens.longest
    if longest + written > context:
        raise ValueError(
            f"{where}: {longest} tokens in, up to {written} out, over model.context {context}; expected at most "
            f"{max(context - written, 0)}, or a larger context"
        )


def _check_trace(where: str, trace: Trace, requests: Requests, context: int, model: ServedModel) -> None:
    if requests.turns is not None:
        raise ValueError(f"{where} with requests.turns, but a recorded request has no next turn; expected no turns")
    prefix = requests.shared_prefix.tokens if requests.shared_prefix else 0
    for i, (_, recorded, written) in enumerate(trace.rows or ()):
        read = recorded if requests.prompts is None else 1
        if read + written > context:
            raise ValueError(
                f"{where} {trace.row(i)}: {read} tokens in, {written} out, over model.context {context}; expected at most the context: "
                "choose a larger context or remove the request from the file"
            )
        if read <= prefix:
            raise ValueError(f"{where} {trace.row(i)}: {read} tokens in; expected above requests.shared_prefix.tokens {prefix}")
        if isinstance(model, Encoder) and written != 1:
            raise ValueError(f"{where} {trace.row(i)}: {written} tokens out; expected 1 for an encoder")


class Server(EngineOptions):
    """The server and its settings.

    python       Triton's Python backend: the project's own causal LM or encoder, or a checkpoint with transformers
    vllm, tensorrtllm    the engine behind the project's model on Triton's Python backend: a checkpoint, or dummy weights of a shape
    openai       an OpenAI-compatible server that the trial starts by `command`
    onnxruntime  Triton with NVIDIA's images: tensor models (embedding, reranking, vision)
    external     a server that exists already: the provider's launcher says where
    """

    backend: Annotated[
        Literal["python", "vllm", "tensorrtllm", "openai", "onnxruntime", "external"],
        WrapValidator(registered_or_own),
        # A lambda: without the annotation of a return type the JSON Schema stays that of the own engines.
        PlainSerializer(lambda name: name),
    ]
    sequences: int = Field(64, ge=1, le=65536, description="limit of concurrent requests; further ones wait")
    prefix_cache: Literal["off", "cold", "primed"] = Field(
        "off", description="cold: on and empty when a phase begins; primed: filled with the shared prefixes"
    )
    client_placement: Literal["same_node", "other_node", "other_region"] = "same_node"
    ready_timeout: Duration | None = Field(
        None,
        description="time limit of the server's start; 20min on accelerators and 5min on CPUs if omitted",
    )


_ENDS_ITSELF = ("vllm", "tensorrtllm", "openai", "external")
"""Backends that end an answer where the model does. The project's own models have no end token."""
_DECLARABLE_PHASES = ("warmup", "steady", "context", "stress", "sweep", "burst", "scale_out", "fault")


class Slo(Declared):
    """Limits that every good request meets; goodput counts the requests that met all of them."""

    time_to_first_token: Duration | None = None
    time_per_output_token: Duration | None = Field(
        None, description="limit on the request's time from first to last token, over the tokens after the first"
    )
    inter_token_latency: Duration | None = Field(None, description="limit on the request's mean inter-token latency")
    request_scheduled_latency: Duration | None = None

    @model_validator(mode="after")
    def _require_a_limit(self) -> Slo:
        if not self.model_dump(exclude_none=True):
            raise ValueError("an empty slo limits nothing; expected at least one limit such as time_to_first_token: 2s")
        return self


class InferenceWorkload(Workload):
    """One YAML file under `include/config/workloads/inference/`."""

    kind: Literal["inference"]
    model: ServedModel
    server: Server
    replicas: Literal["fill"] | None = Field(
        None, description="fill: as many servers as the node's accelerators hold, which share the load; one server if omitted"
    )
    requests: Requests
    phases: Annotated[tuple[PhaseSpec, ...], Field(min_length=1)]
    request_timeout: Duration = 30.0
    slo: Slo
    quality: Quality | None = Field(None, description="of a checkpoint; what an earlier trial declared of random weights is not checked")
    evaluation: Evaluation | None = Field(None, description="questions with expected answers, asked before the load")
    retrieval: Retrieval | None = Field(None, description="documents that are searched for each request and added to its prompt")

    @model_validator(mode="after")
    def _consistent(self) -> InferenceWorkload:
        order = [PHASES.index(phase.name) for phase in self.phases]
        for i, (before, after) in enumerate(pairwise(order), start=1):
            if after <= before:
                raise ValueError(
                    f'phases[{i}] "{self.phases[i].name}" comes after "{self.phases[i - 1].name}"; expected each phase at most once, '
                    f"in the order {' → '.join(p for p in PHASES if p in _DECLARABLE_PHASES)}"
                )
        if "steady" not in (phase.name for phase in self.phases):
            raise ValueError("no steady phase; expected one, such as {name: steady, arrivals: {poisson: {rate: 8/s}}, duration: 60s}")
        check_request_lengths(self.requests, self.phases, self.model, own_tokenizer=self.server.backend != "external")
        self._own_lengths()
        self._model_and_server()
        if self.replicas is not None:
            self._one_server_only()
        if self.retrieval is not None:
            self._retrieved(self.retrieval)
        self._outputs()
        measured = {phase.name for phase in self.phases} | {"cold_start"}
        if any(isinstance(phase, FaultPhaseSpec) for phase in self.phases):
            measured.add("recovery")
        for criterion in self.acceptance:
            if criterion.phase not in measured:
                raise ValueError(f'"{criterion.text}" names a phase that is not declared; expected one of {", ".join(sorted(measured))}')
        return self

    def _own_lengths(self) -> None:
        """A growing context sets the lengths of prompts itself, and each token of them must be computed; steps set the rate of all requests."""
        if self.scale_out is not None and self.requests.turns is not None:
            raise ValueError("phase scale_out with requests.turns, whose later turns come at their own times; expected no turns")
        for i, phase in enumerate(self.phases):
            if not isinstance(phase, ContextPhaseSpec):
                continue
            for what in ("turns", "shared_prefix"):
                if getattr(self.requests, what) is not None:
                    raise ValueError(
                        f"phases[{i}] context with requests.{what}, but the phase sets the lengths of its prompts; expected no {what}"
                    )
            if self.server.prefix_cache != "off":
                raise ValueError(
                    f"phases[{i}] context with server.prefix_cache {self.server.prefix_cache}: its prompts share no prefix; expected off"
                )

    def _model_and_server(self) -> None:
        served, architecture = engine(self.server.backend), self.model.architecture
        if architecture not in served.architectures:
            raise ValueError(
                f"server.backend {self.server.backend} does not serve architecture {architecture}; "
                f"expected server.backend {' or '.join(engines_of(architecture))}"
            )
        if not isinstance(self.model, Checkpoint) and (
            refusal := unsupported_precision(self.model, self.server.backend, self.needs.accelerator)
        ):
            raise ValueError(refusal)
        if self.requests.text and not served.reads_text:
            raise ValueError(f"requests.text on server.backend {self.server.backend}, which has no tokenizer; expected text: false")
        self._own_prompts()
        if isinstance(self.model, Encoder) and self.model.task == "vision" and self.requests.text:
            raise ValueError("requests.text for a vision model, which is asked with images; expected text: false")
        if isinstance(self.model, Encoder) and self.requests.output_tokens.constant != 1:
            raise ValueError("an encoder answers once; expected requests.output_tokens: {constant: 1}")
        if isinstance(self.model, Encoder) and self.server.prefix_cache != "off" and self.server.backend != "external":
            raise ValueError(
                f"server.prefix_cache {self.server.prefix_cache} for an encoder, whose tokens depend on later ones, so that no prefix can be "
                "cached; expected off"
            )
        check_engine_options(self.server, self.server.backend, self.needs, text=self.requests.text)
        if self.server.triton_backend is not None:
            self._text_only()
        if self.server.fetched_files and not isinstance(self.model, Checkpoint):
            raise ValueError(
                f"server.{next(iter(self.server.fetched_files))} with a source, beside a model by its dimensions; expected a checkpoint "
                "(model.source), or a path"
            )
        if self.server.backend == "external":
            self._left_alone()
        if self.server.backend == "openai" and self.quality is not None:
            raise ValueError("quality with server.backend openai, whose answers have no token ids; expected backend vllm")
        quantised = isinstance(self.model, Checkpoint) and self.model.precision not in UNQUANTISED
        if quantised and self.quality is None and self.server.backend != "external":
            raise ValueError(
                f"model.precision {self.model.precision} without quality, which verifies the outputs; expected "
                "quality such as {reference: bf16, agreement: 98%}"
            )
        if self.server.prefix_cache == "primed" and self.requests.shared_prefix is None:
            raise ValueError("server.prefix_cache primed without requests.shared_prefix: there is nothing to prime it with")

    def _text_only(self) -> None:
        """NVIDIA's vllm backend takes text and gives text."""
        for field in ("quality", "evaluation"):
            if getattr(self, field) is not None:
                raise ValueError(f"{field} with server.triton_backend vllm, which answers without token ids; expected no triton_backend")
        if isinstance(self.model, Checkpoint) and self.requests.prompts is None:
            raise ValueError(
                "server.triton_backend vllm with a checkpoint and random token ids, but the backend takes text; expected requests.prompts, or "
                "no triton_backend"
            )

    def _own_prompts(self) -> None:
        """Chat templates and ends of answers, which only some engines and models have."""
        prompts, backend = self.requests.prompts, self.server.backend
        architecture: str = self.model.architecture
        if prompts is not None and prompts.format != "text" and backend != "external" and architecture != "checkpoint":
            raise ValueError(
                f"requests.prompts.format {prompts.format} with model.architecture {architecture}, which has no chat template; "
                "expected format text, or a model with a checkpoint"
            )
        if self.requests.output == "natural" and (
            isinstance(self.model, Encoder) or (backend not in _ENDS_ITSELF and architecture != "checkpoint")
        ):
            raise ValueError(
                f"requests.output natural on server.backend {backend} with architecture {architecture}, whose answers have no end of their own; "
                "expected output forced"
            )

    def _outputs(self) -> None:
        """Reject an evaluation of a model that cannot answer it."""
        quality, evaluation = self.quality, self.evaluation
        if evaluation is None:
            return
        if not isinstance(self.model, Checkpoint) and self.server.backend != "external":
            raise ValueError("evaluation of a model whose weights are random; expected a checkpoint (model.source), or backend external")
        if self.retrieval is not None or isinstance(self.model, Encoder):
            raise ValueError("evaluation of a model that generates no text by itself; expected a causal LM without retrieval")
        if evaluation.lost is not None and quality is None:
            raise ValueError("evaluation.lost without quality: there is no reference to compare with; expected quality, or accuracy alone")

    def _retrieved(self, retrieval: Retrieval) -> None:
        if (refused := unsupported_retrieval(retrieval, self.model, self.server.backend, self.requests, self.phases)) is not None:
            raise ValueError(refused)
        if self.server.prefix_cache != "off":
            raise ValueError(
                f"server.prefix_cache {self.server.prefix_cache} with retrieval, whose shared documents are not declared; expected off"
            )

    def _one_server_only(self) -> None:
        """Some phases need a single server."""
        for i, phase in enumerate(self.phases):
            if isinstance(phase, ContextPhaseSpec):
                raise ValueError(f"phases[{i}] context with replicas fill, but it measures one idle server; expected no replicas")
            if isinstance(phase, FaultPhaseSpec) and phase.inject == "server_kill":
                raise ValueError(
                    f"phases[{i}] injects server_kill with replicas fill, where other servers would hide it; expected no replicas, or overload"
                )

    @property
    def serving(self) -> InferenceWorkload:  # type: ignore[override]  # the base, which serves nothing, cannot name this class: that would be a circle
        """See Workload."""
        return self

    @property
    def engine_name(self) -> str:
        """See Workload."""
        return "external" if self.served_elsewhere else f"triton-{self.server.backend}"

    @property
    def served_elsewhere(self) -> bool:
        """See Workload."""
        return self.server.backend == "external"

    @property
    def client_apart(self) -> bool:
        """See Workload."""
        return self.server.client_placement != "same_node"

    @property
    def refused_by_amd(self) -> str | None:
        """See Workload. Triton's GPU backends need CUDA, except its Python backend, which uses the image's PyTorch."""
        if engine(self.server.backend).amd:
            return None
        return f"its server.backend {self.server.backend} needs NVIDIA's Triton images, which have no ROCm; expected backend: python"

    @property
    def number_format(self) -> str:
        """See Workload; of the served weights and arithmetic."""
        return self.model.precision

    @property
    def reference_precision(self) -> str | None:
        """See Workload."""
        return self.quality.reference_precision if self.quality is not None else None

    @property
    def reference_checkpoint(self) -> Checkpoint | None:
        """See Workload."""
        reference = self.quality.reference if self.quality is not None else None
        return reference if isinstance(reference, Checkpoint) else None

    @property
    def weight_shards(self) -> int:
        """See Workload."""
        return self.needs.count if isinstance(self.model, Llama) else 1

    @property
    def prompts_url(self) -> str | None:
        """See Workload."""
        prompts = self.requests.prompts
        return prompts.url if isinstance(prompts, UrlPrompts) else None

    @property
    def scale_out(self) -> ScaleOutPhaseSpec | None:
        """See Workload."""
        return next((phase for phase in self.phases if isinstance(phase, ScaleOutPhaseSpec)), None)

    @property
    def gpus(self) -> int | None:
        return self.needs.count if self.replicas is None else None

    @property
    def folder_variable(self) -> str | None:
        """See Workload."""
        return self.requests.prompts.folder_variable if self.requests.prompts is not None else None

    def replicas_on(self, accelerators: int) -> int:
        """See Workload."""
        return 1 if self.replicas is None else max(1, accelerators // self.needs.count)

    def unfilled_by(self, accelerators: int) -> str | None:
        """See Workload."""
        replicas = self.replicas_on(accelerators)
        for phase in self.phases:
            closed = phase.arrivals.closed if isinstance(phase, LoadPhaseSpec) else None
            if closed is not None and closed.users < replicas:
                return f"{closed.users} users of phase {phase.name} cannot occupy {replicas} servers (replicas: fill); expected {replicas} or more"
        return None

    @property
    def ready_timeout_s(self) -> float:
        """Seconds until the server must be ready."""
        if self.server.ready_timeout is not None:
            return float(self.server.ready_timeout)
        # Reading an 8B model's weights and compiling its graphs take minutes each.
        return 300.0 if self.needs.accelerator == "cpu" else 1200.0

    @property
    def added_tokens(self) -> int:
        """Tokens of retrieved documents that the server adds to each prompt."""
        return self.retrieval.added_tokens if self.retrieval else 0

    def _left_alone(self) -> None:
        """Reject settings that an external server does not allow."""
        if self.replicas is not None:
            raise ValueError("replicas fill of an external server, which is not started here; expected no replicas")
        if self.quality is not None:
            raise ValueError("quality of an external server: its weights are not ours to compare with; expected no quality")
        if self.server.ready_timeout is not None:
            raise ValueError("server.ready_timeout of an external server, which is not started here; expected no ready_timeout")
        if self.server.prefix_cache == "cold":
            raise ValueError("server.prefix_cache cold: nobody can empty the cache of an external server; expected off or primed")
        for i, phase in enumerate(self.phases):
            if isinstance(phase, FaultPhaseSpec) and phase.inject == "server_kill":
                raise ValueError(f"phases[{i}] injects server_kill into an external server; expected overload")
