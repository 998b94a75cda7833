"""A hosted model as a provider: its address, protocol, key, and what its requests must have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from urllib.parse import urlencode

from pydantic import BeforeValidator, Field, model_validator

from plumbline.declarations.base import ConnectionId, Declared, Name
from plumbline.declarations.providers.launcher_base import LauncherBase, WatchKind
from plumbline.declarations.providers.pods import ObjectName
from plumbline.declarations.secret_texts import is_secret_name
from plumbline.declarations.urls import DeclaredUrl, is_loopback, sends_in_clear
from plumbline.metrics.units import Duration

if TYPE_CHECKING:
    from plumbline.declarations.workloads.any_workload import AnyWorkload

HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$")]
HeaderValue = Annotated[str, Field(pattern=r"^[\x21-\x7e]([\x20-\x7e]{0,998}[\x21-\x7e])?$")]
HeaderValues = Annotated[
    tuple[HeaderValue, ...],
    BeforeValidator(lambda given: (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list) else given),
    Field(min_length=1, max_length=1000),
]
_OWN_HEADERS = frozenset(
    ("host", "content-length", "content-type", "transfer-encoding", "connection", "accept", "accept-encoding", "user-agent", "te", "expect")
)


def _is_secret(name: str) -> bool:
    """Of a header or parameter; there a name that ends with key is a secret's, too."""
    return is_secret_name(name) or re.search(r"\bkey$", name, re.IGNORECASE) is not None


class Deployment(Declared):
    """A Deployment on a cluster, and the Airflow connection (type kubernetes) with the right to get it."""

    connection: ConnectionId
    namespace: Name
    name: ObjectName


class ClientPlace(Declared):
    """The provider where an endpoint's client runs: as a process of a local one, as a pod of a cluster's."""

    provider: Name
    secret: ObjectName | None = Field(
        None,
        description="of a pod: Secret in its namespace whose PLUMBLINE_ENDPOINT_KEY is the API key; launcher.connection is not sent there",
    )
    at: str | None = Field(None, description="cloud and region of that provider, which trials carry; added when the declarations are read")


