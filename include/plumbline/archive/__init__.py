"""The archive: everything that was ever measured and concluded, in SQLite or PostgreSQL."""

from plumbline.archive.archive import Archive, NoArchive, open_archive
from plumbline.archive.findings import WrongState
from plumbline.archive.migrate import OldSchema, SchemaMismatch, UnknownSchema
from plumbline.archive.notebook import frame
from plumbline.archive.recording import Refused
from plumbline.archive.records import (
    AuditView,
    BaselineView,
    CampaignView,
    IncidentRecord,
    IncidentView,
    MetricPoint,
    Outcomes,
    PriceReadingView,
    QuarantineRecord,
    QuarantineView,
    SeriesView,
    SnapshotRecord,
    SnapshotView,
    TrialView,
)
from plumbline.results.stored import DecisionRecord, DecisionView, FindingRecord, FindingView, PriceRecord, PriceView
