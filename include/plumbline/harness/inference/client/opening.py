"""Which transport speaks a target's protocol."""

from __future__ import annotations

from plumbline.harness.inference.arrivals import PhaseLoad
from plumbline.harness.inference.client import kserve_grpc
from plumbline.harness.inference.client.target import Bodies, Target
from plumbline.harness.inference.client.transport import Transport


def transport_of(target: Target, load: PhaseLoad, bodies: Bodies) -> Transport:
    """The way to a target; ValueError if nobody here speaks its protocol."""
    if target.protocol == "kserve_grpc":
        return kserve_grpc.Transport(target, load, bodies)
    if target.protocol in ("kserve_http", "openai", "openai_chat"):
        from plumbline.harness.inference.endpoint.transports import http_transport  # only endpoints are spoken to over HTTP

        return http_transport(target, load, bodies)
    raise ValueError(f"target.protocol is {target.protocol!r}; expected kserve_grpc, kserve_http, openai or openai_chat")
