"""The versioned result document of a trial, its JSON Schema, and the store that carries it."""

from typing import TYPE_CHECKING

from plumbline.on_demand import names_on_demand

if TYPE_CHECKING:
    from plumbline.metrics.rows import Curve, MetricRow, Point, Reason, Scalar, metric_curve, metric_row, share_row
    from plumbline.results.bounded_json import InvalidResult
    from plumbline.results.check_line import CheckLine, CheckName
    from plumbline.results.document import (
        FAILED_AS_DECLARED,
        SCHEMA_VERSION,
        Environment,
        Event,
        Evidence,
        HeldPart,
        LaunchRecord,
        Notice,
        PodRecord,
        ReplicaCount,
        Reproducibility,
        ResultDocument,
        Signature,
        Stage,
        StageSource,
        Status,
        Telemetry,
        Validity,
    )
    from plumbline.results.failure_class import FailureClass
    from plumbline.results.gpu_counter import GpuCounter
    from plumbline.results.limit import LIMIT_WORDS, Limit, LimitName
    from plumbline.results.store import ResultStore
else:
    __getattr__ = names_on_demand(__name__)

__all__ = [
    "FAILED_AS_DECLARED",
    "LIMIT_WORDS",
    "SCHEMA_VERSION",
    "CheckLine",
    "CheckName",
    "Curve",
    "Environment",
    "Event",
    "Evidence",
    "FailureClass",
    "GpuCounter",
    "HeldPart",
    "InvalidResult",
    "LaunchRecord",
    "Limit",
    "LimitName",
    "MetricRow",
    "Notice",
    "PodRecord",
    "Point",
    "Reason",
    "ReplicaCount",
    "Reproducibility",
    "ResultDocument",
    "ResultStore",
    "Scalar",
    "Signature",
    "Stage",
    "StageSource",
    "Status",
    "Telemetry",
    "Validity",
    "metric_curve",
    "metric_row",
    "share_row",
]
