"""The endpoint of a trial: everything that the trial's flow needs of a server that somebody else runs."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

import grpc
import numpy as np
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc

from plumbline.declarations import EndpointLauncher, InferenceWorkload, Trial
from plumbline.declarations.models import Encoder
from plumbline.harness import endpoint_key
from plumbline.harness.inference import wire as wires
from plumbline.harness.inference.client.target import Target
from plumbline.harness.inference.endpoint import requests
from plumbline.harness.inference.endpoint.talk import channel, http_connection
from plumbline.harness.inference.prompts import Prompt
from plumbline.harness.inference.requestlog import RequestLog
from plumbline.results import Scalar

_CALL_S = 5.0


@dataclass(frozen=True)
class Endpoint:
    """A declared endpoint and a workload for it. `key`: its API key, if it asks for one."""

    launcher: EndpointLauncher
    workload: InferenceWorkload
    key: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, trial: Trial) -> Endpoint:
        """The endpoint of a trial, with the key that the launcher handed over; TypeError if the trial's provider is none."""
        launcher, workload = trial.provider.launcher, trial.workload
        if not isinstance(launcher, EndpointLauncher) or not isinstance(workload, InferenceWorkload):
            raise TypeError(f"trial {trial.trial_id} is {workload.kind} on a {launcher.kind} provider; expected inference on an endpoint")
        return cls(launcher, workload, endpoint_key.take())

    @property
    def tls(self) -> bool:
        """Whether it is spoken to over TLS."""
        return urlsplit(self.launcher.url).scheme in ("https", "grpcs")

    @property
    def address(self) -> str:
        """host:port."""
        parts = urlsplit(self.launcher.url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return f"{host}:{parts.port or (443 if self.tls else 80)}"

    @property
    def path(self) -> str:
        """What stands before the protocol's own path."""
        return urlsplit(self.launcher.url).path.rstrip("/")

    @property
    def wire(self) -> wires.Wire:
        """What its answers must carry. A server of somebody else need not tell its times."""
        model, workload = self.launcher.model, self.workload
        if self.launcher.protocol.startswith("openai"):
            # Token ids are what they are; text is cut into tokens by a tokenizer that is not ours.
            return wires.Wire("stream", model, {}, {} if workload.requests.text else {wires.INPUT_TOKENS: 4}, index=None)
        if isinstance(workload.model, Encoder):
            return wires.encoder(model, workload.model.task, workload.model.width, timed=False)
        return replace(wires.causal_lm(model, workload.requests.text), last={})

    @property
    def headers(self) -> dict[str, str]:
        """Sent with every request."""
        return {} if self.key is None else {"Authorization": f"Bearer {self.key}"}

    def target(self) -> Target:
        """Where the load goes. Nobody here can say that the server has ended."""
        return Target(
            self.address,
            self.wire,
            lambda: True,
            protocol=self.launcher.protocol,
            tls=self.tls,
            headers=self.headers,
            path=self.path,
            exact=self.launcher.exact_output,
        )

    def body(self, number: int, prompt: Prompt, output_tokens: int) -> bytes:
        """Request `number`, serialised for `target()`."""
        protocol, wire, model = self.launcher.protocol, self.wire, self.workload.model
        if protocol in ("openai", "openai_chat"):
            exact = self.launcher.exact_output
            return requests.completion(self.launcher.model, prompt, output_tokens, chat=protocol == "openai_chat", exact=exact)
        if isinstance(model, Encoder):
            asked = wires.encoder_inputs(prompt, model.task)
            return wire.body(number, asked) if protocol == "kserve_grpc" else requests.infer(number, asked)
        if protocol == "kserve_grpc":
            return wires.lm_body(wire, number, prompt, output_tokens)
        return requests.generate(prompt, output_tokens)

    def facts(self) -> dict[str, Scalar]:
        """What is known of the endpoint, without its key. `endpoint.server`: how it names itself; None if it does not.

        To be called after the first inference: asking wakes an endpoint that was scaled to zero.
        """
        return {
            "endpoint.url": self.launcher.url,
            "endpoint.protocol": self.launcher.protocol,
            "endpoint.model": self.launcher.model,
            "endpoint.exact_output": self.launcher.exact_output,
            "endpoint.server": self._server(),
        }

    def _server(self) -> str | None:
        try:
            return self._by_grpc() if self.launcher.protocol == "kserve_grpc" else self._by_http()
        except (OSError, http.client.HTTPException, grpc.RpcError, ValueError):
            return None  # it serves without saying what it is

    def _by_grpc(self) -> str:
        with channel(self.address, tls=self.tls) as opened:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(opened)
            found = stub.ServerMetadata(
                messages.ServerMetadataRequest(), timeout=_CALL_S, metadata=[(k.lower(), v) for k, v in self.headers.items()]
            )
        return f"{found.name} {found.version}"

    def _by_http(self) -> str | None:
        kserve = self.launcher.protocol == "kserve_http"
        connection = http_connection(self.address, tls=self.tls, timeout_s=_CALL_S)
        try:
            connection.request("GET", f"{self.path}{'/v2' if kserve else '/models'}", headers=self.headers)
            response = connection.getresponse()
            if kserve and response.status == 200:
                about = json.loads(response.read(65536))
                return f"{about['name']} {about['version']}"
            return response.headers.get("Server")
        finally:
            connection.close()


def tokens_per_arrival(log: RequestLog) -> float | None:
    """Tokens of one answer that came in one piece, in the mean over finished requests: above 1, inter-token latencies are a piece's."""
    tokens = pieces = 0
    for i in np.flatnonzero(log.ok):
        arrived = log.tokens(int(i))
        tokens, pieces = tokens + len(arrived), pieces + len(np.unique(arrived))
    return tokens / pieces if pieces else None
