"""The archive: everything that was ever measured and concluded, in SQLite or PostgreSQL."""

from plumbline.archive.archive import Archive, open_archive
from plumbline.archive.findings import WrongState
from plumbline.archive.migrate import UnknownSchema
from plumbline.archive.record import Refused
from plumbline.archive.views import (
    AuditView,
    BaselineView,
    CampaignView,
    DecisionRecord,
    DecisionView,
    FindingRecord,
    FindingView,
    IncidentRecord,
    IncidentView,
    MetricPoint,
    ObservationView,
    Outcomes,
    OutcomeView,
    PriceRecord,
    PriceView,
    QuarantineRecord,
    QuarantineView,
    SampleView,
    SeriesView,
    TrialView,
)

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
    "OutcomeView",
    "Outcomes",
    "PriceRecord",
    "PriceView",
    "QuarantineRecord",
    "QuarantineView",
    "Refused",
    "SampleView",
    "SeriesView",
    "TrialView",
    "UnknownSchema",
    "WrongState",
    "open_archive",
]
