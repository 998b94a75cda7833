"""What a trial hands back: the versioned result document, its JSON Schema, and the store it travels through."""

from plumbline.results.document import (
    SCHEMA_VERSION,
    Environment,
    Event,
    Evidence,
    FailureClass,
    LaunchRecord,
    MetricRow,
    Reason,
    Reproducibility,
    ResultDocument,
    Scalar,
    Stage,
    Status,
    Telemetry,
    Validity,
    row,
)
from plumbline.results.store import BadResult, ResultStore

__all__ = [
    "SCHEMA_VERSION",
    "BadResult",
    "Environment",
    "Event",
    "Evidence",
    "FailureClass",
    "LaunchRecord",
    "MetricRow",
    "Reason",
    "Reproducibility",
    "ResultDocument",
    "ResultStore",
    "Scalar",
    "Stage",
    "Status",
    "Telemetry",
    "Validity",
    "row",
]
