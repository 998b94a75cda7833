"""KServe v2 besides inference: readiness, metadata, statistics. Every call has a deadline."""

from __future__ import annotations

import time
from dataclasses import dataclass

import grpc
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc

_CALL_S = 5.0


def ready(address: str, model: str, within_s: float) -> bool:
    """Whether the server and the model are ready, waiting for at most `within_s`."""
    deadline = time.monotonic() + within_s
    with grpc.insecure_channel(address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        while time.monotonic() < deadline:
            try:
                server = stub.ServerReady(messages.ServerReadyRequest(), timeout=1.0, wait_for_ready=False)
                if server.ready and stub.ModelReady(messages.ModelReadyRequest(name=model), timeout=1.0).ready:
                    return True
            except grpc.RpcError:
                return False
            time.sleep(0.01)
    return False


def version(address: str) -> str:
    """The server's version, such as 2.51.0; raises grpc.RpcError."""
    with grpc.insecure_channel(address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        return str(stub.ServerMetadata(messages.ServerMetadataRequest(), timeout=_CALL_S).version)


@dataclass(frozen=True)
class Statistics:
    """The server's counters of one model: requests that succeeded and failed, and total seconds that succeeded ones were queued."""

    succeeded: int
    failed: int
    queued_s: float

    def __sub__(self, earlier: Statistics) -> Statistics:
        return Statistics(self.succeeded - earlier.succeeded, self.failed - earlier.failed, self.queued_s - earlier.queued_s)


def statistics(address: str, model: str) -> Statistics:
    """The counters now; raises grpc.RpcError."""
    with grpc.insecure_channel(address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        found = stub.ModelStatistics(messages.ModelStatisticsRequest(name=model), timeout=_CALL_S).model_stats
    counters = [item.inference_stats for item in found]
    return Statistics(sum(c.success.count for c in counters), sum(c.fail.count for c in counters), sum(c.queue.ns for c in counters) / 1e9)
