"""The archive: everything that was ever measured and concluded, in SQLite or PostgreSQL."""

from plumbline.archive.archive import Archive, open_archive
from plumbline.archive.findings import WrongState
from plumbline.archive.migrate import OldSchema, SchemaMismatch, UnknownSchema
from plumbline.archive.observations import PriceReadingRecord, PriceReadingView, SnapshotRecord, SnapshotView
from plumbline.archive.record import Refused
from plumbline.archive.records import (
    AuditView,
    BaselineView,
    DecisionRecord,
    DecisionView,
    FindingRecord,
    FindingView,
    IncidentRecord,
    IncidentView,
    PriceRecord,
    PriceView,
    QuarantineRecord,
    QuarantineView,
)
from plumbline.archive.views import CampaignView, MetricPoint, ObservationView, Outcomes, OutcomeView, SampleView, SeriesView, TrialView

__all__ = [
    "Archive",
    "AuditView",
    "BaselineView",
    "CampaignView",
    "DecisionRecord",
    "DecisionView",
    "FindingRecord",
    "FindingView",
    "IncidentRecord",
    "IncidentView",
    "MetricPoint",
    "ObservationView",
    "OldSchema",
    "OutcomeView",
    "Outcomes",
    "PriceReadingRecord",
    "PriceReadingView",
    "PriceRecord",
    "PriceView",
    "QuarantineRecord",
    "QuarantineView",
    "Refused",
    "SampleView",
    "SchemaMismatch",
    "SeriesView",
    "SnapshotRecord",
    "SnapshotView",
    "TrialView",
    "UnknownSchema",
    "WrongState",
    "open_archive",
]
