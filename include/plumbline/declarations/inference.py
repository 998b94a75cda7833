"""An inference workload: model, server, requests, load phases, service-level objective."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, model_validator

from plumbline.declarations.base import Declared
from plumbline.declarations.load import ContextPhaseSpec, FaultPhaseSpec, LoadPhaseSpec, PhaseSpec, Requests
from plumbline.declarations.models import Encoder, Llama, Quality, ServedModel, unservable
from plumbline.declarations.phases import PHASES
from plumbline.declarations.retrieval import Retrieval, refusal
from plumbline.declarations.sizes import check_sizes
from plumbline.declarations.units import Duration
from plumbline.declarations.workload import Workload


class Server(Declared):
    """What serves, and how it is set up.

    python       Triton's Python backend: the project's own causal LM that streams its tokens, or its own encoder
    vllm, tensorrtllm    Triton with NVIDIA's images: a causal LM with dummy weights from a config
    onnxruntime, pytorch Triton with NVIDIA's images: tensor models (embedding, reranking, vision)
    external     a server that exists already: the provider's launcher says where
    """

    backend: Literal["python", "vllm", "tensorrtllm", "onnxruntime", "pytorch", "external"]
    sequences: int = Field(64, ge=1, le=65536, description="requests that are computed at once; further ones wait")
    prefix_cache: Literal["off", "cold", "primed"] = Field(
        "off", description="cold: on and empty when a phase begins; primed: the shared prefixes are in it"
    )
    client_placement: Literal["same_node", "other_node", "other_region"] = "same_node"
    ready_timeout: Duration | None = Field(
        None,
        description="a server that does not answer by then ends the trial; left out: 20min on accelerators, 5min on CPUs",
    )


_DECLARED = ("warmup", "steady", "context", "stress", "sweep", "burst", "fault")


class Slo(Declared):
    """Limits that every good request meets; goodput counts the requests that met all of them."""

    time_to_first_token: Duration | None = None
    inter_token_latency: Duration | None = Field(None, description="limit on the request's mean inter-token latency")
    request_scheduled_latency: Duration | None = None

    @model_validator(mode="after")
    def _some(self) -> Slo:
        if self.time_to_first_token is None and self.inter_token_latency is None and self.request_scheduled_latency is None:
            raise ValueError("an empty slo limits nothing; expected at least one limit such as time_to_first_token: 2s")
        return self


class InferenceWorkload(Workload):
    """One YAML file under `include/config/workloads/inference/`."""

    kind: Literal["inference"]
    model: ServedModel
    server: Server
    replicas: Literal["fill"] | None = Field(
        None, description="fill: as many servers at once as the node's accelerators hold, which share the load; left out: one server"
    )
    requests: Requests
    phases: Annotated[tuple[PhaseSpec, ...], Field(min_length=1)]
    request_timeout: Duration = 30.0
    slo: Slo
    quality: Quality | None = None
    retrieval: Retrieval | None = Field(None, description="documents that are searched for each request and put before it")

    @model_validator(mode="after")
    def _consistent(self) -> InferenceWorkload:
        order = [PHASES.index(phase.name) for phase in self.phases]
        for i, (before, after) in enumerate(pairwise(order), start=1):
            if after <= before:
                raise ValueError(
                    f'phases[{i}] "{self.phases[i].name}" comes after "{self.phases[i - 1].name}"; expected each phase at most once, '
                    f"in the order {' → '.join(p for p in PHASES if p in _DECLARED)}"
                )
        if "steady" not in (phase.name for phase in self.phases):
            raise ValueError("no steady phase; expected one, such as {name: steady, arrivals: {poisson: {rate: 8/s}}, duration: 60s}")
        check_sizes(self.requests, self.phases, self.model, own_tokenizer=self.server.backend != "external")
        self._own_lengths()
        self._model_and_server()
        if self.replicas is not None:
            self._one_server_only()
        if self.retrieval is not None:
            self._retrieved(self.retrieval)
        measured = {phase.name for phase in self.phases} | {"cold_start"}
        if any(isinstance(phase, FaultPhaseSpec) for phase in self.phases):
            measured.add("recovery")
        for criterion in self.acceptance:
            if criterion.phase not in measured:
                raise ValueError(f'"{criterion.text}" names a phase that is not declared; expected one of {", ".join(sorted(measured))}')
        return self

    def _own_lengths(self) -> None:
        """A growing context sets the lengths of prompts itself, and each token of them must be computed."""
        for i, phase in enumerate(self.phases):
            if not isinstance(phase, ContextPhaseSpec):
                continue
            for what in ("turns", "shared_prefix"):
                if getattr(self.requests, what) is not None:
                    raise ValueError(
                        f"phases[{i}] context with requests.{what}: the phase's prompts have the lengths that it says; expected no {what}"
                    )
            if self.server.prefix_cache != "off":
                raise ValueError(
                    f"phases[{i}] context with server.prefix_cache {self.server.prefix_cache}: its prompts have nothing in common; expected off"
                )

    def _model_and_server(self) -> None:
        able = {
            "gpt": ("python", "external"),
            "llama": ("vllm", "tensorrtllm", "external"),
            "encoder": ("python", "onnxruntime", "pytorch", "external"),
        }[self.model.architecture]
        if self.server.backend not in able:
            raise ValueError(
                f"server.backend {self.server.backend} does not serve architecture {self.model.architecture}; expected server.backend {' or '.join(able)}"
            )
        if refusal := unservable(self.model, self.server.backend, self.needs.accelerator):
            raise ValueError(refusal)
        if self.requests.text and self.server.backend in ("onnxruntime", "pytorch"):
            raise ValueError(f"requests.text on server.backend {self.server.backend}, which has no tokenizer; expected text: false")
        if isinstance(self.model, Encoder) and self.model.task == "vision" and self.requests.text:
            raise ValueError("requests.text for a vision model, which is asked with images; expected text: false")
        if isinstance(self.model, Encoder) and self.requests.output_tokens.constant != 1:
            raise ValueError("an encoder answers once; expected requests.output_tokens: {constant: 1}")
        if isinstance(self.model, Encoder) and self.server.prefix_cache != "off" and self.server.backend != "external":
            raise ValueError(
                f"server.prefix_cache {self.server.prefix_cache} for an encoder: each token sees those after it, so nothing of a prefix can be "
                "kept; expected off"
            )
        if self.server.backend == "external":
            self._left_alone()
        reference = "bf16" if isinstance(self.model, Llama) else "fp32"
        if self.model.precision != reference and self.quality is None and self.server.backend != "external":
            raise ValueError(
                f"model.precision {self.model.precision} without quality: speed says nothing if the answers got worse; expected "
                f"quality such as {{reference: {reference}, agreement: 98%}}"
            )
        if self.server.prefix_cache == "primed" and self.requests.shared_prefix is None:
            raise ValueError("server.prefix_cache primed without requests.shared_prefix: there is nothing to prime it with")

    def _retrieved(self, retrieval: Retrieval) -> None:
        if (refused := refusal(retrieval, self.model, self.server.backend, self.requests, self.phases)) is not None:
            raise ValueError(refused)
        if self.server.prefix_cache != "off":
            raise ValueError(
                f"server.prefix_cache {self.server.prefix_cache} with retrieval: which prompts share a document is not declared; expected off"
            )

    def _one_server_only(self) -> None:
        """Phases that measure one server cannot be shared by several."""
        for i, phase in enumerate(self.phases):
            if isinstance(phase, ContextPhaseSpec):
                raise ValueError(f"phases[{i}] context with replicas fill: it measures one idle server; expected no replicas")
            if isinstance(phase, FaultPhaseSpec) and phase.inject in ("server_kill", "model_reload"):
                raise ValueError(
                    f"phases[{i}] injects {phase.inject} with replicas fill: the other servers would hide it; expected no replicas, or "
                    "overload or slow_client"
                )

    @property
    def gpus(self) -> int | None:
        return self.needs.count if self.replicas is None else None

    def replicas_on(self, accelerators: int) -> int:
        """Servers that run at once on a node with so many accelerators (of a CPU: cores); at least 1."""
        return 1 if self.replicas is None else max(1, accelerators // self.needs.count)

    def unfilled_by(self, accelerators: int) -> str | None:
        """Why the load cannot be shared by all servers of a node; None if it can."""
        replicas = self.replicas_on(accelerators)
        for phase in self.phases:
            closed = phase.arrivals.closed if isinstance(phase, LoadPhaseSpec) else None
            if closed is not None and closed.users < replicas:
                return f"{closed.users} users of phase {phase.name} cannot keep {replicas} servers busy (replicas: fill); expected {replicas} or more"
        return None

    @property
    def ready_timeout_s(self) -> float:
        """How long the server may take to load, compile and answer."""
        if self.server.ready_timeout is not None:
            return float(self.server.ready_timeout)
        # An 8B model's weights are read from an empty page cache and its graphs compiled for the first time: minutes of both.
        return 300.0 if self.needs.accelerator == "cpu" else 1200.0

    @property
    def added_tokens(self) -> int:
        """Tokens that the server itself puts before each prompt: those of retrieved documents."""
        return self.retrieval.added_tokens if self.retrieval else 0

    def _left_alone(self) -> None:
        """What nobody can do to a server that somebody else runs, or know of it."""
        if self.replicas is not None:
            raise ValueError("replicas fill of an external server, which is not started here; expected no replicas")
        if self.quality is not None:
            raise ValueError("quality of an external server: its weights are not ours to compare with; expected no quality")
        if self.server.ready_timeout is not None:
            raise ValueError("server.ready_timeout of an external server, which is not started here; expected no ready_timeout")
        if self.server.prefix_cache == "cold":
            raise ValueError("server.prefix_cache cold: nobody can empty the cache of an external server; expected off or primed")
        for i, phase in enumerate(self.phases):
            if isinstance(phase, FaultPhaseSpec) and phase.inject in ("server_kill", "model_reload"):
                raise ValueError(f"phases[{i}] injects {phase.inject} into an external server; expected overload or slow_client")