class EndpointLauncher(LauncherBase):
    """A hosted model for inference: only the client runs, on one of our machines."""

    implementation = "plumbline.launch.endpoint:EndpointClientLauncher"
    kind: Literal["endpoint"]
    url: DeclaredUrl = Field(
        pattern=r"^(https?|grpcs?)://[^\s/@?#]+(/[^\s?#]*)?$",
        description="the model's address, such as https://api.example.com/v1; without user, password or query, since every result has it",
    )
    protocol: Literal["kserve_grpc", "kserve_http", "openai", "openai_chat"] = Field(
        description="openai: /completions, which also takes token ids; openai_chat: /chat/completions, text only"
    )
    model: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}$", description="the model's name at the endpoint, such as gpt or org/chat-8b"
    )
    exact_output: bool = Field(
        True,
        description="it generates the requested number of tokens; false: outputs may end earlier, which are incomparable but not failures",
    )
    connection: ConnectionId | None = Field(None, description="Airflow connection whose password is the API key; no key if omitted")
    key_header: HeaderName = Field(
        "Authorization", description="header with the key: Authorization has it after Bearer, others, such as api-key, alone"
    )
    headers: dict[HeaderName, HeaderValues] = Field(
        default_factory=dict,
        description="further headers, such as a tenant or a priority: one value for each request, or a list whose values go out in turn",
    )
    query: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")], Annotated[str, Field(min_length=1, max_length=500)]] = Field(
        default_factory=dict, description="query parameters of each request, such as {api-version: 2024-10-21}; never a key"
    )
    max_tokens_field: Literal["max_tokens", "max_completion_tokens", "max_new_tokens"] = Field(
        "max_tokens", description="protocol openai and openai_chat: the field with the number of output tokens"
    )
    stream_options: bool = Field(
        True, description="protocol openai and openai_chat: ask for the usage by stream_options; false: for a server that rejects the field"
    )
    retry_after: Literal["fail", "wait"] = Field(
        "fail",
        description="wait: a request that is refused with a time to wait (429, 503) is sent again then, within its timeout; it counts from its "
        "schedule all the same",
    )
    machine: Name = Field("this-machine", description="where the client runs; trials that name the same machine never overlap")
    client: ClientPlace | None = Field(None, description="where the client runs, such as {provider: gke-eu}; here if omitted")
    server_process: Literal["same_machine"] | None = Field(
        None,
        description="same_machine: the process that listens on the url's port is the server under test, whose CPU time is no contention",
    )
    deployment: Deployment | None = Field(
        None, description="the Deployment behind it: the number of its replicas is recorded while a trial runs"
    )
    timeout: Duration = Field(3600.0, description="time limit of a trial")

    @model_validator(mode="after")
    def _check_protocol(self) -> EndpointLauncher:
        scheme = self.url.partition("://")[0]
        if (self.protocol == "kserve_grpc") != scheme.startswith("grpc"):
            raise ValueError(
                f'url has the scheme "{scheme}", which does not carry {self.protocol}; expected '
                + ("grpc:// or grpcs://" if self.protocol == "kserve_grpc" else "http:// or https://")
            )
        if self.server_process is not None and not self.near:
            raise ValueError(
                f"server_process {self.server_process}, but {self.url} is on another machine; expected a loopback url such as "
                "http://127.0.0.1:8000/v1, or no server_process"
            )
        for name in (self.key_header, *self.headers):
            if name.lower() in _OWN_HEADERS:
                raise ValueError(f"{name} is a header that the client sets itself; expected another name")
        for name in self.headers:
            if name.lower() == self.key_header.lower() or _is_secret(name):
                raise ValueError(
                    f"headers.{name} would be written into every result, as a key must not be; expected launcher.connection, and key_header "
                    "for the header's name"
                )
        if found := next(filter(_is_secret, self.query), None):
            raise ValueError(f"query.{found} would be written into every result, as a key must not be; expected launcher.connection")
        if self.protocol == "kserve_grpc":
            several = next((name for name, values in self.headers.items() if len(values) > 1), None)
            if several or self.query or self.retry_after == "wait":
                what = f"headers.{several} has several values" if several else "query" if self.query else "retry_after"
                raise ValueError(f"{what} with kserve_grpc, which has no place for it; expected protocol kserve_http or openai")
        if self.protocol == "kserve_grpc" and self.url.count("/") > 2:
            raise ValueError(f'url "{self.url}" has a path, which gRPC has no place for; expected {scheme}://host:port')
        if self.connection is not None and sends_in_clear(self.url):
            raise ValueError(
                f'url has the scheme "{scheme}", which would send the key of {self.connection} in clear; expected {scheme}s://'
            )
        return self

    @property
    def fixed_headers(self) -> dict[str, str]:
        """Headers that all requests share."""
        return {name: values[0] for name, values in self.headers.items() if len(values) == 1}

    def headers_of(self, number: int) -> dict[str, str]:
        """Headers of request `number` alone."""
        return {name: values[number % len(values)] for name, values in self.headers.items() if len(values) > 1}

    @property
    def declared_request(self) -> dict[str, str | bool]:
        """Request settings that differ from their defaults, as facts."""
        headers = "; ".join(f"{name}: {', '.join(values)}" for name, values in sorted(self.headers.items()))
        return {
            **({"headers": headers} if headers else {}),
            **({"query": urlencode(sorted(self.query.items()))} if self.query else {}),
            **{
                name: value
                for name in ("max_tokens_field", "stream_options", "retry_after")
                if (value := getattr(self, name)) != type(self).model_fields[name].default
            },
        }

    hosted: ClassVar[bool] = True
    watches: ClassVar[frozenset[WatchKind]] = frozenset({"uptime"})
    not_provisioned: ClassVar[str | None] = "the endpoint's server runs already"

    @property
    def connections(self) -> tuple[str, ...]:
        return tuple(each for each in (self.connection, self.deployment and self.deployment.connection) if isinstance(each, str))

    def unsuitable(self, workload: AnyWorkload) -> str | None:
        if workload.kind == "training":
            return f"it is {workload.kind}, but an endpoint serves inference only"
        return super().unsuitable(workload)

    def server_mismatch(self, workload: AnyWorkload) -> str | None:
        if workload.kind == "training":
            return None
        backend, placement = workload.server.backend, workload.server.client_placement
        if backend != "external":
            return f"its server.backend {backend} is started for each trial, but an endpoint has a server; expected backend: external"
        if self.near != (placement == "same_node"):
            where = "the client's own machine" if self.near else "another machine"
            return f"its client_placement is {placement}, but {self.url} is on {where}"
        prompts = workload.requests.prompts
        if prompts is not None and prompts.format != "text" and self.protocol != "openai_chat":
            return (
                f"its requests.prompts are {prompts.format}, for which {self.protocol} has no chat template; expected protocol openai_chat"
            )
        if workload.evaluation is not None and not self.protocol.startswith("openai"):
            return f"its evaluation needs answers as text, which {self.protocol} does not give; expected protocol openai or openai_chat"
        if self.protocol == "openai_chat" and not workload.requests.text:
            return "it sends token ids, but openai_chat takes text only; expected requests: {text: true}"
        if self.protocol.startswith("openai") and workload.model.architecture == "encoder":
            return f"its model is an encoder, but {self.protocol} serves completions only; expected kserve_http or kserve_grpc"
        return None

    @property
    def client_place(self) -> str:
        return self.machine if self.client is None or self.client.at is None else self.client.at

    def extend_specification(self, spec: dict[str, Any]) -> None:
        if self.client is not None:
            spec["server"]["client"] = self.client_place
        spec["requests"]["exact_output"] = self.exact_output
        # What changes the load, or the order in which a server takes it.
        spec["requests"] |= {name: self.declared_request[name] for name in ("headers", "retry_after") if name in self.declared_request}

    @property
    def near(self) -> bool:
        """Whether the URL names the client's own machine."""
        return is_loopback(self.url)
