"""Servers that a cluster provider starts for a trial as a Deployment, which a scaler multiplies while the trial's pod sends the load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, model_validator

from plumbline.declarations.base import Declared, is_archived
from plumbline.declarations.providers.endpoint import EndpointLauncher
from plumbline.declarations.providers.pods import Image, PodResources, Variables
from plumbline.declarations.urls import is_of_the_node
from plumbline.declarations.workloads.remote_code import RUNS_CODE, option_with_code
from plumbline.metrics.units import Percent

_TRIGGER = ("type", "name", "metadata", "metricType", "useCachedMetrics", "authenticationRef")
_SOURCES = (
    *("prometheus", "metrics-api", "cpu", "memory", "cron", "datadog", "new-relic", "dynatrace", "graphite", "influxdb", "loki"),
    *("aws-cloudwatch", "azure-monitor", "azure-log-analytics", "gcp-cloud-monitoring", "gcp-stackdriver", "kafka", "rabbitmq", "redis"),
)
"""KEDA's scalers that read a number. Not there: `external` and `external-push`, which are programs of their own."""


class Scaling(Declared):
    """Who changes the number of servers, and between which ends."""

    by: Literal["hpa", "keda", "none"] = Field(
        description="hpa: the cluster's own autoscaler, by CPU; keda: a ScaledObject with `triggers`, which needs KEDA; none: a scaler of yours"
    )
    minimum: int = Field(1, ge=0, le=1000, description="servers at the start, and the fewest later; keda: 0 lets it take the last one, too")
    maximum: int = Field(ge=1, le=1000)
    cpu: Percent | None = Field(None, description="hpa: the use of the servers' CPU requests to hold, such as 70%")
    triggers: tuple[dict[str, JsonValue], ...] = Field((), description="keda: as its ScaledObject takes them")

    @model_validator(mode="after")
    def _consistent(self) -> Scaling:
        if self.maximum < self.minimum:
            raise ValueError(f"maximum {self.maximum} is below minimum {self.minimum}; expected at least that many")
        if self.minimum == 0 and self.by != "keda":
            raise ValueError(f"minimum 0 with by {self.by}; expected at least 1, or by: keda, which alone scales to and from zero")
        for field, by, example in (("cpu", "hpa", "70%"), ("triggers", "keda", "[{type: prometheus, metadata: {…}}]")):
            if bool(getattr(self, field)) != (self.by == by):
                raise ValueError(
                    f"by {self.by} {'with' if self.by != by else 'without'} {field}; expected {field}: {example} with by: {by} only"
                )
        for i, trigger in enumerate(() if is_archived() else self.triggers):
            if (why := _trigger_error(trigger)) is not None:
                raise ValueError(f"triggers.{i}{why}")
        return self

    @property
    def at_start(self) -> int:
        """Servers with which a trial begins: its warm-up needs one."""
        return max(self.minimum, 1)


def _trigger_error(trigger: Mapping[str, JsonValue]) -> str | None:
    """What a trial may not declare of a trigger: KEDA's operator, which has rights in the whole cluster, acts on it. None if it may."""
    if unknown := next((key for key in trigger if key not in _TRIGGER), None):
        return f".{unknown} is not allowed here; expected {', '.join(_TRIGGER)}"
    if trigger.get("type") not in _SOURCES:
        return f".type is {trigger.get('type')}; expected a scaler that reads a number: {', '.join(_SOURCES)}"
    kind = (
        reference.get("kind", "TriggerAuthentication") if isinstance(reference := trigger.get("authenticationRef", {}), Mapping) else None
    )
    if kind != "TriggerAuthentication":
        return ".authenticationRef is not of the namespace; expected {name: …} of a TriggerAuthentication in it"
    metadata = trigger.get("metadata", {})
    if not isinstance(metadata, Mapping) or not all(isinstance(value, str) for value in metadata.values()):
        return ".metadata is not a mapping of keys to text; expected that, as KEDA's documentation of the scaler lists them"
    for key, value in metadata.items():
        if is_of_the_node(str(value)):
            return f".metadata.{key} is an address of the node's own services; expected one of your metrics"
    return None


class Serving(Declared):
    """The servers of workloads with `server.backend: external`: one Deployment behind a Service, both the trial's own."""

    image: Image | None = Field(None, description="images.inference if omitted")
    command: tuple[str, ...] = Field(min_length=1, description="the server and its arguments; it listens on `port` of all addresses")
    env: Variables = Field(default_factory=dict, description="variables of the server beside launcher.env; never a secret")
    port: int = Field(8000, ge=1024, le=65535)
    path: str = Field("/v1", pattern=r"^(/[^\s?#]+)?$", description="of the protocol's root; empty for kserve_http")
    ready: Annotated[str, Field(pattern=r"^/\S*$")] | None = Field(
        None, description="path that answers 200 once it serves; a connection if omitted"
    )
    protocol: Literal["openai", "openai_chat", "kserve_http"] = Field(
        "openai", description="not kserve_grpc: its one connection would stay with one server, whatever their number"
    )
    model: str = Field(description="the model's name in requests")
    exact_output: bool = Field(True, description="it generates the requested number of tokens; false: outputs may end earlier")
    resources: PodResources | None = Field(
        None, description="of one server; launcher.resources if omitted. Each has a trial's accelerators"
    )
    trust_remote_code: bool = Field(False, description="the server may run code of its checkpoint, and of modules that `command` names")
    scaling: Scaling

    @model_validator(mode="after")
    def _as_endpoint(self) -> Serving:
        if not (self.trust_remote_code or is_archived()) and (found := option_with_code(self.command)) is not None:
            raise ValueError(f"command: {found} {RUNS_CODE}; expected none, or serving.trust_remote_code: true")
        self.endpoint(f"http://server:{self.port}")
        return self

    def endpoint(self, address: str) -> EndpointLauncher:
        """The servers as a hosted model at an address, such as http://pl-x:8000."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in ("protocol", "model", "exact_output")}
        return EndpointLauncher(kind="endpoint", url=f"{address}{self.path}", **fields)
